package launch

import (
	"context"
	"encoding/json"
	"fmt"
	"net"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// Spec is an attempt in the form in which a site can start it by itself: all that the
// controller knows of it, but for the hosts. The nodes' keys are made when they
// are started. A Spec never has secrets, as it is stored on a disk.
type Spec struct {
	Version int            `json:"version"`
	Owner   core.Owner     `json:"owner"`
	Plan    *protocol.Plan `json:"plan"`
	Nodes   int            `json:"nodes"`
	PerHost int            `json:"per_host"`
	Runtime string         `json:"runtime"`
	Network string         `json:"network,omitempty"`
	// Shared is the attempt's key: see protocol.Config.
	Shared []byte `json:"shared"`
}

// Configs completes the plan with the hosts of a lease, and gives the
// configurations of the nodes there.
func (o *Spec) Configs(l driver.Lease) ([]protocol.Config, error) {
	hosts := NodeHosts(o.Nodes, o.PerHost, l.Hosts())
	o.Plan.Names, o.Plan.Deadline = nil, l.Deadline()
	for _, h := range hosts {
		o.Plan.Names = append(o.Plan.Names, h.Name)
	}
	return nodeConfigs(o.Owner, hosts, o.PerHost, o.Plan, o.Runtime, o.Network, o.Shared)
}

// Starter executes the launch spec of an attempt on its own hosts, in the
// controller's stead.
func Starter(connect func(net.Conn) (headlink.Head, error)) driver.Starter {
	return func(ctx context.Context, l driver.Lease, raw []byte) error {
		var o Spec
		if err := json.Unmarshal(raw, &o); err != nil {
			return fmt.Errorf("read the launch spec of %s: %w", l.Hosts()[0].Dir, err)
		}
		if o.Version != protocol.Version {
			return fmt.Errorf("the launch spec has version %d, this bee knows %d", o.Version, protocol.Version)
		}
		configs, err := o.Configs(l)
		if err != nil {
			return err
		}
		return Nodes(ctx, l, configs, func(ctx context.Context) (headlink.Head, error) {
			return headlink.Reach(ctx, l, headlink.Timeout, headlink.Connecting(headlink.SecureByKey, connect, o.Shared), func(ctx context.Context) (bool, string) { return headlink.Gone(ctx, l) })
		})
	}
}
