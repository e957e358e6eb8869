package server

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// testRuns are the servers of two runs of a domain, with a port each.
func testRuns(t *testing.T) (paths [2]string, servers [2]*Server) {
	t.Helper()
	dir, err := os.MkdirTemp("", "bee")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for i := range servers {
		s := New(testBuild, slog.New(slog.NewTextHandler(t.Output(), nil)), nil)
		servers[i] = s
		p, err := domain.Claim(t.Context(), filepath.Join(dir, "domains"), "lab", testBuild, 1)
		if err != nil {
			t.Fatal(err)
		}
		a := broker.Address{LID: p.First, GID: [16]byte{0xfe, 0x80, 15: byte(p.First)}}
		paths[i] = filepath.Join(dir, []string{"a.sock", "b.sock"}[i])
		port, err := s.Listen(paths[i], a, plenty())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { port.Close() })
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := s.Enter(p, []broker.Address{a}, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range servers {
		s.mu.Lock()
		if n := s.domain.Links(); n != 1 {
			t.Errorf("run %d is linked with %d others", i, n)
		}
		s.mu.Unlock()
	}
	return paths, servers
}

// connectRuns connects queue pairs of both runs, the second first.
func connectRuns(t *testing.T, a, b *client) (qa, qb objects, fa, fb []int) {
	t.Helper()
	qa, qb = a.queuePair(), b.queuePair()
	_, early := b.connect(qb, qa.qp.Number, 1)
	closeFiles(early)
	_, early = a.connect(qa, qb.qp.Number, 2)
	closeFiles(early)
	connected := func(c *client, o objects) (reply message.ConnectReply, fds []int) {
		for end := time.Now().Add(20 * time.Second); reply.Present == 0 && time.Now().Before(end); {
			closeFiles(fds)
			fds = c.must(message.OpConnect, &reply, message.Connect{Handle: o.qp.Handle})
		}
		if reply.Present != 1 || reply.Far != 0 || len(fds) != 4 {
			t.Fatalf("got %+v with %d descriptors", reply, len(fds))
		}
		return reply, fds
	}
	ra, fa := connected(a, qa)
	rb, fb := connected(b, qb)
	if ra.TX != rb.RX || ra.RX != rb.TX || ra.Slot != qb.qp.Slot || rb.Slot != qa.qp.Slot || ra.Process == a.hello.Process || rb.Process == b.hello.Process {
		t.Errorf("got %+v and %+v", ra, rb)
	}
	return qa, qb, fa, fb
}

func closeFiles(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// TestMemoryOfAnotherRun: processes of two runs have the same rings, and memory with the rights of its key alone. The
// peer of a process that ends fails, and nothing of either is left.
func TestMemoryOfAnotherRun(t *testing.T) {
	before := openFiles(t)
	t.Run("runs", func(t *testing.T) {
		paths, servers := testRuns(t)
		a, b := greet(t, paths[0]), greet(t, paths[1])
		qa, qb, fa, fb := connectRuns(t, a, b)
		if !same(t, fa[0], fb[0]) {
			t.Error("the sides have different rings")
		}
		for i, fd := range fb[2:] {
			if _, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
				t.Errorf("a process can write into page or table of another (%d)", i)
			}
		}
		var region message.Created
		memory := a.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 8192})
		own, err := unix.Mmap(memory[0], 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Munmap(own)
		for access, writable := range map[uint32]bool{7: true, 4: false} {
			var mr message.RegisterReply
			a.must(message.OpRegister, &mr, message.Register{PD: qa.pd, Access: access, Addr: 0x10800, Length: 4096, IOVA: 0x10800, Count: 1}, message.Extent{Bytes: 8192, Region: region.Handle})
			var found message.ResolveReply
			mapping := b.must(message.OpResolve, &found, message.Resolve{Handle: qb.qp.Handle, Key: mr.Key})
			if found.Addr != 0x10800 || found.Length != 4096 || found.Access != access&14 || found.Count != 1 || found.Slot != mr.Slot || len(mapping) != 1 {
				t.Fatalf("got %+v with %d descriptors", found, len(mapping))
			}
			peer, err := unix.Mmap(mapping[0], 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
			if (err == nil) != writable {
				t.Errorf("with access %d: map for writing: %v", access, err)
			}
			if err == nil {
				copy(peer[2048:], "by the peer")
				if !strings.HasPrefix(string(own[2048:]), "by the peer") {
					t.Error("what the peer writes is not in the memory")
				}
				unix.Munmap(peer)
			}
			closeFiles(mapping)
			a.must(message.OpDestroy, nil, message.Destroy{Handle: mr.Handle})
			if _, errno := b.call(message.OpResolve, nil, message.Resolve{Handle: qb.qp.Handle, Key: mr.Key}); errno != syscall.EACCES {
				t.Errorf("a key that is void: %v", errno)
			}
		}
		closeFiles(slices.Concat(fa, fb, memory))
		begun := time.Now()
		a.conn.Close()
		if e, is := b.lastEvent(); !is || e.Event != broker.EventQPFatal || e.Handle != qb.qp.Handle {
			t.Errorf("the event of the peer: %+v, %v", e, is)
		}
		t.Logf("the peer failed after %s", time.Since(begun))
		c := greet(t, paths[0])
		_, qb, fc, fb := connectRuns(t, c, b)
		closeFiles(slices.Concat(fc, fb))
		if err := servers[0].Close(); err != nil {
			t.Error(err)
		}
		if e, is := b.lastEvent(); !is || e.Event != broker.EventQPFatal || e.Handle != qb.qp.Handle {
			t.Errorf("the event of the peer of a run that has ended: %+v, %v", e, is)
		}
	})
	if after := openFiles(t); after > before {
		t.Errorf("%d files were open before, and %d are now", before, after)
	}
}

// TestStoppedRun: a program that asks a run that is stopped gets an error in time, and at once from then on, until the run
// continues. Others of its own run do not wait, also not while much waits for the run that is stopped.
func TestStoppedRun(t *testing.T) {
	t.Parallel()
	paths, servers := testRuns(t)
	a, b := greet(t, paths[0]), greet(t, paths[1])
	qa, _, fa, fb := connectRuns(t, a, b)
	closeFiles(slices.Concat(fa, fb))
	servers[1].mu.Lock()
	stopped := true
	defer func() {
		if stopped {
			servers[1].mu.Unlock()
		}
	}()
	begun := time.Now()
	asked := make(chan syscall.Errno)
	go func() {
		_, errno := a.call(message.OpResolve, nil, message.Resolve{Handle: qa.qp.Handle, Key: 7})
		asked <- errno
	}()
	greet(t, paths[0]).queuePair()
	if d := time.Since(begun); d > answerTime/2 {
		t.Errorf("another program has waited for %s", d)
	}
	if errno := <-asked; errno != syscall.ENOTCONN {
		t.Errorf("got %v", errno)
	}
	if d := time.Since(begun); d < answerTime || d > 4*answerTime {
		t.Errorf("it has waited for %s", d)
	}
	ask := func() syscall.Errno {
		fds, errno := a.call(message.OpResolve, nil, message.Resolve{Handle: qa.qp.Handle, Key: 8})
		closeFiles(fds)
		return errno
	}
	begun = time.Now()
	for range 4 {
		if errno := ask(); errno != syscall.ENOTCONN {
			t.Errorf("a further question: %v", errno)
		}
	}
	if d := time.Since(begun); d > answerTime {
		t.Errorf("further questions have waited for %s", d)
	}
	servers[0].mu.Lock()
	for i := range 2000 { // more than the socket has room for
		servers[0].domain.Listen(broker.Listener{LID: 1, At: netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(1+i))}, true)
	}
	servers[0].mu.Unlock()
	c := greet(t, paths[0])
	begun = time.Now()
	for range 3 {
		c.queuePair()
	}
	if d := time.Since(begun); d > 4*time.Second { // each has several requests
		t.Errorf("a program that asks its own run alone has waited for %s", d)
	}
	servers[1].mu.Unlock()
	stopped = false
	testkit.Eventually(t, 20*time.Second, func() error {
		if errno := ask(); errno != syscall.EACCES {
			return fmt.Errorf("a question to a run that continues: %w", errno)
		}
		return nil
	})
}

// TestMemoryThatShrinks: memory of another run that may become smaller, or is, is not passed on.
func TestMemoryThatShrinks(t *testing.T) {
	for name, seals := range map[string]int{"sealed": unix.F_SEAL_SHRINK, "not sealed": 0} {
		fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Ftruncate(fd, 4096); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
		if err := lasting(fd, 4096); (err == nil) != (seals != 0) {
			t.Errorf("%s: %v", name, err)
		}
		if lasting(fd, 4097) == nil {
			t.Errorf("%s: it has more bytes than it has", name)
		}
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if lasting(int(null.Fd()), 0) == nil {
		t.Error("a device is memory")
	}
}
