package wire

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest path that fits a unix socket's address.
const maxSocketPath = 107

// ListenUnix listens on a socket that only this user can connect to. A socket
// of that name that a dead process left is replaced.
func ListenUnix(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", short)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return &ownListener{l.(*net.UnixListener)}, nil
}

// ListenFile is ListenUnix for another process: the socket takes connections for
// as long as someone has it open.
func ListenFile(path string) (*os.File, error) {
	l, err := ListenUnix(path)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	return l.(*ownListener).File() // what ListenUnix gives
}

// HiddenPrefix begins the names of sockets that have no file.
const HiddenPrefix = "@bee-"

// ListenHidden listens on a socket that has no file, which therefore goes with the
// process: name is for DialUnix, by this user and on this host.
func ListenHidden() (l net.Listener, name string, err error) {
	name = HiddenPrefix + rand.Text()
	if l, err = (&net.ListenConfig{}).Listen(context.Background(), "unix", name); err != nil {
		return nil, "", err
	}
	return &ownListener{l.(*net.UnixListener)}, name, nil
}

// DialUnix connects to a socket, however long its path.
func DialUnix(ctx context.Context, path string) (net.Conn, error) {
	short, done, err := shortPath(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return (&net.Dialer{}).DialContext(ctx, "unix", short)
}

// DialSocket is DialUnix with an error that reports, as leases promise, a socket
// on which nobody listens (NotFound) from one that cannot be reached now
// (Transient).
func DialSocket(ctx context.Context, path string) (net.Conn, error) {
	conn, err := DialUnix(ctx, path)
	if err == nil {
		return conn, nil
	}
	e := &core.Error{Kind: core.Transient, Op: "dial", Object: path, Err: err}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		e.Kind = core.NotFound
	}
	return nil, e
}

// shortPath gives a name for a path that fits an address: where it is too
// long, through a descriptor of its directory.
func shortPath(path string) (string, func(), error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open %s: %w", filepath.Dir(path), err)
	}
	return "/proc/self/fd/" + strconv.Itoa(fd) + "/" + filepath.Base(path), func() { unix.Close(fd) }, nil
}

// ownListener refuses connections of other users, whatever the file's mode:
// root inside a container of ours counts as ourselves.
type ownListener struct{ *net.UnixListener }

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peerUID(c); err == nil && (uid == os.Geteuid() || uid == 0) {
			return c, nil
		}
		c.Close()
	}
}

func peerUID(c *net.UnixConn) (int, error) {
	cred, err := peerCred(c)
	if err != nil {
		return 0, err
	}
	return int(cred.Uid), nil
}

// PeerPID returns the process that listens, where a connection was dialled; 0: that is not known here, as with one in
// another PID namespace.
func PeerPID(c net.Conn) int {
	u, is := c.(*net.UnixConn)
	if !is {
		return 0
	}
	cred, err := peerCred(u)
	if err != nil {
		return 0
	}
	return int(cred.Pid)
}

func peerCred(c *net.UnixConn) (*unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var (
		cred *unix.Ucred
		cerr error
	)
	if err := raw.Control(func(fd uintptr) { cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return nil, err
	}
	return cred, cerr
}
