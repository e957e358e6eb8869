package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/wire"
)

// lease is what the hosts granted.
type lease struct {
	p     *provider
	owner core.Owner
	h     handle
	mu    sync.Mutex
	links []*link
}

// Handle implements driver.Lease.
func (l *lease) Handle() core.Handle {
	data, err := json.Marshal(l.h)
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return core.Handle{Driver: "ssh", Version: handleVersion, Owner: l.owner, Data: data}
}

// Hosts implements driver.Lease.
func (l *lease) Hosts() []core.Host { return l.h.Known }

// Deadline implements driver.Lease: machines behind ssh have none.
func (l *lease) Deadline() time.Time { return time.Time{} }

// link gives the connection to a host, made anew where it broke.
func (l *lease) link(ctx context.Context, i int) (*link, error) {
	if i < 0 || i >= len(l.h.Hosts) {
		return nil, &core.Error{Kind: core.Invalid, Op: "reach host", Object: fmt.Sprint(i), Err: fmt.Errorf("the lease has %d hosts", len(l.h.Hosts))}
	}
	l.mu.Lock()
	k := l.links[i]
	l.mu.Unlock()
	if k != nil {
		select {
		case <-k.Done():
			k.Close()
		default:
			return k, nil
		}
	}
	fresh, err := l.p.connect(ctx, l.h.Hosts[i])
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

// call is the base of a call to a host; link has checked, or will, that there
// is such a host.
func (l *lease) call(i int) call {
	if i < 0 || i >= len(l.h.Hosts) {
		return call{}
	}
	c := l.p.call(l.h.Hosts[i])
	c.Handle = l.h.Leases[i]
	return c
}

// ask makes a call to a host. A connection that broke is a passing matter.
func (l *lease) ask(ctx context.Context, i int, method string, c call, out any) error {
	k, err := l.link(ctx, i)
	if err != nil {
		return err
	}
	return transient(k.Call(ctx, method, c, out))
}

// transient tells a line that broke from a host that says no.
func transient(err error) error {
	if core.IsKind(err, core.Lost) {
		return &core.Error{Kind: core.Transient, Err: err}
	}
	return err
}

// Status implements driver.Lease.
func (l *lease) Status(ctx context.Context) (driver.Status, error) {
	for i := range l.h.Hosts {
		var s driver.Status
		err := l.ask(ctx, i, callStatus, l.call(i), &s)
		switch {
		case core.IsKind(err, core.NotFound):
			return driver.Status{Reason: "the run's directory on " + l.h.Hosts[i] + " is gone"}, nil
		case err != nil:
			return driver.Status{}, err
		case !s.Live:
			return driver.Status{Reason: l.h.Hosts[i] + ": " + s.Reason}, nil
		}
	}
	return driver.Status{Live: true}, nil
}

// NodeAlive implements driver.NodeChecker.
func (l *lease) NodeAlive(ctx context.Context, host int) (bool, error) {
	var alive bool
	err := l.ask(ctx, host, callAlive, l.call(host), &alive)
	return alive, err
}

// HasImage implements driver.ImageHolder.
func (l *lease) HasImage(ctx context.Context, host int, id string) (bool, error) {
	var has bool
	c := l.call(host)
	c.Image = id
	err := l.ask(ctx, host, callImage, c, &has)
	return has, err
}

// Launch implements driver.Lease.
func (l *lease) Launch(ctx context.Context, n driver.NodeCommand) error {
	c := l.call(n.Host)
	c.Config = n.Config
	return l.ask(ctx, n.Host, callLaunch, c, nil)
}

// Dial implements driver.Lease: a stream of the host's connection.
func (l *lease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	k, err := l.link(ctx, host)
	if err != nil {
		return nil, err
	}
	c := l.call(host)
	c.Path = socket
	// The stream outlives the dialling.
	s, err := k.Open(context.WithoutCancel(ctx), callDial, c, nil)
	if err != nil {
		return nil, transient(err)
	}
	return s, nil
}

// Stage implements driver.Lease.
func (l *lease) Stage(ctx context.Context, t driver.Transfer) error {
	if _, err := os.Lstat(t.Local); errors.Is(err, os.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "copy", Object: t.Local, Err: errors.New("it is not there")}
	}
	k, err := l.link(ctx, t.Host)
	if err != nil {
		return err
	}
	c := l.call(t.Host)
	c.Path = t.Remote
	s, err := k.Open(ctx, callStage, c, nil)
	if err != nil {
		return transient(err)
	}
	defer s.Close()
	sendErr := filestream.Send(ctx, s, t.Local, t.Progress)
	var o outcome
	if err := wire.ReadMessage(s, &o); err != nil {
		return errors.Join(sendErr, transient(&core.Error{Kind: core.Lost, Op: "copy to " + l.h.Hosts[t.Host], Object: t.Local, Err: err}))
	}
	if o.Error != "" {
		return &core.Error{Kind: core.KindNamed(o.Kind), Op: "copy to " + l.h.Hosts[t.Host], Object: t.Local, Err: errors.New(o.Error)}
	}
	return sendErr
}

// Fetch implements driver.Lease.
func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	k, err := l.link(ctx, t.Host)
	if err != nil {
		return err
	}
	c := l.call(t.Host)
	c.Path = t.Remote
	s, err := k.Open(ctx, callFetch, c, nil)
	if err != nil {
		return transient(err)
	}
	defer s.Close()
	var r readProgress
	r.Reader, r.told = s, t.Progress
	return filestream.Receive(ctx, &r, t.Local)
}

// Release implements driver.Lease, on all hosts at once.
func (l *lease) Release(ctx context.Context) error {
	errs := make([]error, len(l.h.Leases))
	l.p.each(len(l.h.Leases), func(i int) {
		if l.h.Leases[i].Driver == "" { // the host never granted one
			return
		}
		if err := l.ask(ctx, i, callRelease, l.call(i), nil); err != nil && !core.IsKind(err, core.NotFound) {
			errs[i] = fmt.Errorf("release %s: %w", l.h.Hosts[i], err)
		}
	})
	l.close()
	return errors.Join(errs...)
}

func (l *lease) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, k := range l.links {
		if k != nil {
			k.Close()
			l.links[i] = nil
		}
	}
}
