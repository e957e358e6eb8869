package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/energy"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/shell"
)

// RunContainer starts this node's container and watches over it.
func (n *node) RunContainer(ctx context.Context, runtimeName string) (*container.Container, error) {
	meter := energy.Start(cmp.Or(n.Energy, energy.Counters))
	b, err := n.maker().start(ctx, runtimeName)
	if err != nil {
		meter.Stop()
		return nil, err
	}
	n.current.Set(b)
	n.use.begin(gpusOf(n))
	if before := n.meter.Swap(meter); before != nil {
		before.Stop()
	}
	go n.watchContainer(n.life, b) // as long as the container, not the call
	n.settle()
	return b, nil
}

// StartCase starts the container of a case of a pack, with the volume in a directory of this
// host. Its release ends what Start has begun.
func (n *node) StartCase(ctx context.Context, runtimeName string, c plan.Case, volume string) (*container.Container, error) {
	k := n.maker()
	job := *k.plan
	job.Env, job.Workdir, job.Cores, job.Memory = c.Env, c.Workdir, max(job.CaseCores, 1), job.CaseMemory
	k.plan, k.mounted, k.suffix = &job, volume, fmt.Sprintf("-case%d", c.Number)
	k.dir = filepath.Join(k.dir, plan.CaseDir(c.Number))
	k.members = slices.DeleteFunc(slices.Clone(k.members), func(m peercall.Member) bool { return m.Rank != n.config.Rank })
	for i := range k.members {
		k.members[i].Slots = job.Cores
	}
	if err := fsutil.RemoveAll(k.dir); err != nil { // of an attempt before on this host
		return nil, err
	}
	if err := os.MkdirAll(k.runDir(), 0o700); err != nil {
		return nil, err
	}
	b, err := k.start(ctx, runtimeName)
	if err != nil {
		fsutil.TryRemoveAll(k.dir)
		return nil, err
	}
	n.use.add(b)
	b.Release = both(b.Release, func() {
		n.use.remove(b)
		fsutil.TryRemoveAll(k.dir) // the end of the attempt does else
	})
	return b, nil
}

// gpusOf returns what begins to measure the GPUs of the job's container; nil: it has none.
func gpusOf(n *node) func() gpuUse {
	job := n.known.job()
	if n.GPUs == nil || job.GPUs == 0 {
		return nil
	}
	return func() gpuUse { return n.GPUs(n.life, job.GPUs) }
}

// Use returns what this node's containers use, on average since the call before.
func (n *node) Use(ctx context.Context) (core.Use, error) { return n.use.Use(ctx) }

// maker returns what makes this node's container.
func (n *node) maker() *maker {
	job, members, network := n.known.all()
	return &maker{
		options: n.Options, mounted: n.mounted, dir: plan.NodeDir(n.config.Host.Dir, n.config.Rank), config: n.config, plan: &job, members: members, network: network, group: n.group,
		images: n.images, memory: n.memory, links: n.links, verbs: n.verbs, machine: n.machine, current: n.current, emulates: &n.emulates,
		say: func(text string) {
			if n.head != nil {
				n.head.Journal().Say(core.PhaseStart, text)
			}
		},
	}
}

// While it starts, a node collects garbage once it has some 16 MB (startGC, a
// percentage of 4), most never. After settleTime the memory that the start took is
// released: not so early that it costs short jobs time, or the launch of many nodes
// on one machine.
const (
	startGC    = 400
	settleTime = 5 * time.Second
)

// settle makes the node small, for the memory is the job's.
func (n *node) settle() {
	time.AfterFunc(settleTime, func() {
		debug.SetGCPercent(40)
		debug.FreeOSMemory()
	})
}

// watchContainer reports to the head when this node's container dies under it.
func (n *node) watchContainer(ctx context.Context, b *container.Container) {
	exit, err := b.Wait(ctx)
	if err != nil {
		return
	}
	if n.current.Get() != b { // it was ended on purpose
		return
	}
	why := fmt.Sprintf("the container on %s ended by itself (code %d); was it killed?", n.config.Host.Name, exit.Code)
	if kills := killsNow().since(n.kills).with(b); kills.own > 0 {
		why = fmt.Sprintf("the container on %s ended, as the kernel killed %d of its processes for want of memory", n.config.Host.Name, kills.own)
	}
	if g := b.Guest(); g != nil {
		why = fmt.Sprintf("the virtual machine on %s, or the container in it, ended by itself: %s", n.config.Host.Name, g.Ended())
	}
	if n.head != nil {
		n.head.Fail(&core.Error{Kind: core.Lost, Err: errors.New(why), Remedy: "`bee logs --node 0 " + n.config.Owner.Run + "` shows what its node wrote. A run with `checkpoint:` continues by itself; another is run again."})
		return
	}
	core.BestEffort(rpc.Call(ctx, n.pool.headConn(), peercall.CallFailed, peercall.Failure{Rank: n.config.Rank, Failed: rpc.Fail(&core.Error{Kind: core.Lost, Err: errors.New(why)})})) // a lost head ends us anyway
}

// metered ends the meter of this host.
func (n *node) metered() core.Energy {
	meter := n.meter.Swap(nil)
	if meter == nil {
		return core.Energy{}
	}
	used := meter.Stop()
	boot, err := procid.Boot()
	if err != nil {
		return core.Energy{Unknown: err.Error(), Remedy: "Mount /proc there."}
	}
	used.Boot = boot
	return used
}

// EndContainer stops the container, once, and reports what it used.
func (n *node) EndContainer(grace time.Duration) core.NodeReport {
	c := n.config
	r := core.NodeReport{Rank: c.Rank, Host: c.Host.Name, Cores: cores(c)}
	b := n.current.Drop()
	_, members, _ := n.known.all()
	for _, m := range members {
		if m.Rank == c.Rank {
			r.Addr, r.Cores = m.IP, m.Cores // a guest's are its own
		}
	}
	if b == nil {
		return r
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace+10*time.Second)
	defer cancel()
	if b.Guest() != nil { // before its disks go
		r.Full = full(filepath.Join(plan.NodeDir(c.Host.Dir, c.Rank), "state"))
	}
	kills := killsNow().since(n.kills).with(b)
	r.MemoryKills, r.HostMemoryKills = kills.own, kills.host
	if limit := b.Memory(); limit != nil {
		if err := limit.Unbounded(); err != nil {
			r.MemoryUnlimited = core.Printable(err.Error(), peercall.MaxText)
		}
	}
	ended := n.hang.watch(grace + hangTime)
	if err := b.Stop(ctx, grace); err != nil {
		n.Log.Warn("stop container", "err", err)
	}
	ended()
	if exit, err := b.Wait(ctx); err == nil {
		r.UserTime, r.SystemTime, r.MaxRSS = exit.UserTime, exit.SystemTime, exit.MaxRSS
	}
	r.Runtime, r.RDMA, r.Energy = b.Runtime, b.RDMA, n.metered()
	if g := b.Guest(); g != nil {
		r.RDMA = g.RDMA()
		if c.Rank == 0 {
			r.VMCommand = core.Printable(shell.Words(g.CommandLine()), core.MostVMCommand)
		}
	}
	b.Release()
	return r
}
