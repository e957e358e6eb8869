// Package socket has the sockets by which programs with verbs reach a broker, or what stands for one. It knows neither
// requests nor what is behind them.
package socket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Listen binds a socket by its directory, as paths of sockets are short.
func Listen(path string) (*net.UnixListener, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unixpacket", within(dir, path))
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // its name ends with dir
	core.BestEffort(refuseDescriptors(listener))
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// Dial connects with such a socket.
func Dial(path string) (*net.UnixConn, error) {
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return net.DialUnix("unixpacket", nil, within(dir, path))
}

func within(dir *os.File, path string) *net.UnixAddr {
	return &net.UnixAddr{Name: "/proc/self/fd/" + strconv.Itoa(int(dir.Fd())) + "/" + filepath.Base(path), Net: "unixpacket"}
}

// refuseDescriptors has the kernel refuse descriptors in requests, from Linux 6.16 on. Before
// that, the broker closes those that a program sends, which may wait for what they are of.
func refuseDescriptors(listener *net.UnixListener) error {
	raw, err := listener.SyscallConn()
	if err != nil {
		return err
	}
	var serr error
	err = raw.Control(func(fd uintptr) { serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) })
	return errors.Join(err, serr)
}

// Trusted reports whether the process at the other end is one of this user, or of root.
func Trusted(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		peer, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if int(peer.Uid) != os.Geteuid() && peer.Uid != 0 {
		return fmt.Errorf("user %d is not the user of the run", peer.Uid)
	}
	return nil
}

// Send sends a packet with descriptors. It never waits: a process has one request under way, so there is room.
func Send(conn *net.UnixConn, packet []byte, descriptors []int) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	var serr error
	if err := raw.Control(func(fd uintptr) {
		serr = unix.Sendmsg(int(fd), packet, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	}); err != nil {
		return err
	}
	return serr
}

// Receive waits for a packet of at most len(buf) bytes that has no descriptors; nil: the connection has ended.
func Receive(conn *net.UnixConn, buf []byte) ([]byte, error) {
	n, _, flags, _, err := conn.ReadMsgUnix(buf, nil)
	switch {
	case err != nil || n == 0: // the end of a process, whatever it is called
		return nil, nil
	case flags&unix.MSG_TRUNC != 0:
		return nil, errors.New("a request is larger than a packet")
	case flags&unix.MSG_CTRUNC != 0: // there was no room for any, so that none was received
		return nil, errors.New("a request has descriptors")
	}
	return buf[:n], nil
}
