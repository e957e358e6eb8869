package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/leasedir"
	"golang.org/x/sys/unix"
)

type lease struct {
	owner   core.Owner
	base    string
	dir     string // the lease's own
	argv    []string
	details details
}

func (l *lease) Handle() core.Handle { return kind().Handle(l.dir, l.owner) }
func (l *lease) Hosts() []core.Host  { return l.details.Hosts }
func (l *lease) Deadline() time.Time { return time.Time{} }

func (l *lease) Status(context.Context) (driver.Status, error) {
	if _, err := os.Lstat(l.dir); errors.Is(err, fs.ErrNotExist) {
		return driver.Status{Reason: "released"}, nil
	}
	switch {
	case len(l.details.Hosts) == 0:
		return driver.Status{Reason: "half-made by a process that ended"}, nil
	case l.details.Emulated && !emulate.Alive(l.dir):
		return driver.Status{Reason: "the emulated hosts have ended"}, nil
	}
	if _, err := os.Lstat(l.details.Hosts[0].Dir); err != nil {
		return driver.Status{Reason: "its directory is gone"}, nil
	}
	return driver.Status{Live: true}, nil
}

func (l *lease) fail(op string, host int, err error) error {
	e := &core.Error{Kind: core.KindOf(err), Op: op, Object: fmt.Sprintf("host %d", host), Err: err}
	if host >= 0 && host < len(l.details.Hosts) {
		e.Object = l.details.Hosts[host].Name
	}
	return e
}

func (l *lease) checkHost(op string, host int) error {
	if host < 0 || host >= len(l.details.Hosts) {
		return &core.Error{Kind: core.Invalid, Op: op, Object: fmt.Sprintf("host %d", host), Err: fmt.Errorf("the lease has %d hosts", len(l.details.Hosts))}
	}
	return nil
}

// Dial works for emulated hosts too: a unix socket is found by its file,
// whichever network namespace it was made in.
func (l *lease) Dial(ctx context.Context, host int, socket string) (net.Conn, error) {
	if err := l.checkHost("dial", host); err != nil {
		return nil, err
	}
	dir, err := unix.Open(filepath.Dir(socket), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(dir)
		// Through the descriptor, as an address holds 107 bytes only.
		var d net.Dialer
		var c net.Conn
		if c, err = d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(socket))); err == nil {
			return c, nil
		}
	}
	e := &core.Error{Kind: core.Transient, Op: "dial " + l.details.Hosts[host].Name, Object: socket, Err: err}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		e.Kind = core.NotFound
	}
	return nil, e
}

func (l *lease) Stage(ctx context.Context, t driver.Transfer) error {
	if err := l.checkHost("stage", t.Host); err != nil {
		return err
	}
	if err := filestream.Copy(ctx, t.Local, t.Remote, t.Progress); err != nil {
		return l.fail("stage to", t.Host, err)
	}
	return nil
}

func (l *lease) Fetch(ctx context.Context, t driver.Transfer) error {
	if err := l.checkHost("fetch", t.Host); err != nil {
		return err
	}
	if err := filestream.Copy(ctx, t.Remote, t.Local, t.Progress); err != nil {
		return l.fail("fetch from", t.Host, err)
	}
	return nil
}

// Release ends the nodes or the emulated hosts, then removes the run's
// directory, and the lease's own last.
func (l *lease) Release(ctx context.Context) error {
	return leasedir.Release(ctx, l.dir, l.owner, l.destroy)
}

// destroy ends and removes everything but the lease's own directory, which
// it empties. The caller holds the lock.
func (l *lease) destroy(ctx context.Context) error {
	if err := l.stopNodes(ctx); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "end the nodes of", Object: l.owner.String(), Err: err}
	}
	if err := emulate.Destroy(ctx, l.dir); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "end the emulated hosts of", Object: l.owner.String(), Err: err}
	}
	return leasedir.Empty(l.dir, l.base, l.owner)
}
