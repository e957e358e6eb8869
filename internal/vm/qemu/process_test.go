package qemu

import (
	"slices"
	"syscall"
	"testing"
)

// TestKilledIsToldFromEnded: what ends by itself found something wrong.
func TestKilledIsToldFromEnded(t *testing.T) {
	for _, c := range []struct {
		script string
		signal syscall.Signal
		want   bool
	}{{"exit 1", 0, false}, {"exec sleep 1000", syscall.SIGKILL, true}, {"exec sleep 1000", syscall.SIGABRT, false}, {"exec sleep 1000", 0, false}} {
		p, err := run([]string{"/bin/sh", "-c", c.script}, nil, &syscall.SysProcAttr{}, "")
		if err != nil {
			t.Fatal(err)
		}
		syscall.Kill(p.PID(), c.signal)
		if got := p.Killed(); got != c.want {
			t.Errorf("%s, signal %v: killed is %v", c.script, c.signal, got)
		}
		p.Kill()
	}
}

// TestCommandLine: the command line of a process is known after its end.
func TestCommandLine(t *testing.T) {
	argv := []string{"/bin/sh", "-c", "exit 0"}
	p, err := run(argv, nil, &syscall.SysProcAttr{}, "")
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got := p.CommandLine(); !slices.Equal(got, argv) {
		t.Errorf("got %q, expected %q", got, argv)
	}
}
