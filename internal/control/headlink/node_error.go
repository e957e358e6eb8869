package headlink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
)

// nodeEndTime is how long a node may take to end that has closed its connection.
const nodeEndTime = 2 * time.Second

// WithNodeError collects the nodes' logs, which go with the hosts, and adds to the loss of
// the head the error that it left, or the end of its log.
func (f *Files) WithNodeError(ctx context.Context, cause error) error {
	for begun := time.Now(); time.Since(begun) < nodeEndTime; { // it writes why when it ends
		if alive, err := f.Lease.NodeAlive(ctx, 0); err != nil || !alive || core.Sleep(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	f.Logs(ctx)
	if !core.IsKind(cause, core.Lost) && !core.IsKind(cause, core.Transient) {
		return cause
	}
	remedy := fmt.Sprintf("`bee logs --node 0 %s` shows what it wrote.", f.Run)
	if failure, is := f.nodeError(ctx); is {
		return byNodeError(cause, f.Site, failure, remedy)
	}
	name := NodeLog(f.Dir, f.Attempt, 0)
	raw, _ := fsutil.Tail(filepath.Dir(name), filepath.Base(name), 64<<10) // a log that is not there ends nowhere
	log := strings.TrimSpace(core.Printable(string(raw), 10*len(raw)+3))
	if last := log[strings.LastIndexByte(log, '\n')+1:]; last != "" {
		return &core.Error{
			Kind: core.KindOf(cause), Op: "start on site", Object: f.Site, Remedy: remedy,
			Err: fmt.Errorf("%w; its node's log ends with: %s", cause, last),
		}
	}
	return cause
}

// byNodeError is the loss of a head by the error that it left. Its kind counts only where
// another site may do better: whether the run has failed is not for a site to decide.
func byNodeError(cause error, site string, f rpc.Failure, remedy string) error {
	e := &core.Error{Kind: core.KindOf(cause), Op: "start on site", Object: site, Err: errors.New(f.Message), Remedy: cmp.Or(f.Remedy, remedy)}
	if kind := core.KindNamed(f.Kind); placement.Passable(&core.Error{Kind: kind}) {
		e.Kind = kind
	}
	return e
}
