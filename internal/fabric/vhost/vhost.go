// Package vhost is a guest's network device whose other side is this process
// (the vhost-user protocol of QEMU's documentation): the rings through which
// the guest's driver sends and receives are in its memory, which is mapped
// here, so that a frame is copied once each way and passes no process between.
// Checksums and segmentation that the guest left to its device travel with each
// frame as virtio's header, for the guest that receives it to make use of. It
// knows rings and frames, and nothing of where frames go.
package vhost

import (
	"errors"
	"log/slog"
	"net"
	"sync"

	"github.com/bee-hpc/bee/internal/fabric/loop"
	"github.com/bee-hpc/bee/internal/wire"
)

// HeaderSize is that of what precedes each frame here: the first ten bytes of
// virtio's struct virtio_net_hdr, flags to csum_offset (VIRTIO 1.2, 5.1.6). All
// zero it says nothing.
const HeaderSize = 10

// MaxFrame is the longest frame with its header, in bytes: what the largest
// segment of TCP and IP, or the largest MTU, needs.
const MaxFrame = HeaderSize + 14 + 4 + 65536

// errStopped reports frames for a guest whose device takes none: it is not up
// yet, or the machine is halted.
var errStopped = errors.New("the guest's device is stopped")

// Device is the other side of one guest's device.
type Device struct {
	take     func(frames []Frame)
	loop     *loop.Loop
	log      *slog.Logger
	listener net.Listener
	writing  sync.Mutex // frames to the guest, one after the other

	mu      sync.Mutex
	current *session
	closed  bool
}

// Serve takes the hypervisor's connection from a listener of Unix sockets, and
// calls take for the guest's frames, as many at a time as are there, in a loop, from one
// goroutine at a time; they are take's only until it returns, as long ones are in the guest's
// memory, and it does not wait. Of several connections the last one counts: a
// machine that is started again connects again. Who can connect can speak for the
// guest: the listener has to be the user's own.
func Serve(l net.Listener, in *loop.Loop, log *slog.Logger, take func(frames []Frame)) *Device {
	d := &Device{take: take, loop: in, log: log, listener: l}
	go d.accept()
	return d
}

func (d *Device) accept() {
	g := wire.Gate{Failed: func(err error) { d.log.Warn("accept the hypervisor's connection", "err", err) }}
	g.Serve(d.listener, func(c net.Conn, known func() bool) {
		u, ok := c.(*net.UnixConn)
		if !ok {
			return
		}
		known() // the socket is the user's own
		s := newSession(d, u)
		d.mu.Lock()
		old := d.current
		d.current = s
		closed := d.closed
		d.mu.Unlock()
		if old != nil {
			old.close()
		}
		if closed {
			s.close()
			s.free()
			return
		}
		s.serve()
	})
}

// Give hands frames to the guest, each with its header before it, in their order.
// It waits while the guest has no room, and reports how many there were and their
// bytes, headers included; what the device does not take is lost.
func (d *Device) Give(frames []Frame) (given, bytes int) {
	d.writing.Lock()
	defer d.writing.Unlock()
	for len(frames) > 0 {
		s, n, err := d.put(frames)
		given, bytes = given+n, bytes+length(frames[:n])
		switch frames = frames[n:]; {
		case errors.Is(err, errStopped):
			return given, bytes
		case err != nil:
			frames = frames[1:] // it is lost, and what follows may not be
		case len(frames) > 0:
			<-s.room
		}
	}
	return given, bytes
}

// Offer hands frames to the guest like Give, and stops at the first for which it has
// no room, or which it does not take. It does not wait, not even for one who does.
func (d *Device) Offer(frames []Frame) (given, bytes int) {
	if !d.writing.TryLock() {
		return 0, 0
	}
	defer d.writing.Unlock()
	_, given, _ = d.put(frames)
	return given, length(frames[:given])
}

func (d *Device) put(frames []Frame) (s *session, given int, err error) {
	d.mu.Lock()
	s = d.current
	d.mu.Unlock()
	if s == nil {
		return nil, 0, errStopped
	}
	given, err = s.receive(frames)
	return s, given, err
}

func length(frames []Frame) (n int) {
	for _, f := range frames {
		n += f.Len()
	}
	return n
}

// Close ends the device; the guest's driver then sends to nobody.
func (d *Device) Close() error {
	err := d.listener.Close()
	d.mu.Lock()
	d.closed = true
	s := d.current
	d.current = nil
	d.mu.Unlock()
	if s != nil {
		s.close()
	}
	return err
}
