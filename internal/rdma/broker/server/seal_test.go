package server

import (
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestSealedBefore: memory is sealed for good before a process has it, so that the broker
// never adds a seal, which would wait for writes of that process.
func TestSealedBefore(t *testing.T) {
	paths, _, _ := testPorts(t, plenty())
	c := greet(t, paths[0])
	var region message.Created
	memory := c.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 4096})
	defer unix.Close(memory[0])
	const fixed = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	for i, tc := range []struct{ fd, seals int }{{c.files[0], fixed}, {c.files[1], fixed | unix.F_SEAL_FUTURE_WRITE}, {memory[0], fixed}} {
		if got, err := unix.FcntlInt(uintptr(tc.fd), unix.F_GET_SEALS, 0); err != nil || got != tc.seals {
			t.Errorf("memory %d has the seals %#x, %v; expected %#x", i, got, err, tc.seals)
		}
	}
}

// endless returns memory, reading which never ends, and a descriptor that becomes readable
// when a thread waits there.
func endless(t *testing.T) ([]byte, int) {
	t.Helper()
	fd, _, errno := unix.Syscall(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|unix.O_NONBLOCK, 0, 0)
	if errno != 0 {
		testkit.Missing(t, "userfaultfd: %v", errno)
	}
	t.Cleanup(func() { unix.Close(int(fd)) }) // whoever waits continues
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	const uffdAPI, uffdRegister, missing = 0xc018aa3f, 0xc020aa00, 1
	api := [3]uint64{0xaa}
	register := [4]uint64{uint64(uintptr(unsafe.Pointer(&memory[0]))), 4096, missing}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdAPI, uintptr(unsafe.Pointer(&api))); errno != 0 {
		t.Fatal(errno)
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, uffdRegister, uintptr(unsafe.Pointer(&register))); errno != 0 {
		t.Fatal(errno)
	}
	return memory, int(fd)
}

// hold begins a write into a file that never ends: the kernel has locked the file then.
func hold(t *testing.T, file int) {
	t.Helper()
	memory, waiting := endless(t)
	go func() { _, _ = unix.Pwrite(file, memory, 0) }()
	poll := []unix.PollFd{{Fd: int32(waiting), Events: unix.POLLIN}}
	for end := time.Now().Add(10 * time.Second); ; {
		n, err := unix.Poll(poll, int(time.Until(end).Milliseconds()))
		if n == 1 && poll[0].Revents == unix.POLLIN {
			return
		}
		if n >= 0 || err != unix.EINTR {
			t.Fatalf("the write does not wait: %v", err)
		}
	}
}

// TestHeldMemory: a process that holds all its memory in calls that never end, as faults of
// FUSE and userfaultfd may, keeps neither the broker nor its peers.
func TestHeldMemory(t *testing.T) {
	testkit.RequireRoot(t) // faults in calls of the kernel never end for root alone
	paths, _, ports := testPorts(t, plenty())
	a, b := greet(t, paths[0]), greet(t, paths[1])
	a.conn.SetDeadline(time.Now().Add(time.Minute))
	b.conn.SetDeadline(time.Now().Add(time.Minute))
	qa, qb := a.queuePair(), b.queuePair()
	_, rings := a.connect(qa, qb.qp.Number, 2)
	var region message.Created
	memory := a.must(message.OpCreateRegion, &region, message.CreateRegion{Bytes: 4096})
	var inbox message.CreateQPReply
	messages := a.must(message.OpCreateQP, &inbox, message.CreateQP{Type: 4, PD: qa.pd, SendCQ: qa.cq, RecvCQ: qa.cq})
	for _, file := range []int{a.files[0], rings[0], memory[0], messages[0]} {
		hold(t, file)
	}
	var mr message.RegisterReply
	a.must(message.OpRegister, &mr, message.Register{PD: qa.pd, Access: 4, Addr: 4096, Length: 4096, IOVA: 4096, Count: 1}, message.Extent{Bytes: 4096, Region: region.Handle})
	if reply, fds := b.connect(qb, qa.qp.Number, 1); reply.Present != 1 || len(fds) != 4 {
		t.Fatalf("got %+v with %d descriptors", reply, len(fds))
	}
	b.must(message.OpResolve, nil, message.Resolve{Handle: qb.qp.Handle, Key: mr.Key})
	for _, m := range []message.ModifyQP{{Mask: 1<<0 | 1<<4 | 1<<5 | 1<<6, State: 1, Port: 1}, {Mask: 1, State: 2}} {
		m.Handle = inbox.Handle
		a.must(message.OpModifyQP, nil, m)
	}
	b.must(message.OpAttach, nil, message.Attach{Number: inbox.Number, LID: 1})
	a.must(message.OpDestroy, nil, message.Destroy{Handle: mr.Handle})
	a.must(message.OpDestroy, nil, message.Destroy{Handle: region.Handle})
	a.conn.Close()
	if e, is := b.lastEvent(); !is || e.Event != 1 {
		t.Errorf("the peer gets %+v, %v", e, is)
	}
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
	if _, errno := b.call(message.OpConnect, nil, message.Connect{Handle: qb.qp.Handle}); errno != syscall.EINVAL {
		t.Errorf("a queue pair in error connects: %v", errno)
	}
}
