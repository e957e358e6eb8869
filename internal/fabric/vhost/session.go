package vhost

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// Features of virtio and vhost that we know, by their bits.
const (
	featChecksum      = 1 << 0
	featGuestChecksum = 1 << 1
	featMTU           = 1 << 3
	featGuestSegments = 1<<7 | 1<<8 | 1<<9 // TSO for IPv4 and IPv6, with ECN
	featHostSegments  = 1<<11 | 1<<12 | 1<<13
	featMergeBuffers  = 1 << 15
	featLog           = 1 << 26
	featAnyLayout     = 1 << 27
	featIndirect      = 1 << 28
	featEvents        = 1 << 29
	featProtocol      = 1 << 30
	featVersion1      = 1 << 32

	features = featChecksum | featGuestChecksum | featMTU | featGuestSegments | featHostSegments | featMergeBuffers | featLog | featAnyLayout |
		featIndirect | featEvents | featProtocol | featVersion1
)

// Features of the protocol, by their bits.
const (
	protoLogFile = 1 << 1
	protoRARP    = 1 << 2
	protoReply   = 1 << 3
	protoMTU     = 1 << 4
)

// Requests of the hypervisor's.
const (
	getFeatures         = 1
	setFeatures         = 2
	setOwner            = 3
	resetOwner          = 4
	setMemTable         = 5
	setLogBase          = 6
	setLogFD            = 7
	setVringNum         = 8
	setVringAddr        = 9
	setVringBase        = 10
	getVringBase        = 11
	setVringKick        = 12
	setVringCall        = 13
	setVringErr         = 14
	getProtocolFeatures = 15
	setProtocolFeatures = 16
	setVringEnable      = 18
	sendRARP            = 19
	netSetMTU           = 20
)

// The header of a message: request, flags, size of what follows.
const (
	messageHeader = 12
	flagVersion   = 1
	flagReply     = 1 << 2
	flagNeedReply = 1 << 3
	maxPayload    = 4096
	noFile        = 1 << 8 // in the payload of files for rings
)

// session is one connection of a hypervisor's.
type session struct {
	device *Device
	c      *net.UnixConn
	rings  [ringCount]ring
	room   chan struct{} // holds one: the guest may have some, or takes nothing any more
	sent   batch
	once   sync.Once

	// What follows changes with the locks of both rings held.
	memory memory
	dirty  dirty
	acked  uint64
}

func newSession(d *Device, c *net.UnixConn) *session {
	s := &session{device: d, c: c, room: make(chan struct{}, 1), sent: batch{data: make([]byte, 0, batchFrames*longFrame)}}
	s.rings[receiving].source = d.loop.Add(s.hasRoom)
	s.rings[sending].source = d.loop.Add(s.send)
	return s
}

func (s *session) events() bool { return s.acked&featEvents != 0 }

// logs gives the map of dirty pages where changes are to be noted.
func (s *session) logs() dirty {
	if s.acked&featLog == 0 {
		return nil
	}
	return s.dirty
}

func (s *session) headerSize() int {
	if s.acked&(featMergeBuffers|featVersion1) != 0 {
		return ringHeader
	}
	return HeaderSize
}

func (s *session) close() { s.fail(nil) }

// fail ends the session.
func (s *session) fail(err error) {
	s.once.Do(func() {
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
			s.device.log.Warn("the guest's network device failed", "err", err)
		}
		s.c.Close() // which ends who serves it
		for i := range s.rings {
			s.rings[i].halt()
		}
	})
}

// free releases all that the session has, when it has failed and no request is being
// dealt with any more.
func (s *session) free() {
	s.change(func() {
		s.memory.unmap()
		s.memory = nil
		s.forget()
		for i := range s.rings {
			r := &s.rings[i]
			r.desc, r.avail, r.used = nil, nil, nil
			r.noKick()
			r.callBy(nil)
			r.source.Close()
		}
	})
	s.hasRoom(loop.More) // who waits for it finds out
}

// change halts both rings: first the one that gives, with whose lock held others
// are given to.
func (s *session) change(do func()) {
	for _, i := range []int{sending, receiving} {
		s.rings[i].mu.Lock()
		defer s.rings[i].mu.Unlock()
	}
	do()
}

func (s *session) forget() {
	if s.dirty != nil {
		unix.Munmap(s.dirty)
		s.dirty = nil
	}
}

// serve answers the hypervisor until it leaves.
func (s *session) serve() {
	defer s.free()
	for {
		if err := s.message(); err != nil {
			s.fail(err)
			return
		}
	}
}

// message takes one request.
func (s *session) message() error {
	head, control := make([]byte, messageHeader), make([]byte, unix.CmsgSpace(4*8))
	n, nc, _, _, err := s.c.ReadMsgUnix(head, control)
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	files, err := inherited(control[:nc])
	defer func() {
		for _, f := range files {
			if f != nil {
				f.Close()
			}
		}
	}()
	if err != nil {
		return err
	}
	if _, err := io.ReadFull(s.c, head[n:]); err != nil {
		return err
	}
	request, flags, size := binary.LittleEndian.Uint32(head), binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	if size > maxPayload || flags&3 != flagVersion {
		return fmt.Errorf("request %d with %d bytes and flags %#x", request, size, flags)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(s.c, payload); err != nil {
		return err
	}
	reply, err := s.handle(request, payload, files)
	if err != nil {
		err = fmt.Errorf("request %d: %w", request, err)
	}
	if reply == nil && flags&flagNeedReply != 0 {
		reply = make([]byte, 8)
		if err != nil {
			reply[0] = 1
		}
	}
	if reply == nil {
		return err
	}
	out := binary.LittleEndian.AppendUint32(nil, request)
	out = binary.LittleEndian.AppendUint32(out, flagVersion|flagReply)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(reply)))
	if _, e := s.c.Write(append(out, reply...)); e != nil {
		return e
	}
	return err
}

// inherited are the files that came with a message.
func inherited(control []byte) ([]*os.File, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	var files []*os.File
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue // something else
		}
		for _, fd := range fds {
			unix.SetNonblock(fd, true) //nolint:errcheck // files of memory do not mind
			files = append(files, os.NewFile(uintptr(fd), "vhost"))
		}
	}
	return files, nil
}

// handle does what a request asks for. A file that it keeps it takes out of
// files.
func (s *session) handle(request uint32, p []byte, files []*os.File) (reply []byte, err error) {
	number := func() uint64 {
		if len(p) < 8 {
			err = fmt.Errorf("%d bytes of payload", len(p))
			return 0
		}
		return binary.LittleEndian.Uint64(p)
	}
	switch request {
	case getFeatures:
		return binary.LittleEndian.AppendUint64(nil, features), nil
	case getProtocolFeatures:
		return binary.LittleEndian.AppendUint64(nil, protoLogFile|protoRARP|protoReply|protoMTU), nil
	case setFeatures:
		if v := number(); err == nil {
			s.change(func() { s.acked = v })
		}
	case setProtocolFeatures, setOwner, resetOwner, setLogFD, setVringErr, sendRARP, netSetMTU:
		// Nothing of these changes what we do: frames of any size pass, and a
		// switch that knows its guests need not be reported where they are.
	case setMemTable:
		m, e := newMemory(p, files)
		if e != nil {
			return nil, e
		}
		s.change(func() { err = s.remap(m) })
	case setLogBase:
		if len(p) < 16 || len(files) == 0 {
			return nil, errors.New("no map of dirty pages")
		}
		d, e := newDirty(files[0], binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]))
		if e != nil {
			return nil, e
		}
		s.change(func() { s.forget(); s.dirty = d })
		return make([]byte, 8), nil
	default:
		if len(p) < 8 || request < setVringNum || request > setVringEnable {
			return nil, errors.New("an unknown request")
		}
		return s.ring(request, p, files)
	}
	return nil, err
}

// remap takes a new memory table; rings lie where they did for the hypervisor.
func (s *session) remap(m memory) error {
	s.memory.unmap()
	s.memory = m
	var errs []error
	for i := range s.rings {
		if r := &s.rings[i]; r.used != nil {
			errs = append(errs, s.locate(r))
		}
	}
	return errors.Join(errs...)
}

// ring does what a request asks of one ring: its number precedes what else.
func (s *session) ring(request uint32, p []byte, files []*os.File) (reply []byte, err error) {
	index, value := binary.LittleEndian.Uint32(p), binary.LittleEndian.Uint32(p[4:])
	if request == setVringKick || request == setVringCall {
		index &= noFile - 1
	}
	if index >= ringCount {
		return nil, fmt.Errorf("there is no ring %d", index)
	}
	r := &s.rings[index]
	if request == getVringBase {
		return binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, index), uint32(r.halt())), nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch request {
	case setVringNum:
		if value == 0 || value > maxRing || value&(value-1) != 0 {
			return nil, fmt.Errorf("a ring of %d", value)
		}
		r.num, r.used = uint16(value), nil // its parts are reported next
	case setVringBase:
		r.next, r.filled = uint16(value), uint16(value)
	case setVringAddr:
		return nil, s.place(r, p)
	case setVringEnable:
		r.enabled = value != 0
	case setVringCall:
		call, err := keep(files)
		if err != nil {
			return nil, err
		}
		r.callBy(call)
	case setVringKick:
		kick, err := keep(files)
		if err != nil {
			return nil, err
		}
		if kick == nil {
			return nil, errors.New("a ring without kicks is not for us")
		}
		if err := r.kickBy(kick); err != nil {
			return nil, err
		}
		if s.acked&featProtocol == 0 {
			r.enabled = true
		}
	default:
		return nil, errors.New("an unknown request")
	}
	r.source.Call()
	return nil, nil
}

// keep takes a message's event over, if it has one.
func keep(files []*os.File) (*loop.Event, error) {
	if len(files) == 0 {
		return nil, nil
	}
	f := files[0]
	files[0] = nil
	return loop.EventOf(f)
}

// place finds a ring in the guest's memory: number and flags, 4 bytes each,
// then the addresses of descriptors, used and available ring in the hypervisor,
// and of the used ring in the guest for the map of dirty pages.
func (s *session) place(r *ring, p []byte) error {
	if len(p) < 40 || r.num == 0 {
		return errors.New("addresses of a ring that are not all there")
	}
	for i := range r.at {
		r.at[i] = binary.LittleEndian.Uint64(p[8+8*i:])
	}
	r.logged, r.usedAt = binary.LittleEndian.Uint32(p[4:])&1 != 0, binary.LittleEndian.Uint64(p[32:])
	if err := s.locate(r); err != nil {
		return err
	}
	r.filled = binary.LittleEndian.Uint16(r.used[2:]) // as it is after a restore
	return nil
}

// locate finds a ring's three parts in the memory as it is now.
func (s *session) locate(r *ring) (err error) {
	n := int(r.num)
	for i, part := range []struct {
		to   *[]byte
		size int
	}{{&r.desc, n * descSize}, {&r.used, 4 + 8*n + 2}, {&r.avail, 4 + 2*n + 2}} {
		if *part.to, err = s.memory.whole(r.at[i], part.size); err != nil {
			r.used = nil // it cannot run
			return err
		}
	}
	return nil
}
