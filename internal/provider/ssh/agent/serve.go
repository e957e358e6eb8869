package agent

import (
	"context"
	"errors"
	"os"
	goruntime "runtime"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/sshlink/storecall"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// register adds the calls about sites, leases and stores to an agent's.
func (a Agent) register(s *rpc.Server, m *sshlink.RendezvousTable) {
	a.rendezvous = m
	storecall.Agent{Store: a.Store, RendezvousTable: m, Upload: a.Upload}.Register(s)
	a.onSite(s)
	a.onLease(s)
	a.onFiles(s)
	a.onDownloads(s)
	if a.Volumes != nil {
		a.Volumes(s)
	}
}

// onSite adds the calls about a site.
func (a Agent) onSite(s *rpc.Server) {
	rpc.Handle(s, hostcall.CallFacts, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Facts, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return hostcall.Facts{}, err
		}
		f, err := p.Probe(ctx)
		return hostcall.Facts{Facts: f, Arch: goruntime.GOARCH}, err
	})
	rpc.Handle(s, hostcall.CallEcho, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Echoed, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return nil, err
		}
		return p.Echo(ctx, c.Config)
	})
	rpc.Handle(s, hostcall.CallRuntime, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.RuntimeName, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return "", err
		}
		name, _, err := p.TryRuntime(ctx, c.Runtime)
		return hostcall.RuntimeName(name), err
	})
	rpc.Handle(s, hostcall.CallDirs, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Directories, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return nil, err
		}
		return p.Directories(ctx, c.Directories)
	})
	rpc.HandleStream(s, hostcall.CallAcquire, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[hostcall.Granted]) error {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return err
		}
		if c.Request.Binary, err = os.Executable(); err != nil {
			return err
		}
		// Others may use the connection: that who asked has gone shows in the call.
		ctx, end := to.Broken(ctx)
		defer end()
		l, err := p.Acquire(ctx, c.Request)
		if err != nil {
			return err
		}
		return to.Reply(hostcall.Granted{Handle: l.Handle(), Hosts: l.Hosts(), Deadline: l.Deadline()})
	})
	rpc.Handle(s, hostcall.CallForecast, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Waiting, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return hostcall.Waiting{}, err
		}
		w := driver.Waiting{Expected: time.Now()}
		if q := p.Queue(); q != nil {
			w, err = q.Forecast(ctx, c.Request)
		}
		return hostcall.Waiting(w), err
	})
	rpc.HandleStream(s, hostcall.CallLockHost, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[rpc.None]) error {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return err
		}
		locks := p.HostLocks()
		if locks == nil {
			return to.Reply(rpc.None{})
		}
		held, err := locks.LockHosts(ctx, c.Study)
		if err != nil {
			return err
		}
		defer held.Unlock()
		ctx, end := to.Broken(ctx)
		defer end()
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
	rpc.Handle(s, hostcall.CallBuffers, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Buffers, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return nil, err
		}
		if buffers := p.BurstBuffers(); buffers != nil {
			return buffers.Left(ctx, c.Owner.User)
		}
		return nil, nil
	})
	rpc.Handle(s, hostcall.CallEndBuffer, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Buffers, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return nil, err
		}
		buffers := p.BurstBuffers()
		if buffers == nil {
			return nil, &core.Error{Kind: core.Unsupported, Op: "end burst buffer", Object: c.Buffer.Dir, Err: errors.New("this site has none"), Remedy: core.RemedyVersions}
		}
		b, err := buffers.End(ctx, c.Buffer, c.Reported)
		return hostcall.Buffers{b}, err
	})
	rpc.Handle(s, hostcall.CallList, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (hostcall.Handles, error) {
		p, err := a.Provider(c.Site, a.account)
		if err != nil {
			return nil, err
		}
		return p.List(ctx, c.Owner)
	})
}

// lease gives the lease that a call is about.
func (a Agent) lease(ctx context.Context, c hostcall.Call) (driver.Lease, error) {
	p, err := a.Provider(c.Site, a.account)
	if err != nil {
		return nil, err
	}
	return p.Recover(ctx, c.Handle)
}

// handleLease has a call about a lease answered.
func handleLease[Resp any](a Agent, s *rpc.Server, m rpc.Method[hostcall.Call, Resp], fn func(context.Context, driver.Lease, hostcall.Call) (Resp, error)) {
	rpc.Handle(s, m, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (Resp, error) {
		l, err := a.lease(ctx, c)
		if err != nil {
			var none Resp
			return none, err
		}
		return fn(ctx, l, c)
	})
}

// done is the reply of a call that has none.
func done(err error) (rpc.None, error) { return rpc.None{}, err }

// onLease adds the calls about a lease.
func (a Agent) onLease(s *rpc.Server) {
	handleLease(a, s, hostcall.CallReady, func(ctx context.Context, l driver.Lease, _ hostcall.Call) (hostcall.Granted, error) {
		return grant(ctx, l)
	})
	handleLease(a, s, hostcall.CallStatus, func(ctx context.Context, l driver.Lease, _ hostcall.Call) (hostcall.Status, error) {
		st, err := l.Status(ctx)
		return hostcall.Status(st), err
	})
	handleLease(a, s, hostcall.CallImage, func(ctx context.Context, l driver.Lease, c hostcall.Call) (bool, error) {
		return l.HasImage(ctx, c.Host, c.Image)
	})
	handleLease(a, s, hostcall.CallAlive, func(ctx context.Context, l driver.Lease, c hostcall.Call) (bool, error) {
		return l.NodeAlive(ctx, c.Host)
	})
	handleLease(a, s, hostcall.CallLaunch, func(ctx context.Context, l driver.Lease, c hostcall.Call) (rpc.None, error) {
		return done(l.Launch(ctx, driver.NodeCommand{Host: c.Host, Config: c.Config, Log: c.Path}))
	})
	autostart := func(do func(context.Context, driver.Autostart, hostcall.Call) error) func(context.Context, driver.Lease, hostcall.Call) (rpc.None, error) {
		return func(ctx context.Context, l driver.Lease, c hostcall.Call) (rpc.None, error) {
			as := l.Autostart()
			if as == nil {
				return rpc.None{}, &core.Error{Kind: core.Unsupported, Op: "stage a launch spec", Err: errors.New("this site starts nothing by itself"), Remedy: core.RemedyVersions}
			}
			return done(do(ctx, as, c))
		}
	}
	handleLease(a, s, hostcall.CallStageSpec, autostart(func(ctx context.Context, as driver.Autostart, c hostcall.Call) error {
		return as.StageSpec(ctx, c.Config)
	}))
	handleLease(a, s, hostcall.CallEnableSpec, autostart(func(ctx context.Context, as driver.Autostart, _ hostcall.Call) error { return as.EnableSpec(ctx) }))
	handleLease(a, s, hostcall.CallAttend, autostart(func(ctx context.Context, as driver.Autostart, _ hostcall.Call) error { return as.Attend(ctx) }))
	handleLease(a, s, hostcall.CallLendVolume, func(ctx context.Context, l driver.Lease, c hostcall.Call) (hostcall.Granted, error) {
		reuse := l.VolumeReuse()
		if reuse == nil {
			return hostcall.Granted{}, &core.Error{Kind: core.Unsupported, Op: "give back the hosts of", Object: c.Owner.String(), Err: errors.New("this site keeps nothing without them"), Remedy: core.RemedyVersions}
		}
		err := reuse.LendVolume(ctx)
		return hostcall.Granted{Handle: l.Handle(), Hosts: l.Hosts()}, err
	})
	reusing := func(l driver.Lease, tree string) (driver.VolumeReuse, error) {
		if reuse := l.VolumeReuse(); reuse != nil {
			return reuse, nil
		}
		return nil, &core.Error{Kind: core.Unsupported, Op: "take over", Object: tree, Err: errors.New("this site cannot"), Remedy: core.RemedyVersions}
	}
	handleLease(a, s, hostcall.CallReuseVolume, func(ctx context.Context, l driver.Lease, c hostcall.Call) (rpc.None, error) {
		reuse, err := reusing(l, c.From)
		if err == nil {
			err = reuse.ReuseVolume(ctx, c.From, c.Path)
		}
		return done(err)
	})
	handleLease(a, s, hostcall.CallLook, func(ctx context.Context, l driver.Lease, c hostcall.Call) (hostcall.Lent, error) {
		reuse, err := reusing(l, c.Path)
		if err != nil {
			return hostcall.Lent{}, err
		}
		found, err := reuse.Look(ctx, driver.Transfer{Remote: c.Path, Within: c.Within, Seen: c.Seen})
		return hostcall.Lent(found), err
	})
	handleLease(a, s, hostcall.CallCopyTree, func(ctx context.Context, l driver.Lease, c hostcall.Call) (rpc.None, error) {
		reuse, err := reusing(l, c.From)
		if err == nil {
			err = reuse.CopyTree(ctx, driver.Transfer{Remote: c.From, Within: c.Within, Seen: c.Seen}, c.Part, c.Path)
		}
		return done(err)
	})
	handleLease(a, s, hostcall.CallAdopt, func(ctx context.Context, l driver.Lease, c hostcall.Call) (hostcall.Adopter, error) {
		as := l.Adopters()
		if as == nil {
			return hostcall.Adopter{}, &core.Error{Kind: core.Unsupported, Op: "record who controls the run of", Object: c.Handle.Owner.String(), Err: errors.New("this site records it for no other machine"), Remedy: core.RemedyVersions}
		}
		found, err := as.Adopt(ctx, c.Adopter, c.Instead)
		return hostcall.Adopter(found), err
	})
	rpc.Handle(s, hostcall.CallRelease, func(ctx context.Context, _ rpc.Caller, c hostcall.Call) (rpc.None, error) {
		l, err := a.lease(ctx, c)
		if core.IsKind(err, core.NotFound) {
			return rpc.None{}, nil
		}
		if err != nil {
			return rpc.None{}, err
		}
		return done(l.Release(ctx))
	})
}

// onFiles adds the calls about files and sockets of a lease's hosts.
func (a Agent) onFiles(s *rpc.Server) {
	handleLease(a, s, hostcall.CallMark, func(_ context.Context, _ driver.Lease, c hostcall.Call) (rpc.None, error) {
		return done(os.WriteFile(c.Path, nil, 0o600))
	})
	handleLease(a, s, hostcall.CallUnmark, func(_ context.Context, _ driver.Lease, c hostcall.Call) (rpc.None, error) {
		return done(os.Remove(c.Path))
	})
	handleLease(a, s, hostcall.CallSees, func(_ context.Context, _ driver.Lease, c hostcall.Call) (bool, error) { // and can it write there?
		path, err := store.Absolute(c.Path) // as the user wrote it
		return err == nil && unix.Access(path, unix.W_OK) == nil, nil
	})
	rpc.HandleStream(s, hostcall.CallDial, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[rpc.None]) error {
		l, err := a.lease(ctx, c)
		if err != nil {
			return err
		}
		conn, err := l.Dial(ctx, c.Host, c.Path)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		return wire.Splice(to, conn)
	})
	rpc.HandleStream(s, hostcall.CallStage, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[rpc.None]) error {
		w, err := a.routeOnLease(ctx, c, to.Stream)
		if err != nil {
			return err
		}
		basis := sshlink.BasisOf(ctx, c.Path)
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		return rpc.Send(to, rpc.Fail(w.Receive(ctx, c.Path, basis)), rpc.DefaultSize)
	})
	rpc.HandleStream(s, hostcall.CallFetch, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[rpc.None]) error {
		w, err := a.routeOnLease(ctx, c, to.Stream)
		if err != nil {
			return err
		}
		from, done, err := leasedir.Source(driver.Transfer{Remote: c.Path, Within: c.Within, Seen: c.Seen})
		if err != nil {
			return err
		}
		defer done()
		if _, err := os.Lstat(from); err != nil {
			return &core.Error{Kind: core.NotFound, Op: "fetch", Object: c.Path, Err: err}
		}
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		return w.Send(ctx, from)
	})
}

// downloadLook is how often a host reports how much has come of a file.
const downloadLook = time.Second

// onDownloads adds the call about files that a host fetches from servers.
func (a Agent) onDownloads(s *rpc.Server) {
	rpc.HandleStream(s, hostcall.CallDownload, func(ctx context.Context, _ rpc.Caller, c hostcall.Call, to rpc.Answer[rpc.None]) error {
		if _, err := a.lease(ctx, c); err != nil {
			return err
		}
		if c.Download == nil || a.Download == nil {
			return &core.Error{Kind: core.Unsupported, Op: "download", Object: c.Owner.String(), Err: errors.New("this site fetches nothing by itself"), Remedy: core.RemedyVersions}
		}
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		ctx, end := to.Broken(ctx)
		defer end()
		d, reported := *c.Download, time.Now()
		d.Progress = func(done int64) {
			if time.Since(reported) >= downloadLook {
				reported = time.Now()
				core.BestEffort(rpc.Send(to, hostcall.Download{Done: done}, rpc.DefaultSize)) // who asked has gone, which ends ctx
			}
		}
		got, err := a.Download(ctx, d)
		return rpc.Send(to, hostcall.Download{Over: true, Got: got, Failure: rpc.Fail(err)}, rpc.DefaultSize)
	})
}

// routeOnLease returns the route of the tree of a call about a lease.
func (a Agent) routeOnLease(ctx context.Context, c hostcall.Call, s *rpc.Stream) (*sshlink.Route, error) {
	w, err := a.rendezvous.Route(s, c.Via)
	if err != nil {
		return nil, err
	}
	_, err = a.lease(ctx, c)
	return w, err
}
