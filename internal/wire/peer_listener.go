package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// ListenerName is in the certificate of who listens at a PeerListener.
const ListenerName = "door"

// PeerListener lets one caller in, who has a certificate for it, and is closed then.
type PeerListener struct {
	listener net.Listener
	config   *tls.Config
	addrs    []string
}

// ListenForPeer listens on a port that the system chooses.
func ListenForPeer(id *Identity) (*PeerListener, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", ":0")
	if err != nil {
		return nil, err
	}
	d := &PeerListener{listener: l, config: id.Server()}
	if d.addrs, err = HostAddrs(l.Addr().(*net.TCPAddr).Port); err == nil && len(d.addrs) == 0 {
		err = errors.New("this host has no address that others could reach")
	}
	if err != nil {
		l.Close()
		return nil, err
	}
	return d, nil
}

// Addrs are the ip:port at which callers may find it.
func (d *PeerListener) Addrs() []string { return d.addrs }

// Close lets nobody in any more.
func (d *PeerListener) Close() error { return d.listener.Close() }

// Admit waits for the caller. Strangers are kept out, and hold up nobody.
func (d *PeerListener) Admit(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer d.Close()
	admitted, failed := make(chan net.Conn), make(chan error, 1)
	go func() {
		var g Gate
		g.Serve(d.listener, func(c net.Conn, known func() bool) {
			caller := tls.Server(c, d.config)
			if during(ctx, c, func() error { return answer(caller) }) != nil || !known() {
				return
			}
			select {
			case admitted <- caller:
			case <-ctx.Done():
				c.Close()
			}
		})
		failed <- net.ErrClosed
	}()
	select {
	case c := <-admitted:
		return tolerant(c), nil
	case err := <-failed:
		return nil, err
	case <-ctx.Done():
		return nil, errors.New("nobody came")
	}
}

// HostAddrs are the ip:port at which others may find a port of this host.
func HostAddrs(port int) ([]string, error) {
	all, err := net.InterfaceAddrs()
	var list []string
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.IsGlobalUnicast() {
			list = append(list, net.JoinHostPort(ip.IP.String(), strconv.Itoa(port)))
		}
	}
	return list, err
}

// Reach calls at a listener, at all of its addresses at once, and gives the connection
// by which it was let in.
func Reach(ctx context.Context, id *Identity, addrs []string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type try struct {
		conn net.Conn
		err  error
	}
	tries := make(chan try, len(addrs))
	for _, addr := range addrs {
		go func() {
			c, err := (&tls.Dialer{Config: id.Client(ListenerName)}).DialContext(ctx, "tcp", addr)
			tries <- try{c, err}
		}()
	}
	var in net.Conn
	why := errors.New("no answer")
	for range addrs {
		t := <-tries
		switch {
		case t.err == nil && in != nil:
			t.conn.Close()
		case t.err == nil:
			if t.err = during(ctx, t.conn, func() error { return knock(t.conn) }); t.err == nil {
				in = t.conn
				cancel() // the others
			}
		}
		if t.err != nil && !errors.Is(t.err, context.Canceled) && !errors.Is(t.err, context.DeadlineExceeded) {
			why = t.err
		}
	}
	if in == nil {
		return nil, fmt.Errorf("no way to %s: %w", strings.Join(addrs, " or "), why)
	}
	return tolerant(in), nil
}

// knock asks for a connection by a byte, which the other end returns. A caller may get through
// by several addresses, and uses one of them. TLS 1.3 alone would not report whether the
// caller's certificate is accepted.
func knock(c net.Conn) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}

func answer(c net.Conn) error {
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// during does something with a connection, which is closed if that fails or takes
// longer than ctx lasts.
func during(ctx context.Context, c net.Conn, do func() error) error {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	err := do()
	if !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		c.Close()
	}
	return err
}

// unheard is for how long what is sent may stay without an answer.
const unheard = 2 * time.Minute

// tolerant has a connection break where the other end is silent for long, which
// the kernel alone would find out after a quarter of an hour.
func tolerant(c net.Conn) net.Conn {
	if raw, err := c.(*tls.Conn).NetConn().(*net.TCPConn).SyscallConn(); err == nil { // both are made here
		core.BestEffort(raw.Control(func(fd uintptr) { // then it is as the kernel has it
			core.BestEffort(unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unheard.Milliseconds())))
		}))
	}
	return c
}
