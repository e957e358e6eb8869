// Package vhost is a guest's network device whose other side is this process
// (the vhost-user protocol of QEMU's documentation): the rings through which
// the guest's driver sends and receives lie in its memory, which is mapped
// here, so that a frame is copied once each way and passes no process between.
// Checksums and segmentation that the guest left to its device travel with each
// frame as virtio's header, for the guest that receives it to make use of. It
// knows rings and frames, and nothing of where frames go.
package vhost

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
)

// HeaderSize is that of what precedes each frame here: the first ten bytes of
// virtio's struct virtio_net_hdr, flags to csum_offset (VIRTIO 1.2, 5.1.6). All
// zero it says nothing.
const HeaderSize = 10

// MaxFrame is the longest frame with its header, in bytes: what the largest
// segment of TCP and IP, or the largest MTU, needs.
const MaxFrame = HeaderSize + 14 + 4 + 65536

// ErrStopped tells of a frame for a guest whose device takes none: it is not
// up yet, or the machine is halted.
var ErrStopped = errors.New("the guest's device is stopped")

// Device is the other side of one guest's device.
type Device struct {
	take     func(frame []byte)
	log      *slog.Logger
	listener net.Listener
	writing  sync.Mutex // frames to the guest, one after the other

	mu      sync.Mutex
	current *session
	closed  bool
}

// Serve takes the hypervisor's connection from a listener of Unix sockets, and
// calls take for each frame of the guest's, from one goroutine; the frame is
// take's only until it returns. Of several connections the last one counts: a
// machine that is started anew connects anew. Who can connect can speak for the
// guest: the listener has to be the user's own.
func Serve(l net.Listener, log *slog.Logger, take func(frame []byte)) *Device {
	d := &Device{take: take, log: log, listener: l}
	go d.accept()
	return d
}

func (d *Device) accept() {
	for {
		c, err := d.listener.Accept()
		if err != nil {
			return
		}
		u, ok := c.(*net.UnixConn)
		if !ok {
			c.Close()
			continue
		}
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
			return
		}
		go s.serve()
	}
}

// Write gives the guest a frame that its header precedes. It waits while the
// guest has no room, and fails with ErrStopped where the device takes none.
func (d *Device) Write(frame []byte) (int, error) {
	if len(frame) <= HeaderSize || len(frame) > MaxFrame {
		return 0, fmt.Errorf("a frame of %d bytes cannot be", len(frame)-HeaderSize)
	}
	d.writing.Lock()
	defer d.writing.Unlock()
	for {
		d.mu.Lock()
		s := d.current
		d.mu.Unlock()
		if s == nil {
			return 0, ErrStopped
		}
		done, err := s.receive(frame)
		if err != nil {
			return 0, err
		}
		if done {
			return len(frame), nil
		}
		select {
		case <-s.rings[receiving].kicked:
		case <-s.done:
		}
	}
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
