package server

import (
	"encoding/binary"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

const testBuild = "0123456789abcdef0123456789abcdef"

// client is a process with the library, as far as the broker sees it.
type client struct {
	t    testing.TB
	conn *net.UnixConn
	// page and table are mapped, and files their descriptors.
	page, table []byte
	files       []int
	// events, woken and wake are descriptors: woken becomes readable when others send on wake.
	events, woken, wake int
	hello               message.HelloReply
}

// call sends a request, and reads the reply into body.
func (c *client) call(op message.Op, body any, parts ...any) ([]int, syscall.Errno) {
	c.t.Helper()
	packet := make([]byte, 8)
	for _, part := range parts {
		packet, _ = binary.Append(packet, binary.LittleEndian, part)
	}
	binary.LittleEndian.PutUint32(packet, uint32(len(packet)))
	binary.LittleEndian.PutUint16(packet[4:], uint16(op))
	if _, err := c.conn.Write(packet); err != nil {
		c.t.Fatal(err)
	}
	answer, oob := make([]byte, message.Packet), make([]byte, 1024)
	n, on, _, _, err := c.conn.ReadMsgUnix(answer, oob)
	if err != nil {
		c.t.Fatalf("operation %d: %v", op, err)
	}
	var descriptors []int
	messages, err := unix.ParseSocketControlMessage(oob[:on])
	if err != nil {
		c.t.Fatal(err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			c.t.Fatal(err)
		}
		descriptors = append(descriptors, fds...)
	}
	if size := binary.LittleEndian.Uint32(answer); int(size) != n || message.Op(binary.LittleEndian.Uint16(answer[4:])) != op || int(binary.LittleEndian.Uint16(answer[6:])) != len(descriptors) {
		c.t.Fatalf("operation %d: %d bytes with %d descriptors have the header %v", op, n, len(descriptors), answer[:16])
	}
	errno := syscall.Errno(binary.LittleEndian.Uint32(answer[8:]))
	if errno == 0 && body != nil {
		if _, err := binary.Decode(answer[16+8*message.Descriptors:n], binary.LittleEndian, body); err != nil {
			c.t.Fatalf("operation %d: %v", op, err)
		}
	}
	return descriptors, errno
}

// must is call for a request that is carried out.
func (c *client) must(op message.Op, body any, parts ...any) []int {
	c.t.Helper()
	descriptors, errno := c.call(op, body, parts...)
	if errno != 0 {
		c.t.Fatalf("operation %d: %v", op, errno)
	}
	return descriptors
}

func dial(t testing.TB, path string) *client {
	t.Helper()
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { conn.Close() })
	return &client{t: t, conn: conn}
}

// greet opens the device.
func greet(t testing.TB, path string) *client {
	t.Helper()
	c := dial(t, path)
	fds := c.must(message.OpHello, &c.hello, message.Hello{Protocol: message.Protocol, PID: 1, Build: [32]byte([]byte(testBuild))})
	if len(fds) != 5 {
		t.Fatalf("%d descriptors", len(fds))
	}
	c.events, c.woken, c.wake = fds[0], fds[1], fds[2]
	page, err := unix.Mmap(fds[3], 0, message.PageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	table, err := unix.Mmap(fds[4], 0, message.TableBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	c.page, c.table, c.files = page, table, fds[3:]
	t.Cleanup(func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
		unix.Munmap(page)
		unix.Munmap(table)
	})
	return c
}

// objects are what a queue pair needs, and the queue pair.
type objects struct {
	pd, cq uint32
	qp     message.CreateQPReply
}

func (c *client) queuePair() objects {
	c.t.Helper()
	var o objects
	var made message.Created
	c.must(message.OpCreate, &made, message.Create{Kind: message.KindPD})
	o.pd = made.Handle
	c.must(message.OpCreate, &made, message.Create{Kind: message.KindCQ})
	o.cq = made.Handle
	c.must(message.OpCreateQP, &o.qp, message.CreateQP{Type: 2, PD: o.pd, SendCQ: o.cq, RecvCQ: o.cq, MaxSend: 16, MaxRecv: 16})
	return o
}

// Masks of the attributes that the changes of a reliable queue pair need.
const (
	maskInit = 1<<0 | 1<<4 | 1<<5 | 1<<3
	maskRTR  = 1<<0 | 1<<7 | 1<<8 | 1<<20 | 1<<12 | 1<<17 | 1<<15
	maskRTS  = 1<<0 | 1<<9 | 1<<10 | 1<<11 | 1<<16 | 1<<13
)

// connect goes to RTR and RTS, and connects.
func (c *client) connect(o objects, number uint32, lid uint16) (message.ConnectReply, []int) {
	c.t.Helper()
	for _, m := range []message.ModifyQP{
		{Mask: maskInit, State: 1, Port: 1, Access: 15},
		{Mask: maskRTR, State: 2, MTU: 5, Destination: number, LID: lid, AHPort: 1},
		{Mask: maskRTS, State: 3, Timeout: 14, Retries: 7, RNRRetries: 7},
	} {
		m.Handle = o.qp.Handle
		c.must(message.OpModifyQP, nil, m)
	}
	var reply message.ConnectReply
	fds := c.must(message.OpConnect, &reply, message.Connect{Handle: o.qp.Handle})
	return reply, fds
}

// state is that of a queue pair in the table.
func (c *client) state(slot uint32) uint32 {
	return binary.LittleEndian.Uint32(c.table[message.TableQPs+8*slot:])
}

// lastEvent reads an event, for at most a second.
func (c *client) lastEvent() (e message.Event, is bool) {
	poll := []unix.PollFd{{Fd: int32(c.events), Events: unix.POLLIN}}
	for end := time.Now().Add(time.Minute); ; {
		n, err := unix.Poll(poll, int(time.Until(end).Milliseconds()))
		if n == 1 {
			break
		}
		if err != unix.EINTR {
			return e, false
		}
	}
	raw := make([]byte, 8)
	if n, err := unix.Read(c.events, raw); err != nil || n != 8 {
		return e, false
	}
	e.Event, e.Handle = binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4:])
	return e, true
}

// testPorts are those of two containers.
func testPorts(t testing.TB, l broker.Limits) (paths [2]string, log *strings.Builder, ports [2]*Port) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40)) // longer than the path of a socket may be
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "bee")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(short) })
	log = &strings.Builder{}
	s := New(testBuild, slog.New(slog.NewTextHandler(log, nil)), nil)
	for i := range paths {
		path := filepath.Join(dir, []string{"a.sock", "b.sock"}[i])
		paths[i] = filepath.Join(short, filepath.Base(path))
		if err := os.Symlink(path, paths[i]); err != nil {
			t.Fatal(err)
		}
		if ports[i], err = s.Listen(path, broker.Address{LID: uint16(i + 1), GID: [16]byte{0xfe, 0x80, 15: byte(i + 1)}}, l); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ports[i].Close() })
	}
	return paths, log, ports
}

func plenty() broker.Limits {
	return broker.Limits{Memory: 1 << 30, QPs: 64, PDs: 64, CQs: 64, SRQs: 64, AHs: 64, MRs: 64, IDs: 64, WR: 16384, Processes: 16}
}
