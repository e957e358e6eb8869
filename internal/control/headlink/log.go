package headlink

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// logTimeout bounds how long nodes' logs are waited for.
const logTimeout = 5 * time.Second

// OutputLog is the file on the submitting machine with the output of an attempt that is over.
func OutputLog(runDir string, attempt int) string {
	return filepath.Join(runDir, fmt.Sprintf("output-%d.log", attempt))
}

// NodeLog is the file on the submitting machine with the log of an attempt's node.
func NodeLog(runDir string, attempt, rank int) string {
	return filepath.Join(runDir, fmt.Sprintf("node-%d-%d.log", attempt, rank))
}

// Logs fetches the nodes' logs, as far as they can be had soon: a host that is gone takes its
// log along.
func (f *Files) Logs(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	var wg sync.WaitGroup
	gate := make(chan struct{}, 16)
	for _, host := range f.Lease.Hosts() {
		gate <- struct{}{}
		wg.Go(func() {
			f.Guard(func() {
				defer func() { <-gate }()
				rank := host.Index * f.NodesPerHost
				core.BestEffort(FetchFile(ctx, f.Lease, driver.Transfer{Host: host.Index, Remote: protocol.NodeLogPath(host.Dir, rank), Local: NodeLog(f.Dir, f.Attempt, rank)}, maxNodeLog))
			})
		})
	}
	wg.Wait()
}
