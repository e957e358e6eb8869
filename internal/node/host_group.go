package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// hostGroup is what the nodes of one host share that has several, one for each
// of its virtual machines: they are parts of one process, so that a host dies
// as a whole, and its guests are on one switch.
type hostGroup struct {
	settled chan struct{} // closed once addrs are known, or never will be
	once    sync.Once
	addrs   []string // of the head, where it is one of us

	mu     sync.Mutex
	fabric *fabric.Fabric
	users  int
}

func newHostGroup() *hostGroup { return &hostGroup{settled: make(chan struct{})} }

// settle reports to the others where the head is.
func (hh *hostGroup) settle(addrs []string) {
	hh.once.Do(func() {
		hh.addrs = addrs
		close(hh.settled)
	})
}

// headAddresses gives the head's to a node that was started beside it, before
// they were known.
func (hh *hostGroup) headAddresses(ctx context.Context) ([]string, error) {
	select {
	case <-hh.settled:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if len(hh.addrs) == 0 {
		return nil, errors.New("the head beside it could not begin")
	}
	return hh.addrs, nil
}

// join gives the host's switch, which the first to ask makes.
func (hh *hostGroup) join(build func() *fabric.Fabric) *fabric.Fabric {
	hh.mu.Lock()
	defer hh.mu.Unlock()
	if hh.fabric == nil {
		hh.fabric = build()
	}
	hh.users++
	return hh.fabric
}

// leave closes the switch when the last of its users goes.
func (hh *hostGroup) leave() {
	hh.mu.Lock()
	defer hh.mu.Unlock()
	if hh.users--; hh.users == 0 {
		hh.fabric.Close()
	}
}

// RunAll is the life of all nodes of this process: that of the configuration,
// and its siblings.
func RunAll(ctx context.Context, c plan.Config, o Options) error {
	o.hostGroup = newHostGroup()
	configs := append([]plan.Config{c}, c.Siblings...)
	errs := make([]error, len(configs))
	var wg sync.WaitGroup
	for i, c := range configs {
		wg.Go(func() {
			if errs[i] = Run(ctx, c, o); c.Rank == 0 {
				o.hostGroup.settle(nil) // where it never got so far
			}
			if errs[i] != nil {
				o.Log.Error("node ended", "rank", c.Rank, "kind", core.KindOf(errs[i]), "remedy", core.Remedy(errs[i]), "err", errs[i])
				writeError(c, errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// writeError leaves a node's error for the controller, which reads it once the node is gone.
func writeError(c plan.Config, err error) {
	raw, jerr := json.Marshal(rpc.Fail(err))
	if jerr == nil {
		core.BestEffort(fsutil.WriteFile(plan.NodeErrorPath(c.Host.Dir, c.Rank), raw, 0o600)) // the log has it too
	}
}

// headAddresses gives where the head is found: of a node that was started together with
// the head, its configuration does not say so.
func (n *node) headAddresses(ctx context.Context) ([]string, error) {
	if len(n.config.Head) > 0 {
		return n.config.Head, nil
	}
	addrs, err := n.hostGroup.headAddresses(ctx)
	if err != nil {
		return nil, &core.Error{Kind: core.Lost, Op: "join the head of", Object: n.config.Owner.String(), Err: err}
	}
	return addrs, nil
}
