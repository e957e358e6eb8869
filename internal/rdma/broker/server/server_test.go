package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/pool"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestConnection: two processes in two containers connect, and share rings and memory with
// the rights of the key alone.
func TestConnection(t *testing.T) {
	paths, _, _ := testPorts(t, plenty())
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the socket: %v, %v", info, err)
		}
	}
	a, b := greet(t, paths[0]), greet(t, paths[1])
	if a.hello.LID != 1 || b.hello.LID != 2 || a.hello.GID == b.hello.GID || a.hello.MaxQP != 64 {
		t.Errorf("got %+v and %+v", a.hello, b.hello)
	}
	qa, qb := a.queuePair(), b.queuePair()
	first, _ := a.connect(qa, qb.qp.Number, 2)
	if first.Present != 0 {
		t.Error("the peer is there before it has connected")
	}
	reply, fds := b.connect(qb, qa.qp.Number, 1)
	if reply.Present != 1 || reply.Process != a.hello.Process || reply.Slot != qa.qp.Slot || reply.TX != first.RX || reply.RX != first.TX || len(fds) != 4 {
		t.Fatalf("got %+v with %d descriptors, and %+v before", reply, len(fds), first)
	}
	fa := a.must(message.OpConnect, &first, message.Connect{Handle: qa.qp.Handle})
	if first.Present != 1 || len(fa) != 4 {
		t.Fatalf("got %+v with %d descriptors", first, len(fa))
	}
	if !same(t, fa[0], fds[0]) {
		t.Error("the sides have different rings")
	}
	if err := unix.Ftruncate(fa[0], 0); err == nil {
		t.Error("a process can change the size of the rings")
	}
	for i, fd := range []int{fds[2], fds[3], b.files[1]} {
		if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
			t.Errorf("a process can write into page or table of another, or its own table (%d)", i)
		}
	}
	table, err := unix.Mmap(fds[3], 0, message.TableBytes, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(table)

	var region message.Created
	memory := a.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 8192})
	own, err := unix.Mmap(memory[0], 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(own)
	for _, tc := range []struct {
		access   uint32
		writable bool
	}{{7, true}, {4, false}} {
		var mr message.RegisterReply
		a.must(message.OpRegister, &mr, message.Register{PD: qa.pd, Access: tc.access, Addr: 0x10800, Length: 4096, IOVA: 0x10800, Count: 1}, message.Extent{Bytes: 8192, Region: region.Handle})
		if got := table[message.TableKeys+4*mr.Slot:][:4]; bytes.Equal(got, make([]byte, 4)) {
			t.Error("the key is not in the table")
		}
		var found message.ResolveReply
		mapping := b.must(message.OpResolve, &found, message.Resolve{Handle: qb.qp.Handle, Key: mr.Key})
		if found.Addr != 0x10800 || found.Length != 4096 || found.Access != tc.access&14 || found.Count != 1 || found.Slot != mr.Slot || len(mapping) != 1 {
			t.Fatalf("got %+v with %d descriptors", found, len(mapping))
		}
		prot := unix.PROT_READ | unix.PROT_WRITE
		peer, err := unix.Mmap(mapping[0], 0, 8192, prot, unix.MAP_SHARED)
		if (err == nil) != tc.writable {
			t.Errorf("with access %d: map for writing: %v", tc.access, err)
		}
		if err == nil {
			copy(peer[2048:], "by the peer")
			if !strings.HasPrefix(string(own[2048:]), "by the peer") {
				t.Error("what the peer writes is not in the memory")
			}
			unix.Munmap(peer)
		}
		for _, fd := range mapping {
			unix.Close(fd)
		}
		a.must(message.OpDestroy, nil, message.Destroy{Handle: mr.Handle})
		if _, errno := b.call(message.OpResolve, nil, message.Resolve{Handle: qb.qp.Handle, Key: mr.Key}); errno != syscall.EACCES {
			t.Errorf("a key that is void: %v", errno)
		}
		if got := table[message.TableKeys+4*mr.Slot:][:4]; !bytes.Equal(got, make([]byte, 4)) {
			t.Error("the key stays in the table")
		}
	}
	for _, fd := range slices.Concat(fds, fa, memory) {
		unix.Close(fd)
	}
}

func same(t *testing.T, a, b int) bool {
	t.Helper()
	var sa, sb unix.Stat_t
	if unix.Fstat(a, &sa) != nil || unix.Fstat(b, &sb) != nil {
		t.Fatal("no descriptors")
	}
	return sa.Dev == sb.Dev && sa.Ino == sb.Ino
}

// childVariable names the socket to a process that is killed.
const childVariable = "BEE_TEST_RDMA_CHILD"

// TestKilledPeer: within a second of the end of a process, its peer's queue pair is in error
// with an event, and its memory is free.
func TestKilledPeer(t *testing.T) {
	if path := os.Getenv(childVariable); path != "" {
		c := greet(t, path)
		q := c.queuePair()
		var region message.Created
		c.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 1 << 30})
		number := make([]byte, 8)
		os.Stdout.Write([]byte{byte(q.qp.Number), byte(q.qp.Number >> 8), byte(q.qp.Number >> 16)})
		if _, err := os.Stdin.Read(number); err != nil {
			t.Fatal(err)
		}
		c.connect(q, uint32(number[0])|uint32(number[1])<<8|uint32(number[2])<<16, 1)
		os.Stdout.Write([]byte{1, 1, 1})
		select {}
	}
	paths, _, ports := testPorts(t, plenty())
	c := greet(t, paths[0])
	q := c.queuePair()
	child := exec.Command(os.Args[0], "-test.run=^TestKilledPeer$")
	child.Env = append(os.Environ(), childVariable+"="+paths[1])
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	number := make([]byte, 3)
	if _, err := out.Read(number); err != nil {
		t.Fatal(err)
	}
	in.Write([]byte{byte(q.qp.Number), byte(q.qp.Number >> 8), byte(q.qp.Number >> 16)})
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if reply, _ := c.connect(q, uint32(number[0])|uint32(number[1])<<8|uint32(number[2])<<16, 2); reply.Present != 1 {
		t.Fatalf("got %+v", reply)
	}
	if s := ports[1].Statistics(); s.Memory != 1<<30 || s.Objects[message.KindQP] != 1 || s.Processes != 1 {
		t.Errorf("of the process: %+v", s)
	}
	if c.state(q.qp.Slot) != 4 {
		t.Errorf("the state is %d", c.state(q.qp.Slot))
	}
	child.Process.Kill()
	e, is := c.lastEvent()
	if !is || e.Event != 1 || e.Handle != q.qp.Handle {
		t.Errorf("got %+v, %v", e, is)
	}
	if c.state(q.qp.Slot) != 7 {
		t.Errorf("the state is %d", c.state(q.qp.Slot))
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if _, _, err := unix.Recvfrom(c.woken, make([]byte, 8), unix.MSG_DONTWAIT); err != nil {
			return fmt.Errorf("wake the process: %w", err)
		}
		return nil
	})
	testkit.Eventually(t, 20*time.Second, func() error {
		if s := ports[1].Statistics(); s.Usage != (broker.Usage{}) {
			return fmt.Errorf("the process leaves %+v", s)
		}
		return nil
	})
	if err := child.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
}

// TestFullWake: a process that makes the socket of its wake-ups blocking, and fills it, does
// not keep the broker from others.
func TestFullWake(t *testing.T) {
	paths, _, ports := testPorts(t, plenty())
	a, b := greet(t, paths[0]), greet(t, paths[1])
	if err := unix.SetNonblock(a.wake, true); err != nil {
		t.Fatal(err)
	}
	var full error
	for full == nil {
		_, full = unix.Write(a.wake, make([]byte, 8))
	}
	if full != unix.EAGAIN {
		t.Fatal(full)
	}
	if err := unix.SetNonblock(a.wake, false); err != nil {
		t.Fatal(err)
	}
	qa, qb := a.queuePair(), b.queuePair()
	b.conn.SetDeadline(time.Now().Add(time.Minute))
	a.connect(qa, qb.qp.Number, 2)
	b.connect(qb, qa.qp.Number, 1) // wakes the other
	b.must(message.OpDestroy, nil, message.Destroy{Handle: qb.qp.Handle})
	closed := make(chan struct{})
	go func() {
		ports[0].Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Fatal("the port does not close")
	}
}

// TestLimits fail as a card's do, and the log names them.
func TestLimits(t *testing.T) {
	l := plenty()
	l.Memory, l.QPs, l.Processes = 1<<20, 1, 2
	paths, log, ports := testPorts(t, l)
	c := greet(t, paths[0])
	o := c.queuePair()
	if _, errno := c.call(message.OpCreateQP, nil, message.CreateQP{Type: 2, PD: o.pd, SendCQ: o.cq, RecvCQ: o.cq}); errno != syscall.ENOMEM {
		t.Errorf("too many queue pairs: %v", errno)
	}
	if _, errno := c.call(message.OpCreateRegion, nil, message.CreateRegion{Bytes: 1<<20 + 4096}); errno != syscall.ENOMEM {
		t.Errorf("too much memory: %v", errno)
	}
	c.must(message.OpCreateRegion, nil, message.CreateRegion{Bytes: 1 << 20})
	greet(t, paths[0])
	third := dial(t, paths[0])
	if _, errno := third.call(message.OpHello, nil, message.Hello{Protocol: message.Protocol, Build: [32]byte([]byte(testBuild))}); errno != syscall.ENOMEM {
		t.Errorf("too many processes: %v", errno)
	}
	for _, p := range ports {
		p.Close() // the log is complete then
	}
	for _, key := range []string{"rdma.qps", "rdma.memory"} {
		if !strings.Contains(log.String(), key) {
			t.Errorf("the log does not name %s: %s", key, log)
		}
	}
}

// TestFullPool: a program waits for ranges that rest, and gets ENOMEM at once where that is no use.
func TestFullPool(t *testing.T) {
	p, err := pool.New(64 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	s := New(testBuild, slog.New(slog.DiscardHandler), p)
	path := filepath.Join(t.TempDir(), "s")
	port, err := s.Listen(path, broker.Address{LID: 1}, plenty())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { port.Close() })
	c, ask := greet(t, path), message.CreateRegion{Bytes: uint64(p.Size()) / 4 * 3}
	var made message.Created
	for range 2 {
		unix.Close(c.must(message.OpCreateRegion, &made, ask)[0])
		begun := time.Now()
		if _, errno := c.call(message.OpCreateRegion, nil, ask); errno != syscall.ENOMEM || time.Since(begun) > answerTime/2 {
			t.Errorf("a region too many: %v after %v", errno, time.Since(begun))
		}
		c.must(message.OpDestroy, nil, message.Destroy{Handle: made.Handle})
	}
}

// TestForeignLibrary: a library of another build is refused, as is a first request that is
// none of a library.
func TestForeignLibrary(t *testing.T) {
	paths, _, _ := testPorts(t, plenty())
	other := message.Hello{Protocol: message.Protocol, Build: [32]byte([]byte(strings.ToUpper(testBuild)))}
	if _, errno := dial(t, paths[0]).call(message.OpHello, nil, other); errno != syscall.EPROTO {
		t.Errorf("another build: %v", errno)
	}
	if _, errno := dial(t, paths[0]).call(message.OpCreate, nil, message.Create{Kind: message.KindPD}); errno != syscall.EPROTO {
		t.Errorf("no greeting: %v", errno)
	}
	c := greet(t, paths[0])
	if _, err := c.conn.Write([]byte("nonsense, and more")); err != nil {
		t.Fatal(err)
	}
	if n, err := c.conn.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("a process that sends nonsense stays: %d, %v", n, err)
	}
}

// TestSilentConnections: those that greet nobody are limited in number, log nothing, and keep
// no process out.
func TestSilentConnections(t *testing.T) {
	l := plenty()
	l.Processes = 1
	paths, log, ports := testPorts(t, l)
	first := dial(t, paths[0])
	for range greeting + 3 {
		dial(t, paths[0])
	}
	if n, err := first.conn.Read(make([]byte, 8)); n != 0 || err == nil {
		t.Errorf("the oldest connection is held: %d, %v", n, err)
	}
	greet(t, paths[0])
	ports[0].Close() // the log is complete then
	if n := strings.Count(log.String(), "level=WARN"); n != 0 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
}
