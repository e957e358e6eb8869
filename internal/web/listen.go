package web

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// unixPrefix begins the address of a socket in a directory.
const unixPrefix = "unix:"

// Listen listens at an address of the loopback, or at "unix:" and a path.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if path, is := strings.CutPrefix(address, unixPrefix); is {
		return listenUnix(ctx, path)
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil && !loopback(net.JoinHostPort(host, "1")) {
		err = errors.New("it is not on the loopback, and others on the network would reach it")
	}
	if err != nil {
		return nil, refused(address, err, "Give 127.0.0.1:PORT or unix:PATH. From another machine, `ssh -L` forwards it.")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, refused(address, err, "Where another `bee web` has the port, its terminal has the address. Else give another port, or leave --listen out.")
	}
	return listener, nil
}

// listenUnix makes a socket that its user alone can open.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", path)
	if errors.Is(err, unix.EADDRINUSE) && abandoned(ctx, path) {
		if err = unix.Unlink(path); err == nil {
			listener, err = new(net.ListenConfig).Listen(ctx, "unix", path)
		}
	}
	if err != nil {
		return nil, refused(unixPrefix+path, err, "Name a file that does not exist, in a directory of yours. A path has at most 107 characters.")
	}
	if err := unix.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(refused(unixPrefix+path, err, ""), listener.Close())
	}
	return listener, nil
}

// abandoned reports whether a path is that of a socket at which nobody listens any more.
func abandoned(ctx context.Context, path string) bool {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		conn.Close()
	}
	return errors.Is(err, unix.ECONNREFUSED)
}

func refused(address string, err error, remedy string) error {
	return &core.Error{Kind: core.Invalid, Op: "listen at", Object: address, Err: err, Remedy: remedy}
}

// Address is where a browser on this machine reaches a listener; of a socket, the port that
// ssh shall forward is not known yet.
func Address(listener net.Listener) string {
	if a, is := listener.Addr().(*net.TCPAddr); is {
		return "http://" + a.String()
	}
	return fmt.Sprintf("http://127.0.0.1:%d", forwardPort)
}

// forwardPort is what the example of a forwarding has for a socket.
const forwardPort = 8080

// Forward is the command that makes a listener reachable from the machine of the user, who
// has logged in here as user@host.
func Forward(listener net.Listener, login string) string {
	if a, is := listener.Addr().(*net.TCPAddr); is {
		return fmt.Sprintf("ssh -N -L %d:%s %s", a.Port, a, login)
	}
	path := listener.Addr().String()
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return fmt.Sprintf("ssh -N -L %d:%s %s", forwardPort, path, login)
}
