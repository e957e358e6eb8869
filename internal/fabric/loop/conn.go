package loop

import (
	"errors"
	"io"
	"math"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNothing says that nothing (more) is to be read now. To who reads by way of TLS it
// is as if the time was over, so that it continues later where it was.
var ErrNothing net.Error = nothing{}

type nothing struct{}

func (nothing) Error() string   { return "nothing is there to be read" }
func (nothing) Timeout() bool   { return true }
func (nothing) Temporary() bool { return true }

// Conn is a TCP connection of which a source hears. Reads do not wait, writes do, and
// there is one reader at a time.
type Conn struct {
	local, remote net.Addr
	alarm         *Event // set for good by Close
	closing       atomic.Bool
	until         atomic.Int64 // that writes may wait; in nanoseconds since 1970, 0: for ever
	empty         bool         // nothing was left behind what was read last

	mu sync.RWMutex // held for reading while fd is used
	fd int          // -1: it is closed
}

// NewConn takes a connection over, which nobody uses any more.
func NewConn(c *net.TCPConn) (*Conn, error) {
	fd, err := duplicate(c)
	if err != nil {
		return nil, err
	}
	alarm, err := NewEvent()
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	// What is not sent yet has as much room as what is, which Room goes by.
	unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, math.MaxInt32) //nolint:errcheck // it is so by default
	own := &Conn{local: c.LocalAddr(), remote: c.RemoteAddr(), alarm: alarm, fd: fd}
	c.Close() // the poller's
	return own, nil
}

// Of has a source notice what comes.
func (c *Conn) Of(s *Source) error {
	return c.use("watch", func(fd int) error { return s.Watch(fd) })
}

// Heard says that there is something to be read, after all.
func (c *Conn) Heard() { c.empty = false }

// Read implements net.Conn. Where nothing is there, it is ErrNothing.
func (c *Conn) Read(b []byte) (n int, err error) {
	switch {
	case len(b) == 0:
		return 0, nil
	case c.empty:
		return 0, ErrNothing
	}
	err = c.use("read", func(fd int) error {
		for {
			n, err = unix.Read(fd, b)
			if !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	})
	switch {
	case errors.Is(err, unix.EAGAIN):
		c.empty = true
		return 0, ErrNothing
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	c.empty = n < len(b)
	return n, nil
}

// Write implements net.Conn.
func (c *Conn) Write(b []byte) (n int, err error) {
	err = c.use("write", func(fd int) error {
		for n < len(b) {
			some, err := unix.Write(fd, b[n:])
			switch {
			case err == nil:
				n += some
			case errors.Is(err, unix.EAGAIN):
				if err := c.room(fd); err != nil {
					return err
				}
			case !errors.Is(err, unix.EINTR):
				return err
			}
		}
		return nil
	})
	return n, err
}

// room waits for it, on a thread: who does is no hurry.
func (c *Conn) room(fd int) error {
	timeout := -1
	if at := c.until.Load(); at != 0 {
		if timeout = int(time.Until(time.Unix(0, at)).Milliseconds()) + 1; timeout <= 0 {
			return os.ErrDeadlineExceeded
		}
	}
	if c.closing.Load() {
		return net.ErrClosed
	}
	_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}, {Fd: int32(c.alarm.fd), Events: unix.POLLIN}}, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) { // else the next write shows what there is
		return os.NewSyscallError("poll", err)
	}
	return nil
}

// use has fd stay open meanwhile.
func (c *Conn) use(op string, do func(fd int) error) error {
	c.mu.RLock()
	defer c.mu.RUnlock()
	err := error(net.ErrClosed)
	if c.fd >= 0 {
		err = do(c.fd)
	}
	if err != nil {
		return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
	}
	return nil
}

// Room is how many bytes can be written now without waiting, at least.
func (c *Conn) Room() (room int) {
	err := c.use("look at", func(fd int) error {
		var info [memoryFields]uint32
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO, uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0) // what it wants
		// The system counts its own structures as well, which are more than what they hold
		// where that is little.
		if free := int(info[memoryBound]) - int(info[memoryQueued]); errno == 0 {
			room = max(free/2-perWrite, 0)
		}
		return nil
	})
	if err != nil {
		return 0
	}
	return room
}

// Unread reports whether something has come that was not read.
func (c *Conn) Unread() (some bool) {
	err := c.use("look at", func(fd int) error {
		n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
		some = n > 0
		return err
	})
	return err == nil && some
}

// What the system reports of a socket's memory (SO_MEMINFO, linux/sock_diag.h).
const (
	memoryBound  = 3
	memoryQueued = 5
	memoryFields = 9
	perWrite     = 4 << 10
)

// Close ends the connection, and who writes meanwhile. Its source is closed before.
func (c *Conn) Close() error {
	if c.closing.Swap(true) {
		return net.ErrClosed
	}
	c.alarm.Set()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := unix.Close(c.fd)
	c.fd = -1
	c.alarm.Close()
	return os.NewSyscallError("close", err)
}

// SetLinger is as net.TCPConn has it.
func (c *Conn) SetLinger(seconds int) error {
	return c.use("set", func(fd int) error {
		l := unix.Linger{Linger: int32(max(seconds, 0))}
		if seconds >= 0 {
			l.Onoff = 1
		}
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l)
	})
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetReadDeadline has nothing to bound.
func (c *Conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline bounds how long the writes wait that begin later.
func (c *Conn) SetWriteDeadline(at time.Time) error {
	nanos := int64(0)
	if !at.IsZero() {
		nanos = at.UnixNano()
	}
	c.until.Store(nanos)
	return nil
}

// SetDeadline is SetWriteDeadline.
func (c *Conn) SetDeadline(at time.Time) error { return c.SetWriteDeadline(at) }
