package fabric

import (
	"errors"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// mostAtOnce is how many frames one system call takes or gives.
	mostAtOnce = 16
	// roomAtOnce is how many bytes are taken at once where frames are large:
	// more would push each other out of the processor's caches.
	roomAtOnce = 128 << 10
)

// batch holds frames, wherever they lie, as the system wants to be told of them.
type batch struct {
	frames   [][]byte // at most mostAtOnce
	vectors  [mostAtOnce]unix.Iovec
	messages [mostAtOnce]message
}

// message is struct mmsghdr of recvmmsg(2).
type message struct {
	header unix.Msghdr
	length uint32
}

func newBatch() *batch {
	b := &batch{frames: make([][]byte, 0, mostAtOnce)}
	for i := range b.messages {
		b.messages[i].header.Iov = &b.vectors[i]
		b.messages[i].header.SetIovlen(1)
	}
	return b
}

// add tells whether there is room for more.
func (b *batch) add(frame []byte) bool {
	b.point(len(b.frames), frame)
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
		n, _, errno := unix.Syscall6(number, fd, uintptr(unsafe.Pointer(&b.messages[from])), uintptr(to-from), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0) //nolint:gosec // the struct that it wants
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
	raw, err := c.(*net.UnixConn).SyscallConn() //nolint:forcetypeassert // that is what it is
	if err != nil {
		c.Close()
		return nil, err
	}
	return &datagrams{Conn: c, raw: raw}, nil
}

// receive has take called for each frame that comes, and then done for all that
// came at once, until the socket is closed.
func (d *datagrams) receive(take func(frame []byte), done func()) {
	b := newBatch()
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
				take(buf[i*room:][:length])
				longest = max(longest, length)
			}
			done()
			if n < most {
				return false // it is empty: we are told when there is more
			}
			most = min(max(roomAtOnce/longest, 1), mostAtOnce)
		}
	})
}

// give waits while the guest has no room. What it cannot take is lost.
func (d *datagrams) give(b *batch) (frames, bytes int) {
	at := 0
	d.raw.Write(func(fd uintptr) bool { //nolint:errcheck // what is not given is counted
		for at < len(b.frames) {
			n, err := b.call(unix.SYS_SENDMMSG, fd, at, len(b.frames))
			switch {
			case err == nil:
				frames += n
				for range n {
					bytes += len(b.frames[at])
					at++
				}
			case errors.Is(err, unix.EAGAIN):
				return false
			default:
				at++
			}
		}
		return true
	})
	return frames, bytes
}
