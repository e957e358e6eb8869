package node

import (
	"context"
	"errors"
	"runtime"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/head"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// newHead makes the head of this node.
func (n *node) newHead() (*head.Head, error) {
	return head.New(head.Parts{
		Config: n.config, Log: n.Log, Life: n.life, Node: n, Peers: n.pool, Spreads: n.spreads, Current: n.current, Machine: n.machine,
		Notices: n.notices, Serving: &n.serving,
	})
}

// Report returns what this node reports of its host as it joins.
func (n *node) Report(ctx context.Context) peercall.JoinRequest {
	return peercall.JoinRequest{
		Rank: n.config.Rank, Cores: cores(n.config), Processors: runtime.NumCPU(), Machine: machine(), Memory: n.memory,
		NoRuntime: n.noRuntime(ctx), NoRings: n.noRings(ctx),
	}
}

// Learn records what the head has settled, and joins the guests' network.
func (n *node) Learn(p *plan.Plan, members []peercall.Member, network peercall.Network) error {
	n.known.learn(*p, members, network)
	return n.links.join(p)
}

// Tree returns the unpacked image until release is called.
func (n *node) Tree(ctx context.Context, id string) (path string, release func(), err error) {
	return n.images.Tree(ctx, id)
}

// MountBurst mounts a burst buffer, which containers have as the run's volume from then on.
func (n *node) MountBurst(ctx context.Context, b plan.Burst) (head.Burst, error) {
	if n.Burst == nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "mount the volume of", Object: b.Remote, Err: errors.New("this host has no burst buffers"), Remedy: core.RemedyVersions}
	}
	if err := seesRemote(b); err != nil {
		return nil, err
	}
	v, err := n.keys.mount(func(keys func() *core.BucketKeys) (head.Burst, error) {
		return n.Burst(ctx, withRecords(n.config, b), n.config.Owner, keys, n.relay.open)
	})
	if err == nil {
		n.mounted = v.Dir()
		n.hang.guard(v.Abort)
	}
	return v, err
}

// Emulates reports whether the processors of this node's guest are emulated.
func (n *node) Emulates() bool { return n.emulates.Load() }

// noRuntime reports why this host can run no container, where that is asked.
func (n *node) noRuntime(ctx context.Context) string {
	if !n.config.TryRuntime {
		return ""
	}
	if _, _, err := n.Runtime(ctx, n.config.Runtime); core.IsKind(err, core.Unsupported) {
		return err.Error()
	}
	return ""
}

// noRings reports why this host's guest cannot have the switch's network device, where
// that is asked.
func (n *node) noRings(ctx context.Context) string {
	if !n.config.TryRings || n.NoRings == nil {
		return ""
	}
	return n.NoRings(ctx)
}
