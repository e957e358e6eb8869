package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Requests of a hypervisor's, in the order in which they are made here.
const (
	setFeatures         = 2
	setMemTable         = 5
	setVringNum         = 8
	setVringAddr        = 9
	setVringBase        = 10
	setVringKick        = 12
	setVringCall        = 13
	setProtocolFeatures = 16
	setVringEnable      = 18
)

// What the driver agrees to: merged buffers, events, offloads (virtio), and to be
// answered (vhost-user).
const (
	ringFeatures = 1<<0 | 1<<1 | 1<<15 | 1<<29 | 1<<30 | 1<<32
	answers      = 1 << 3
	needsAnswer  = 1<<0 | 1<<3
	followed     = 1
	writable     = 2
)

// Where things are in the guest's memory: two rings, their buffers, and frames.
const (
	ringEntries = 1024
	ringAvail   = 16 * ringEntries
	ringUsed    = ringAvail + 4096
	ringBytes   = ringUsed + 3*4096
	takeBuffer  = 4096
	giveBuffer  = frameHeader + headBytes
	takeAt      = 2 * ringBytes
	giveAt      = takeAt + ringEntries*takeBuffer
	giveEntries = ringEntries / 2
	framesAt    = giveAt + giveEntries*giveBuffer
	ringsMemory = framesAt + 2<<20
	ringsBase   = 1 << 30
	frameHeader = 12
)

// headBytes are copied of a frame, as Linux' driver does; what is behind them stays where
// it lies: here the switch writes it, or from here the switch takes it. So frames go from
// one guest's memory to the other's, as those of sockets do from one buffer to the other.
const headBytes = 128

// rings is an end as a guest's driver is one, and its hypervisor: its rings are
// mapped by the switch.
type rings struct {
	c          *net.UnixConn
	memory     []byte
	sending    sync.Mutex
	take, give half
	spare      []uint16 // buffers to give, two descriptors each
	laid       int      // bytes of frames
	fence      atomic.Int32
}

// half is one ring, which begins somewhere in the memory.
type half struct {
	at         int
	next, seen uint16
	kick, call *os.File
}

// newRings has a switch map the rings of a guest, at the other end of a connection.
func newRings(c *net.UnixConn) (end, error) {
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, ringsMemory); err != nil {
		return nil, err
	}
	g := &rings{c: c}
	if g.memory, err = unix.Mmap(fd, 0, ringsMemory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, err
	}
	u64 := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return b
	}
	pair := func(a, b int) uint64 { return uint64(a) | uint64(b)<<32 }
	g.take.at, g.give.at = 0, ringBytes
	err = errors.Join(g.report(setProtocolFeatures, u64(answers)), g.report(setFeatures, u64(ringFeatures)),
		g.report(setMemTable, u64(1, ringsBase, ringsMemory, ringsBase, 0), fd))
	for i, h := range []*half{&g.take, &g.give} {
		var fds [2]int
		for k := range fds {
			if fds[k], err = unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC); err != nil {
				return nil, err
			}
		}
		h.kick, h.call = os.NewFile(uintptr(fds[0]), "kick"), os.NewFile(uintptr(fds[1]), "call")
		at := uint64(ringsBase + h.at)
		err = errors.Join(err, g.report(setVringNum, u64(pair(i, ringEntries))), g.report(setVringBase, u64(pair(i, 0))),
			g.report(setVringAddr, u64(uint64(i), at, at+ringUsed, at+ringAvail, 0)), g.report(setVringCall, u64(uint64(i)), fds[1]),
			g.report(setVringKick, u64(uint64(i)), fds[0]), g.report(setVringEnable, u64(pair(i, 1))))
	}
	for i := range uint16(ringEntries) {
		g.describe(&g.take, i, takeAt+int(i)*takeBuffer, takeBuffer, writable)
		g.offer(&g.take, i)
	}
	for i := range uint16(giveEntries) {
		g.spare = append(g.spare, 2*i)
	}
	return g, err
}

// report makes a request, and waits until it is done.
func (g *rings) report(request uint32, payload []byte, fds ...int) error {
	out := binary.LittleEndian.AppendUint32(nil, request)
	out = binary.LittleEndian.AppendUint32(out, needsAnswer)
	out = append(binary.LittleEndian.AppendUint32(out, uint32(len(payload))), payload...)
	var control []byte
	if len(fds) > 0 {
		control = unix.UnixRights(fds...)
	}
	if _, _, err := g.c.WriteMsgUnix(out, control, nil); err != nil {
		return err
	}
	answer := make([]byte, 20)
	if _, err := g.c.Read(answer); err != nil || answer[12] != 0 {
		return fmt.Errorf("request %d is refused: %w", request, err)
	}
	return nil
}

func (g *rings) describe(h *half, i uint16, at, n int, flags uint16) {
	d := g.memory[h.at+16*int(i):]
	binary.LittleEndian.PutUint64(d, uint64(ringsBase+at))
	binary.LittleEndian.PutUint32(d[8:], uint32(n))
	binary.LittleEndian.PutUint16(d[12:], flags)
	binary.LittleEndian.PutUint16(d[14:], i+1)
}

// index is that of a ring's available or used part, behind its flags.
func index(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(&b[0])) } // aligned, by the layout above

// offer makes a buffer available, and kicks if the device wants that.
func (g *rings) offer(h *half, i uint16) {
	avail, used := g.memory[h.at+ringAvail:], g.memory[h.at+ringUsed:]
	binary.LittleEndian.PutUint16(avail[4+2*int(h.next%ringEntries):], i)
	h.next++
	atomic.StoreUint32(index(avail), uint32(h.next)<<16)
	g.fence.Add(1) // what the device wants is read after it can see what is there
	if event := binary.LittleEndian.Uint16(used[4+8*ringEntries:]); h.next-event-1 < 1 {
		h.kick.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// done gives the next buffer that the device is done with.
func (g *rings) done(h *half) (i uint16, n int, ok bool) {
	used := g.memory[h.at+ringUsed:]
	if uint16(atomic.LoadUint32(index(used))>>16) == h.seen {
		return 0, 0, false
	}
	entry := used[4+8*int(h.seen%ringEntries):]
	h.seen++
	return uint16(binary.LittleEndian.Uint32(entry)), int(binary.LittleEndian.Uint32(entry[4:])), true
}

// wait has the device call when it is done with the next buffer, and does that.
func (g *rings) wait(h *half) error {
	used, avail := g.memory[h.at+ringUsed:], g.memory[h.at+ringAvail:]
	binary.LittleEndian.PutUint16(avail[4+2*ringEntries:], h.seen)
	g.fence.Add(1) // the device sees the wish before we look a last time
	if uint16(atomic.LoadUint32(index(used))>>16) != h.seen {
		return nil
	}
	_, err := h.call.Read(make([]byte, 8))
	return err
}

func (g *rings) Send(frame []byte) error {
	g.sending.Lock()
	defer g.sending.Unlock()
	for {
		for i, _, ok := g.done(&g.give); ok; i, _, ok = g.done(&g.give) {
			g.spare = append(g.spare, i)
		}
		if len(g.spare) > 0 {
			break
		}
		if err := g.wait(&g.give); err != nil {
			return err
		}
	}
	i := g.spare[len(g.spare)-1]
	at, rest := giveAt+int(i/2)*giveBuffer, len(frame)-headBytes
	copy(g.memory[at+frameHeader:][:headBytes], frame)
	if rest <= 0 {
		g.describe(&g.give, i, at, frameHeader+len(frame), 0)
	} else {
		lies := int(uintptr(unsafe.Pointer(&frame[0])) - uintptr(unsafe.Pointer(&g.memory[0]))) // it is compared only
		if lies < framesAt || lies+len(frame) > len(g.memory) {
			return errors.New("a long frame that does not lie in the guest's memory")
		}
		g.describe(&g.give, i, at, giveBuffer, followed)
		g.describe(&g.give, i+1, lies+headBytes, rest, 0)
	}
	g.spare = g.spare[:len(g.spare)-1]
	g.offer(&g.give, i)
	return nil
}

// Lay puts a frame into the guest's memory, from where it is sent.
func (g *rings) Lay(frame []byte) []byte {
	at := framesAt + g.laid
	g.laid += len(frame)
	return g.memory[at : g.laid+framesAt][:copy(g.memory[at:], frame)]
}

func (g *rings) Receive(b []byte) (n int, err error) {
	for more := 1; more > 0; {
		i, length, ok := g.done(&g.take)
		if !ok {
			if err := g.wait(&g.take); err != nil {
				return 0, err
			}
			continue
		}
		at := takeAt + int(i)*takeBuffer
		part := g.memory[at : at+length]
		if n == 0 {
			more, part = int(binary.LittleEndian.Uint16(part[10:])), part[frameHeader:]
			copy(b, part[:min(len(part), headBytes)])
		}
		n += len(part)
		more--
		g.offer(&g.take, i)
	}
	return n, nil
}

func (g *rings) Wait(until time.Time) { g.take.call.SetReadDeadline(until) }

func (g *rings) Close() error {
	err := errors.Join(g.c.Close(), unix.Munmap(g.memory))
	for _, h := range []*half{&g.take, &g.give} {
		h.kick.Close()
		h.call.Close()
	}
	return err
}
