package launch

import (
	"context"
	"errors"
	"sync"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// Nodes starts the head, learns its addresses, and starts the others.
func Nodes(ctx context.Context, lease driver.Lease, configs []protocol.Config, connect func(context.Context) (headlink.Head, error)) error {
	if err := lease.Launch(ctx, nodeCommand(configs[0])); err != nil {
		return err
	}
	if len(configs) == 1 {
		return nil
	}
	head, err := connect(ctx)
	if err != nil {
		return err
	}
	defer head.Close()
	addrs, err := head.Addresses(ctx)
	if err == nil {
		err = protocol.CheckAddresses(addrs)
	}
	if err != nil {
		return err
	}
	var (
		wg   sync.WaitGroup
		gate = make(chan struct{}, 16)
		errs = make([]error, len(configs))
	)
	for i := 1; i < len(configs); i++ {
		configs[i].Head = addrs
		for s := range configs[i].Siblings {
			configs[i].Siblings[s].Head = addrs
		}
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			errs[i] = core.Caught(func() error { return lease.Launch(ctx, nodeCommand(configs[i])) })
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
