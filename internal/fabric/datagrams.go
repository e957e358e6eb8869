package fabric

import (
	"errors"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
)

const (
	// mostAtOnce is how many frames one system call takes or gives.
	mostAtOnce = 16
	// roomAtOnce is how many bytes are taken at once where frames are large:
	// more would push each other out of the processor's caches.
	roomAtOnce = 128 << 10
)

// batch holds frames, wherever they lie, as the system wants to be notified of them.
type batch struct {
	frames   []vhost.Frame // at most mostAtOnce
	at       int           // the next one to be sent
	given    int
	bytes    int                   // that were given
	all      func(fd uintptr) bool // sendAll and send, made once
	some     func(fd uintptr)
	vectors  [mostAtOnce]unix.Iovec
	messages [mostAtOnce]message
}

// message is struct mmsghdr of recvmmsg(2).
type message struct {
	header unix.Msghdr
	length uint32
}

func newBatch() *batch {
	b := &batch{frames: make([]vhost.Frame, 0, mostAtOnce)}
	b.all = b.sendAll
	b.some = func(fd uintptr) { b.send(fd) } //nolint:errcheck // what is not given is known
	for i := range b.messages {
		b.messages[i].header.Iov = &b.vectors[i]
		b.messages[i].header.SetIovlen(1)
	}
	return b
}

// add reports whether there is room for more.
func (b *batch) add(frame vhost.Frame) bool {
	b.point(len(b.frames), frame.Head) // from sockets, to which it matters, they come in one part
	b.frames = append(b.frames, frame)
	return len(b.frames) < mostAtOnce
}

func (b *batch) point(i int, at []byte) {
	b.vectors[i].Base = &at[0]
	b.vectors[i].SetLen(len(at))
}

// call is recvmmsg or sendmmsg; it never waits.
func (b *batch) call(number, fd uintptr, from, to int) (int, error) {
	for {
		n, _, errno := unix.Syscall6(number, fd, uintptr(unsafe.Pointer(&b.messages[from])), uintptr(to-from), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0) // the struct that it wants
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// datagrams is the switch's end of a hypervisor's socket, a frame a datagram.
type datagrams struct {
	net.Conn
	raw syscall.RawConn
}

func newDatagrams(f *os.File) (*datagrams, error) {
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	raw, err := c.(*net.UnixConn).SyscallConn() // that is what it is
	if err != nil {
		c.Close()
		return nil, err
	}
	return &datagrams{Conn: c, raw: raw}, nil
}

// receive has take called for all frames that come at once, until the socket is closed.
func (d *datagrams) receive(take func(frames []vhost.Frame)) {
	b, frames := newBatch(), make([]vhost.Frame, mostAtOnce)
	const room = maxFrame + 1
	buf := make([]byte, mostAtOnce*room) // what no frame reaches is never backed by memory
	for i := range mostAtOnce {
		b.point(i, buf[i*room:][:room])
	}
	most := mostAtOnce
	d.raw.Read(func(fd uintptr) bool { //nolint:errcheck // it ends as the socket does
		for {
			n, err := b.call(unix.SYS_RECVMMSG, fd, 0, most)
			if err != nil {
				return !errors.Is(err, unix.EAGAIN)
			}
			longest := 1
			for i := range n {
				length := int(b.messages[i].length)
				frames[i].Head = buf[i*room:][:length]
				longest = max(longest, length)
			}
			take(frames[:n])
			if n < most {
				return false // it was empty, and we are notified of what has come since
			}
			most = min(max(roomAtOnce/longest, 1), mostAtOnce)
		}
	})
}

// give waits while the guest has no room. What it cannot take is lost.
func (d *datagrams) give(b *batch) (frames, bytes int) {
	b.at, b.given, b.bytes = 0, 0, 0
	core.BestEffort(d.raw.Write(b.all)) // what is not given is counted
	return b.given, b.bytes
}

// offer gives what the guest has room for, and does not wait, not even for one
// who does.
func (d *datagrams) offer(b *batch) (frames, bytes int) {
	b.at, b.given, b.bytes = 0, 0, 0
	core.BestEffort(d.raw.Control(b.some)) // then none is given
	return b.given, b.bytes
}

// send gives what the socket has room for, and reports why not more.
func (b *batch) send(fd uintptr) error {
	n, err := b.call(unix.SYS_SENDMMSG, fd, b.at, len(b.frames))
	for _, f := range b.frames[b.at:][:n] {
		b.bytes += f.Len()
	}
	b.at += n
	b.given += n
	return err
}

// sendAll reports whether it is done, or else has to wait for room.
func (b *batch) sendAll(fd uintptr) bool {
	for b.at < len(b.frames) {
		switch err := b.send(fd); {
		case err == nil:
		case errors.Is(err, unix.EAGAIN):
			return false
		default:
			b.at++
		}
	}
	return true
}
