package qemu

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// bare is a machine with nothing but its firmware, and its monitor.
func bare(t *testing.T, m Machine) (*Process, *Monitor) {
	t.Helper()
	testkit.RequireTool(t, Program())
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, theirs := os.NewFile(uintptr(fds[0]), "own"), os.NewFile(uintptr(fds[1]), "theirs")
	defer own.Close()
	defer theirs.Close()
	c, err := net.FileConn(own)
	if err != nil {
		t.Fatal(err)
	}
	m.Program, m.Accel, m.CPU, m.Topology, m.Memory, m.Control = []string{Program()}, "tcg", cmp.Or(m.CPU, "max"), Topology{1, 1, 1}, 64<<20, theirs
	m.Console = filepath.Join(t.TempDir(), "console")
	p, err := m.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	monitor, err := NewMonitor(t.Context(), c.(*net.UnixConn))
	if err != nil {
		t.Fatalf("%v: %s", err, p.LastOutput())
	}
	return p, monitor
}

// TestStateGoesFromMachineToMachine also lets the first one continue, and saves it
// again.
func TestStateGoesFromMachineToMachine(t *testing.T) {
	_, m := bare(t, Machine{})
	kind, err := m.Type(t.Context())
	if err != nil || !strings.HasPrefix(kind, "pc-q35-") {
		t.Fatalf("its type is %q (%v)", kind, err)
	}
	var state bytes.Buffer
	for range 2 {
		state.Reset()
		if err := errors.Join(m.Stop(t.Context()), m.SaveState(t.Context(), &state), m.Continue(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	// Zero pages are not in it.
	if n := state.Len(); n < 64<<10 || n > 32<<20 {
		t.Errorf("the state of 64 MiB, mostly empty, takes %d bytes", n)
	}
	_, other := bare(t, Machine{Type: kind, Restore: true})
	if err := errors.Join(other.LoadState(t.Context(), bytes.NewReader(state.Bytes())), other.Continue(t.Context())); err != nil {
		t.Fatal(err)
	}
	var s struct{ Running bool }
	if err := other.Do(t.Context(), "query-status", nil, &s); err != nil || !s.Running {
		t.Errorf("it does not run: %v", err)
	}
	p, third := bare(t, Machine{Type: kind, Restore: true})
	if err := third.LoadState(t.Context(), bytes.NewReader(state.Bytes()[:state.Len()/2])); err == nil {
		t.Error("half a state is taken for a whole one")
	}
	p.Kill()
	if err := third.Stop(t.Context()); err == nil {
		t.Error("a machine that has ended takes orders")
	}
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestSavingThatFails: the machine continues, and can be saved later.
func TestSavingThatFails(t *testing.T) {
	_, m := bare(t, Machine{})
	save := func(ctx context.Context, w io.Writer) error {
		t.Helper()
		if err := m.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := m.SaveState(ctx, w)
		if err := m.Continue(t.Context()); err != nil {
			t.Fatal(err)
		}
		return err
	}
	if err := save(t.Context(), full{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := save(ctx, &bytes.Buffer{}); err == nil {
		t.Error("it was saved in no time")
	}
	var state bytes.Buffer
	if err := save(t.Context(), &state); err != nil || state.Len() == 0 {
		t.Errorf("afterwards: %v", err)
	}
}
