package vhost

import (
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bee-hpc/bee/internal/fabric/loop"
)

// driver is what a hypervisor and the driver of its guest are for the device:
// the other end of the protocol, with rings in memory of its own.
type driver struct {
	t         testing.TB
	c         *net.UnixConn
	file      *os.File
	memory    []byte
	kick      [ringCount]*os.File
	call      [ringCount]*os.File
	next      [ringCount]uint16 // available
	seen      [ringCount]uint16 // used
	bufferLen int
	features  uint64
}

// Where things are in the memory.
const (
	ringSize    = 64
	guestBase   = 1 << 30
	userBase    = 1 << 40
	ringSpace   = 4 * pageSize
	buffersAt   = ringCount * ringSpace
	sendSlot    = 128 << 10 // for each frame to send
	receivedAt  = buffersAt + ringSize*sendSlot
	memoryBytes = receivedAt + ringSize*sendSlot
	availAt     = pageSize
	usedAt      = 2 * pageSize
)

func eventFD(t testing.TB) *os.File {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "event")
	t.Cleanup(func() { f.Close() })
	return f
}

// connect starts a driver whose buffers to receive in have some length.
func connect(t testing.TB, path string, bufferLen int, features uint64) *driver {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fd, err := unix.MemfdCreate("guest", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, c: c, file: os.NewFile(uintptr(fd), "guest"), bufferLen: bufferLen, features: features}
	t.Cleanup(func() { d.file.Close() })
	if err := d.file.Truncate(memoryBytes); err != nil {
		t.Fatal(err)
	}
	if d.memory, err = unix.Mmap(fd, 0, memoryBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		t.Fatal(err)
	}
	offered := binary.LittleEndian.Uint64(d.ask(getFeatures, nil))
	if missing := d.features &^ offered; missing != 0 {
		t.Fatalf("the device has no features %#x", missing)
	}
	d.report(setProtocolFeatures, u64(protoReply))
	d.report(setFeatures, u64(d.features))
	d.table()
	d.start([ringCount]uint16{})
	return d
}

func u64(values ...uint64) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func u32(values ...uint32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	return b
}

func (d *driver) message(request, flags uint32, payload []byte, files ...*os.File) {
	d.t.Helper()
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			raw, err := f.SyscallConn()
			if err != nil {
				d.t.Fatal(err)
			}
			raw.Control(func(fd uintptr) { fds[i] = int(fd) }) //nolint:errcheck // open
		}
		rights = unix.UnixRights(fds...)
	}
	out := append(u32(request, flagVersion|flags, uint32(len(payload))), payload...)
	if _, _, err := d.c.WriteMsgUnix(out, rights, nil); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) ask(request uint32, payload []byte, files ...*os.File) []byte {
	d.t.Helper()
	d.message(request, 0, payload, files...)
	return d.answer(request)
}

func (d *driver) answer(request uint32) []byte {
	d.t.Helper()
	head := make([]byte, messageHeader)
	if _, err := d.c.Read(head); err != nil {
		d.t.Fatalf("answer to %d: %v", request, err)
	}
	b := make([]byte, binary.LittleEndian.Uint32(head[8:]))
	if _, err := d.c.Read(b); err != nil || binary.LittleEndian.Uint32(head) != request {
		d.t.Fatalf("answer %v to %d: %v", head, request, err)
	}
	return b
}

// report waits until a request is done.
func (d *driver) report(request uint32, payload []byte, files ...*os.File) {
	d.t.Helper()
	d.message(request, flagNeedReply, payload, files...)
	if r := d.answer(request); r[0] != 0 {
		d.t.Fatalf("request %d was refused", request)
	}
}

// table reports the memory, in two regions, one in the middle of its file.
func (d *driver) table() {
	const half = receivedAt
	d.report(setMemTable, append(u32(2, 0), u64(guestBase, half, userBase, 0, guestBase+half, memoryBytes-half, userBase+half, half)...), d.file, d.file)
}

// start sets the rings up from some places on.
func (d *driver) start(from [ringCount]uint16) {
	for i := range uint32(ringCount) {
		at := userBase + uint64(i)*ringSpace
		d.kick[i], d.call[i] = eventFD(d.t), eventFD(d.t)
		d.report(setVringNum, u32(i, ringSize))
		d.report(setVringBase, u32(i, uint32(from[i])))
		d.report(setVringAddr, append(u32(i, 1), u64(at, at+usedAt, at+availAt, guestBase+uint64(i)*ringSpace+usedAt)...))
		d.report(setVringCall, u64(uint64(i)), d.call[i])
		d.report(setVringKick, u64(uint64(i)), d.kick[i])
		d.report(setVringEnable, u32(i, 1))
	}
}

func (d *driver) part(ring int, at int) []byte { return d.memory[ring*ringSpace+at:] }

func (d *driver) describe(ring int, i uint16, address uint64, n int, flags, next uint16) {
	p := d.part(ring, int(i)*descSize)
	binary.LittleEndian.PutUint64(p, address)
	binary.LittleEndian.PutUint32(p[8:], uint32(n))
	binary.LittleEndian.PutUint16(p[12:], flags)
	binary.LittleEndian.PutUint16(p[14:], next)
}

// offer makes a chain available, and kicks if the device wants that.
func (d *driver) offer(ring int, head uint16) {
	avail, used := d.part(ring, availAt), d.part(ring, usedAt)
	binary.LittleEndian.PutUint16(avail[4+2*(d.next[ring]%ringSize):], head)
	old := d.next[ring]
	d.next[ring]++
	atomic.StoreUint32(word(avail), uint32(d.next[ring])<<16)
	kick := true
	if d.features&featEvents != 0 {
		event := binary.LittleEndian.Uint16(used[4+8*ringSize:])
		kick = d.next[ring]-event-1 < d.next[ring]-old
	}
	if kick {
		d.kick[ring].Write([]byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// done takes the next used buffer, if there is one within the time.
func (d *driver) done(ring int, timeout time.Duration) (head uint32, written int, ok bool) {
	used, avail := d.part(ring, usedAt), d.part(ring, availAt)
	for deadline := time.Now().Add(timeout); ; {
		if uint16(atomic.LoadUint32(word(used))>>16) != d.seen[ring] {
			entry := used[4+8*(d.seen[ring]%ringSize):]
			d.seen[ring]++
			return binary.LittleEndian.Uint32(entry), int(binary.LittleEndian.Uint32(entry[4:])), true
		}
		binary.LittleEndian.PutUint16(avail[4+2*ringSize:], d.seen[ring]) // call at the next one
		if uint16(atomic.LoadUint32(word(used))>>16) != d.seen[ring] {
			continue
		}
		if time.Now().After(deadline) {
			return 0, 0, false
		}
		d.call[ring].SetReadDeadline(deadline)
		if _, err := d.call[ring].Read(make([]byte, 8)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			d.t.Fatal(err)
		}
	}
}

// send gives the device a frame behind a header, in parts of some length.
func (d *driver) send(slot uint16, header, frame []byte, part int) {
	at := buffersAt + int(slot)*sendSlot
	all := d.memory[at : at : at+sendSlot]
	all = append(append(all, header...), 0, 0)
	n := len(append(all, frame...))
	// Chains of several parts are in a table of their own, behind the frame.
	if part >= n {
		d.describe(sending, slot, guestBase+uint64(at), n, 0, 0)
	} else {
		table, count := (at+n+15)&^15, 0
		for from := 0; from < n; from += part {
			p := d.memory[table+count*descSize:]
			flags := uint16(descNext)
			if from+part >= n {
				flags = 0
			}
			count++
			binary.LittleEndian.PutUint64(p, guestBase+uint64(at+from))
			binary.LittleEndian.PutUint32(p[8:], uint32(min(part, n-from)))
			binary.LittleEndian.PutUint16(p[12:], flags)
			binary.LittleEndian.PutUint16(p[14:], uint16(count))
		}
		d.describe(sending, slot, guestBase+uint64(table), count*descSize, descIndirect, 0)
	}
	d.offer(sending, slot)
}

// room gives the device n more buffers to write to.
func (d *driver) room(n int) {
	for range n {
		i := d.next[receiving] % ringSize
		d.describe(receiving, i, guestBase+receivedAt+uint64(i)*sendSlot, d.bufferLen, descWrite, 0)
		d.offer(receiving, i)
	}
}

// receive gives the next frame with its header.
func (d *driver) receive(timeout time.Duration) (frame []byte, ok bool) {
	for more := 1; more > 0; more-- {
		head, written, got := d.done(receiving, timeout)
		if !got {
			return nil, false
		}
		at := receivedAt + int(head)*sendSlot
		b := d.memory[at : at+written]
		if frame == nil {
			more = int(binary.LittleEndian.Uint16(b[HeaderSize:]))
			frame = append([]byte{}, b[:HeaderSize]...)
			b = b[ringHeader:]
		}
		frame = append(frame, b...)
	}
	return frame, true
}

const usual = features &^ featLog

// listen gives a listener on a fresh socket.
func listen(t testing.TB) (net.Listener, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "vhost")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	return l, path
}

// device gives one on a fresh socket.
func device(t testing.TB, take func([]byte)) (*Device, string) {
	t.Helper()
	l, path := listen(t)
	in := &loop.Loop{}
	t.Cleanup(in.Close)
	d := Serve(l, in, slog.New(slog.DiscardHandler), func(frames []Frame) {
		for _, f := range frames {
			take(f.AppendTo(nil))
		}
	})
	t.Cleanup(func() { d.Close() })
	return d, path
}

// whole are frames in one part each.
func whole(frames ...[]byte) (all []Frame) {
	for _, f := range frames {
		all = append(all, Frame{Head: f})
	}
	return all
}

// give reports whether the guest was given a frame.
func give(d *Device, frame []byte) bool {
	n, bytes := d.Give([]Frame{{Head: frame}})
	return n == 1 && bytes == len(frame)
}
