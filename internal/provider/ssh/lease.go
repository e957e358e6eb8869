package ssh

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/treesync"
)

// lease is what the hosts granted.
type lease struct {
	p     *provider
	owner core.Owner
	h     handle
	mu    sync.Mutex
	links []*sshlink.Link
	// hosts and deadline are the agents' word; see refresh.
	hosts    []core.Host
	deadline time.Time
}

// far gives the connection that leads to a host, and the host's index in the
// lease of the agent there: behind a login node, one agent has all hosts.
func (l *lease) far(i int) (link, host int, err error) {
	if i < 0 || i >= len(l.hosts) {
		return 0, 0, &core.Error{Kind: core.Invalid, Op: "reach host", Object: fmt.Sprint(i), Err: fmt.Errorf("the lease has %d hosts", len(l.hosts)), Remedy: core.RemedyFault}
	}
	if l.p.info != nil {
		return 0, i, nil
	}
	return i, 0, nil
}

// refresh asks the login node's agent for the lease as it stands, dead or not.
func (l *lease) refresh(ctx context.Context) error {
	if l.p.info == nil {
		return nil
	}
	if _, err := (leaseQueue{l}).Ready(ctx); !core.IsKind(err, core.Lost) {
		return err
	}
	return nil
}

// KeepsFiles implements driver.Lease: not known.
func (l *lease) KeepsFiles() bool { return false }

// Queue implements driver.Lease: machines behind ssh alone are there at once.
func (l *lease) Queue() driver.LeaseQueue {
	if l.p.info == nil {
		return nil
	}
	return leaseQueue{l}
}

// Autostart implements driver.Lease.
func (l *lease) Autostart() driver.Autostart {
	if l.p.info == nil {
		return nil
	}
	return leaseAutostart{l}
}

// DirectTransfer implements driver.Lease.
func (l *lease) DirectTransfer() driver.DirectTransfer { return directTransfer{l} }

// VolumeReuse implements driver.Lease.
func (l *lease) VolumeReuse() driver.VolumeReuse { return volumeReuse{l} }

// StoreAccess implements driver.Lease.
func (l *lease) StoreAccess() driver.StoreAccess { return storeAccess{l} }

// Downloads implements driver.Lease.
func (l *lease) Downloads() driver.Downloader { return downloads{l} }

// Fencer implements driver.Lease.
func (l *lease) Fencer() driver.Fencer { return nil }

// Price implements driver.Lease: the site has no price list.
func (*lease) Price() *driver.Price { return nil }

// Adopters implements driver.Lease.
func (l *lease) Adopters() driver.Adopters { return adopters{l} }

// share makes the first host's directory that of all hosts where all of them
// see it, so that the job's files are the same everywhere.
func (l *lease) share(ctx context.Context) error {
	if len(l.hosts) < 2 {
		return nil
	}
	mark := path.Join(l.hosts[0].Dir, ".mark-"+rand.Text())
	fill := func(c *hostcall.Call) { c.Path = mark }
	if err := l.order(ctx, 0, hostcall.CallMark, fill); err != nil {
		return err
	}
	defer func() { core.BestEffort(l.order(ctx, 0, hostcall.CallUnmark, fill)) }() // it goes with the directory
	sees, errs := make([]bool, len(l.hosts)), make([]error, len(l.hosts))
	l.p.each(len(l.hosts), func(i int) { sees[i], errs[i] = about(ctx, l, i, hostcall.CallSees, fill) })
	if err := errors.Join(errs...); err != nil || slices.Contains(sees, false) {
		return err
	}
	for i := range l.hosts {
		l.hosts[i].Dir = l.hosts[0].Dir
	}
	return nil
}

// Handle implements driver.Lease.
func (l *lease) Handle() core.Handle {
	data, err := json.Marshal(l.h)
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return core.Handle{Driver: l.p.Info().Name, Version: handleVersion, Owner: l.owner, Data: data}
}

// Hosts implements driver.Lease.
func (l *lease) Hosts() []core.Host { return l.hosts }

// Deadline implements driver.Lease: machines behind ssh alone have none.
func (l *lease) Deadline() time.Time { return l.deadline }

// link gives the connection to an agent, made again where it broke.
func (l *lease) link(ctx context.Context, i int) (*sshlink.Link, error) {
	l.mu.Lock()
	k := l.links[i]
	l.mu.Unlock()
	if k.Usable() {
		return k, nil
	}
	fresh, err := l.p.ssh.Connect(ctx, l.h.Hosts[i])
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if other := l.links[i]; other != nil && other != k { // someone was quicker
		fresh.Close()
		return other, nil
	}
	l.links[i] = fresh
	return fresh, nil
}

// call is the base of a call to an agent about a host of its lease.
func (l *lease) call(link, host int) hostcall.Call {
	c := l.p.call(l.h.Hosts[link])
	c.Handle, c.Host = l.h.Leases[link], host
	return c
}

// ask makes a call to an agent. A connection that broke is a passing matter.
func ask[Resp any](ctx context.Context, l *lease, i int, m rpc.Method[hostcall.Call, Resp], c hostcall.Call) (Resp, error) {
	k, err := l.link(ctx, i)
	if err != nil {
		var none Resp
		return none, err
	}
	reply, err := rpc.Call(ctx, k.Peer, m, c)
	return reply, sshlink.Transient(err)
}

// TryRuntime implements driver.Lease. A login node is none of its hosts.
func (l *lease) TryRuntime(ctx context.Context, name string) (works, host string, err error) {
	if l.p.info != nil {
		return "", "", nil
	}
	found, errs := make([]hostcall.RuntimeName, len(l.hosts)), make([]error, len(l.hosts))
	l.p.each(len(l.hosts), func(i int) {
		found[i], errs[i] = about(ctx, l, i, hostcall.CallRuntime, func(c *hostcall.Call) { c.Runtime = name })
	})
	for i, err := range errs {
		if err != nil {
			return "", l.hosts[i].Name, err
		}
	}
	return string(found[0]), l.hosts[0].Name, nil
}

// Status implements driver.Lease.
func (l *lease) Status(ctx context.Context) (driver.Status, error) {
	all := driver.Status{Live: true}
	for i := range l.h.Hosts {
		s, err := l.status(ctx, i)
		if err != nil || !s.Live {
			return s, err
		}
		if all.Ends.IsZero() {
			all.Ends = s.Ends
		}
		if all.Reason == "" {
			all.Reason = s.Reason
		}
	}
	return all, nil
}

// status is that of the lease on one host, or on all that an agent has.
func (l *lease) status(ctx context.Context, i int) (driver.Status, error) {
	found, err := ask(ctx, l, i, hostcall.CallStatus, l.call(i, 0))
	s := driver.Status(found)
	switch {
	case core.IsKind(err, core.NotFound):
		return driver.Status{Reason: "the run's directory on " + l.h.Hosts[i] + " is gone"}, nil
	case err != nil:
		return driver.Status{}, err
	case !core.IsMoment(s.Ends):
		return driver.Status{}, core.CheckDeadline(s.Ends, time.Time{})
	case !s.Live:
		s.Reason = l.h.Hosts[i] + ": " + s.Reason
	}
	return s, nil
}

// NodeAlive implements driver.Lease.
func (l *lease) NodeAlive(ctx context.Context, host int) (bool, error) {
	return about(ctx, l, host, hostcall.CallAlive, func(*hostcall.Call) {})
}

// about makes a call about a host, completed by fill.
func about[Resp any](ctx context.Context, l *lease, host int, m rpc.Method[hostcall.Call, Resp], fill func(*hostcall.Call)) (Resp, error) {
	link, inner, err := l.far(host)
	if err != nil {
		var none Resp
		return none, err
	}
	c := l.call(link, inner)
	fill(&c)
	return ask(ctx, l, link, m, c)
}

// order makes a call about a host that has no reply.
func (l *lease) order(ctx context.Context, host int, m rpc.Method[hostcall.Call, rpc.None], fill func(*hostcall.Call)) error {
	_, err := about(ctx, l, host, m, fill)
	return err
}

// open makes a call about a host, completed by fill, whose stream stays open.
func (l *lease) open(ctx, stream context.Context, host int, m rpc.Method[hostcall.Call, rpc.None], fill func(*hostcall.Call)) (*rpc.Stream, error) {
	k, c, err := l.line(ctx, host, fill)
	if err != nil {
		return nil, err
	}
	s, _, err := rpc.Open(stream, k.Peer, m, c)
	return s, sshlink.Transient(err)
}

// line gives the connection to a host's agent, and a call about the host, completed by
// fill.
func (l *lease) line(ctx context.Context, host int, fill func(*hostcall.Call)) (*sshlink.Link, hostcall.Call, error) {
	i, inner, err := l.far(host)
	if err != nil {
		return nil, hostcall.Call{}, err
	}
	k, err := l.link(ctx, i)
	c := l.call(i, inner)
	fill(&c)
	return k, c, err
}

// at has a call be about a path.
func at(path string) func(*hostcall.Call) { return func(c *hostcall.Call) { c.Path = path } }

// treeAt has a call be about what a transfer is of.
func treeAt(t driver.Transfer) func(*hostcall.Call) {
	return func(c *hostcall.Call) { c.Path, c.Via, c.Within, c.Seen = t.Remote, t.Via, t.Within, t.Seen }
}

// HasImage implements driver.Lease.
func (l *lease) HasImage(ctx context.Context, host int, id string) (bool, error) {
	return about(ctx, l, host, hostcall.CallImage, func(c *hostcall.Call) { c.Image = id })
}

// Launch implements driver.Lease.
func (l *lease) Launch(ctx context.Context, n driver.NodeCommand) error {
	return l.order(ctx, n.Host, hostcall.CallLaunch, func(c *hostcall.Call) { c.Config, c.Path = n.Config, n.Log })
}

// Dial implements driver.Lease: a stream of the host's connection.
func (l *lease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	// The stream outlives the dialling.
	s, err := l.open(ctx, context.WithoutCancel(ctx), host, hostcall.CallDial, at(socket))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Stage implements driver.Lease.
func (l *lease) Stage(ctx context.Context, t driver.Transfer) error {
	if _, err := os.Lstat(t.Local); errors.Is(err, os.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "copy", Object: t.Local, Err: errors.New("it is not there"), Remedy: "Check the path: the file was removed meanwhile."}
	}
	in, err := directTransfer{l}.Incoming(ctx, t)
	if err != nil {
		return err
	}
	defer in.Close()
	var known *treesync.Known
	if t.Again {
		known, err = treesync.Agree(in, t.Local)
	} else {
		known, err = treesync.ReadKnown(in)
	}
	if err != nil {
		return sshlink.Transient(&core.Error{Kind: core.Lost, Op: "copy to " + l.hosts[t.Host].Name, Object: t.Local, Err: err})
	}
	return sshlink.Transient(treesync.Deliver(in, func(w io.Writer) error {
		return treesync.SendOver(ctx, w, t.Local, known, t.Progress)
	}))
}

// Fetch implements driver.Lease.
func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	var basis *treesync.Basis
	if t.Again {
		basis = sshlink.BasisOf(ctx, t.Local, t.Before)
	} else {
		basis, _ = treesync.BasisLeft(ctx, t.Local) // nil where it cannot be found out: then all of it travels
	}
	basis = basis.Keyed()
	k, c, err := l.line(ctx, t.Host, treeAt(t))
	if err != nil {
		return err
	}
	s, err := rpc.Begin(ctx, k.Peer, hostcall.CallFetch, c)
	if err != nil {
		return sshlink.Transient(err)
	}
	defer s.Close()
	reported := basis.SendKnown(ctx, s)
	if _, err := rpc.Answered[rpc.None](s); err != nil {
		return sshlink.Transient(err)
	}
	if reported != nil {
		return sshlink.Transient(&core.Error{Kind: core.Lost, Op: "fetch", Object: t.Remote, Err: reported})
	}
	return treesync.ReceiveOver(ctx, &sshlink.ProgressReader{Reader: s, Report: t.Progress}, t.Local, basis)
}

// Release implements driver.Lease, on all hosts at once; but a directory that
// all share goes when its users have ended.
func (l *lease) Release(ctx context.Context) error {
	n := len(l.h.Leases)
	errs := make([]error, n)
	release := func(i int) {
		if l.h.Leases[i].Driver == "" { // the host never granted one
			return
		}
		if _, err := ask(ctx, l, i, hostcall.CallRelease, l.call(i, 0)); err != nil && !core.IsKind(err, core.NotFound) {
			errs[i] = fmt.Errorf("release %s: %w", l.h.Hosts[i], err)
		}
	}
	last := 0
	if n > 1 && len(l.hosts) == n && l.hosts[0].Dir != "" && l.hosts[0].Dir == l.hosts[1].Dir {
		last = 1
	}
	l.p.each(n-last, func(i int) { release(last + i) })
	l.p.each(last, release)
	l.Disconnect()
	return errors.Join(errs...)
}

// Disconnect implements driver.Lease.
func (l *lease) Disconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	sshlink.CloseAll(l.links)
	clear(l.links)
}
