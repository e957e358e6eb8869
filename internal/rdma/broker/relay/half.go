package relay

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// half is what both ends of a relay have.
type half struct {
	stream net.Conn

	writing sync.Mutex // of frames

	mu      sync.Mutex
	sockets map[uint32]*socketEnd
	numbers map[inode]uint32 // of sockets, as replies may have one often; empty in a guest
	over    bool
	pumps   sync.WaitGroup
}

// socketEnd is the end of a socket that a half has.
type socketEnd struct {
	file *os.File
	// other is the program's end, which it may be passed again; nil: in the host.
	other *os.File
	inode inode // of file; zero: in a guest
}

// inode identifies a file.
type inode struct{ device, number uint64 }

func (e *socketEnd) close() {
	e.file.Close()
	if e.other != nil {
		e.other.Close()
	}
}

func newHalf(stream net.Conn) *half {
	return &half{stream: stream, sockets: map[uint32]*socketEnd{}, numbers: map[inode]uint32{}}
}

// write sends a frame.
func (h *half) write(f frame) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	_, err := h.stream.Write(f.encode())
	return err
}

// add adds a socket under a number: what the other half sends of it arrives from now on.
func (h *half) add(id uint32, e *socketEnd) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		e.close()
		return net.ErrClosed
	}
	if h.sockets[id] != nil {
		e.close()
		return fmt.Errorf("a second socket has number %d", id)
	}
	h.sockets[id] = e
	if e.inode != (inode{}) {
		h.numbers[e.inode] = id
	}
	return nil
}

// start passes on what is sent on a socket. The other half knows its number before.
func (h *half) start(id uint32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.sockets[id]; e != nil {
		h.pumps.Go(func() { h.pump(id, e) })
	}
}

// pump passes on what is sent on a socket, until that ends.
func (h *half) pump(id uint32, e *socketEnd) {
	buf := make([]byte, mostData)
	for {
		n, err := e.file.Read(buf)
		if err != nil || n == 0 {
			break
		}
		if h.write(frame{kindData, id, buf[:n]}) != nil {
			return
		}
	}
	if h.remove(id) {
		_ = h.write(frame{kind: kindEnd, id: id}) // the stream's end is that of all
	}
}

// remove closes a socket; false: there is none of that number any more.
func (h *half) remove(id uint32) bool {
	h.mu.Lock()
	e := h.sockets[id]
	delete(h.sockets, id)
	if e != nil {
		delete(h.numbers, e.inode)
	}
	h.mu.Unlock()
	if e != nil {
		e.close()
	}
	return e != nil
}

// numberOf returns the number of a socket; false: there is none of that inode.
func (h *half) numberOf(i inode) (uint32, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id, is := h.numbers[i]
	return id, is
}

// find returns a socket; nil: there is none of that number.
func (h *half) find(id uint32) *socketEnd {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sockets[id]
}

// carry does what a frame says of a socket. Of a socket that has ended meanwhile, nothing is left to do.
func (h *half) carry(f frame) error {
	switch f.kind {
	case kindEnd:
		h.remove(f.id)
		return nil
	case kindData:
		if len(f.body) == 0 || len(f.body) > mostData {
			return fmt.Errorf("%d bytes for a socket", len(f.body))
		}
		e := h.find(f.id)
		if e == nil {
			return nil
		}
		raw, err := e.file.SyscallConn()
		if err != nil {
			return nil // it has ended
		}
		_ = raw.Control(func(fd uintptr) { // as the broker does: what has no room wakes nobody who is not awake, or has no reader
			_ = unix.Sendto(int(fd), f.body, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		})
		return nil
	}
	return fmt.Errorf("a frame of kind %d", f.kind)
}

// end closes all that the half has, and waits for that.
func (h *half) end() {
	h.mu.Lock()
	h.over = true
	for id, e := range h.sockets {
		delete(h.sockets, id)
		e.close()
	}
	h.mu.Unlock()
	core.BestEffort(hangUp(h.stream))
	h.pumps.Wait()
}

// hangUp closes a stream, of which nobody reads any more. Streams of a session may be read until the other side has closed
// them, too.
func hangUp(stream net.Conn) error {
	return errors.Join(stream.SetDeadline(time.Unix(1, 0)), stream.Close())
}

// pollable makes a file of a socket, the reads of which end when it is closed.
func pollable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "bee-rdma-relay"), nil
}
