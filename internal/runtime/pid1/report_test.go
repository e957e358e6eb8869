package pid1

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// TestAnExitCounts as a wait for it ends: whether the process had ended is not left to chance.
func TestAnExitCounts(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &process{done: make(chan struct{}), exit: core.Exit{Code: 7}}
	if _, err := p.Wait(ctx); err == nil {
		t.Error("one that runs has ended")
	}
	close(p.done)
	for range 64 {
		if exit, err := p.Wait(ctx); err != nil || exit.Code != 7 {
			t.Fatalf("got %+v, %v", exit, err)
		}
	}
}

// TestTheLastExitIsReported: a process ends just before the container does, as one does that
// gives the container's program the word to end.
func TestTheLastExitIsReported(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	watched, err := unix.Dup(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watched)
	node, err := connOf(fds[0])
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	c, err := connOf(fds[1])
	if err != nil {
		t.Fatal(err)
	}
	s := &server{processes: map[int]chan core.Exit{}}
	go s.serve(c)
	if err := send(node, request{Args: []string{"/bin/sh", "-c", "exit 7"}, Env: os.Environ()}); err != nil {
		t.Fatal(err)
	}
	in := &reader{c: node}
	var begun, ended report
	if err := in.receive(&begun); err != nil || !begun.Started {
		t.Fatalf("got %+v, %v", begun, err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(begun.PID, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	exit := s.processes[begun.PID]
	s.mu.Unlock()
	exit <- exitOf(status, syscall.Rusage{})
	s.awaitReports(time.Minute)
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(watched), Events: unix.POLLIN}}, 0); err != nil || n != 1 {
		t.Fatalf("nothing was reported: %d, %v", n, err)
	}
	if err := in.receive(&ended); err != nil || ended.Exit == nil || ended.Exit.Code != 7 {
		t.Errorf("got %+v, %v", ended, err)
	}
}
