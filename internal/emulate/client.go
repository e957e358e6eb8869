package emulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// Client speaks to a holder. It is safe for concurrent use and holds nothing
// open.
type Client struct {
	dir   string
	id    procid.ID
	hosts []Host
	notes []string
}

// Open gives a client of the holder that Start made for dir, maybe in a
// process that is gone. NotFound where it does not run any more.
func Open(ctx context.Context, dir string) (*Client, error) {
	id, err := record(dir)
	if err != nil || !id.Alive() {
		return nil, &core.Error{Kind: core.NotFound, Op: "find emulated hosts", Object: dir, Err: errors.New("they do not run"), Remedy: "They run as long as their run: `bee ps` lists those that compute."}
	}
	c := &Client{dir: dir, id: id}
	r, files, err := c.call(ctx, request{Op: opHosts})
	closeAll(files)
	if err != nil {
		return nil, err
	}
	c.hosts, c.notes = r.Hosts, r.Notes
	return c, nil
}

func record(dir string) (procid.ID, error) {
	b, err := os.ReadFile(filepath.Join(dir, recordName))
	if err != nil {
		return procid.ID{}, err
	}
	return procid.Parse(string(b))
}

// Destroy ends the hosts of dir and everything on them, and returns when it
// has ended. What is gone is success. The files in dir are the caller's.
func Destroy(ctx context.Context, dir string) error {
	id, err := record(dir)
	if err != nil {
		// No record, or a torn one: then the holder never got its configuration.
		if errors.Is(err, fs.ErrNotExist) || !errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	}
	return id.Kill(ctx)
}

// Alive reports whether the holder of dir runs.
func Alive(dir string) bool {
	id, err := record(dir)
	return err == nil && id.Alive()
}

// Hosts gives the hosts by index.
func (c *Client) Hosts() []Host { return c.hosts }

// Notes report what the machine does not allow on the hosts.
func (c *Client) Notes() []string { return c.notes }

// PID is the holder's process number here.
func (c *Client) PID() int { return c.id.PID }

// Launch starts a process on a host, detached, and gives its number there.
func (c *Client) Launch(ctx context.Context, cmd Command) (int, error) {
	r, _, err := c.call(ctx, request{Op: opLaunch, Command: &cmd})
	return r.PID, err
}

// Run starts a process on a host with the given standard streams and waits
// for its end. When ctx ends, the process is killed.
func (c *Client) Run(ctx context.Context, cmd Command, stdin, stdout, stderr *os.File) (core.Exit, error) {
	r, _, err := c.call(ctx, request{Op: opRun, Command: &cmd}, stdin, stdout, stderr)
	if err != nil {
		return core.Exit{}, err
	}
	if r.Exit == nil {
		return core.Exit{}, errors.New("the holder did not tell how the process ended")
	}
	return *r.Exit, nil
}

// Procs lists what Launch started, also what has ended.
func (c *Client) Procs(ctx context.Context) ([]Proc, error) {
	r, _, err := c.call(ctx, request{Op: opProcs})
	return r.Procs, err
}

// Link cuts (up false) or heals a host's link. A cut link loses every packet
// without a sign of it on the host, as a failed switch does.
func (c *Client) Link(ctx context.Context, host int, up bool) error {
	_, _, err := c.call(ctx, request{Op: opLink, Host: host, Up: up})
	return err
}

// Apart has hosts that are apart not reach each other, without a sign of it, as
// behind firewalls; all others, and Dial, reach them as before.
func (c *Client) Apart(ctx context.Context, host int, is bool) error {
	_, _, err := c.call(ctx, request{Op: opApart, Host: host, Apart: is})
	return err
}

// Kill kills every process on a host at once, as a power cut does, and
// returns when they are gone. The host itself stays.
func (c *Client) Kill(ctx context.Context, host int) error {
	_, _, err := c.call(ctx, request{Op: opKill, Host: host})
	return err
}

// Dial connects to a TCP address on the hosts' network, from the bridge.
func (c *Client) Dial(ctx context.Context, addr string) (net.Conn, error) {
	_, files, err := c.call(ctx, request{Op: opDial, Addr: addr})
	defer closeAll(files)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, errors.New("the holder sent no connection")
	}
	return net.FileConn(files[0])
}

// Relay joins in and out to a TCP connection that Dial makes, until the other
// side ends it; so it can serve as ssh's ProxyCommand.
func (c *Client) Relay(ctx context.Context, addr string, in io.Reader, out io.Writer) error {
	conn, err := c.Dial(ctx, addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, in)
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = half.CloseWrite()
		}
	}()
	_, err = io.Copy(out, conn)
	return err
}

// call makes one call on a connection of its own.
func (c *Client) call(ctx context.Context, q request, files ...*os.File) (reply, []*os.File, error) {
	var r reply
	op := "emulated hosts: " + q.Op
	conn, err := dialUnix(ctx, filepath.Join(c.dir, socketName))
	if err != nil {
		if !c.id.Alive() {
			return r, nil, &core.Error{Kind: core.Lost, Op: op, Object: c.dir, Err: errors.New("the hosts are gone"), Remedy: "They run as long as their run: `bee ps` lists those that compute."}
		}
		return r, nil, &core.Error{Kind: core.Transient, Op: op, Object: c.dir, Err: err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	var got []*os.File
	if err = send(conn, q, files...); err == nil {
		got, err = receive(conn, &r)
	}
	if err != nil {
		if ctx.Err() != nil {
			return r, nil, &core.Error{Kind: core.Stopped, Op: op, Object: c.dir, Err: ctx.Err()}
		}
		return r, nil, &core.Error{Kind: core.Lost, Op: op, Object: c.dir, Err: err}
	}
	if err := r.err(op); err != nil {
		closeAll(got)
		return r, nil, err
	}
	return r, got, nil
}

// dialUnix connects to a socket whose path may be longer than an address can
// be (108 bytes): through the directory's descriptor.
func dialUnix(ctx context.Context, path string) (*net.UnixConn, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
