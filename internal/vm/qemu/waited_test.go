package qemu

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestWaited: two programs that share a processor keep each other waiting, and one
// that is stopped waits for nothing.
func TestWaited(t *testing.T) {
	var own, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &own); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !own.IsSet(cpu) {
		cpu++
	}
	one.Set(cpu)
	start := func(signal syscall.Signal) func() time.Duration {
		p, err := run([]string{"/bin/sh", "-c", "while :; do :; done"}, nil, &syscall.SysProcAttr{}, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Kill)
		if err := errors.Join(unix.SchedSetaffinity(p.PID(), &one), syscall.Kill(p.PID(), signal)); err != nil {
			t.Fatal(err)
		}
		if signal == syscall.SIGSTOP {
			var status unix.WaitStatus
			if _, err := unix.Wait4(p.PID(), &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
				t.Fatalf("it does not stop: %v, %v", status, err)
			}
		}
		return p.Waited()
	}
	first, second, stopped := start(0), start(0), start(syscall.SIGSTOP)
	testkit.Eventually(t, time.Minute, func() error {
		if min(first(), second()) < 300*time.Millisecond {
			return errors.New("neither waits for the other")
		}
		return nil
	})
	if d := stopped(); d > 50*time.Millisecond {
		t.Errorf("a program that is stopped waited for %v", d)
	}
}
