package procuse

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

func open(t *testing.T, proc string, root, self int) *Meter {
	t.Helper()
	m, err := Open(proc, root, self)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestSample: of a process that computes, and of what it has started.
func TestSample(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done & while :; do :; done")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait() //nolint:errcheck // it is killed
	defer syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
	m := open(t, Proc, c.Process.Pid, os.Getpid())
	testkit.Eventually(t, 10*time.Second, func() error {
		s := m.Sample()
		if s.Check() == nil && s.Processes == 2 && s.CPUSeconds > 0 && s.MemoryBytes > 0 && s.Cores > 0 && s.HostMemoryBytes > s.MemoryBytes {
			return nil
		}
		return fmt.Errorf("got %+v", s)
	})
}

// TestWhatHasEndedCounts, so that sums of bytes never shrink.
func TestWhatHasEndedCounts(t *testing.T) {
	dir := t.TempDir()
	put := func(pid int, parent int, read int) {
		p := dir + "/" + strconv.Itoa(pid)
		if err := errors.Join(os.MkdirAll(p, 0o755),
			os.WriteFile(p+"/stat", []byte(strconv.Itoa(pid)+" (a ) b) S "+strconv.Itoa(parent)+" 0 0 0 0 0 0 0 0 0 100 50 25 25 0 0 0 0 0 0 7"), 0o600),
			os.WriteFile(p+"/io", []byte("rchar: 9\nread_bytes: "+strconv.Itoa(read)+"\nwrite_bytes: 1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	m := open(t, dir, 10, 99)
	put(10, 1, 5)
	put(11, 10, 7)
	put(12, 1, 1000) // of another user
	put(99, 10, 1000)
	s := m.Sample()
	if s.Processes != 2 || s.CPUSeconds != 4 || s.ReadBytes != 12 || s.WriteBytes != 2 || s.MemoryBytes != 2*7*int64(os.Getpagesize()) {
		t.Errorf("got %+v", s)
	}
	if err := os.RemoveAll(dir + "/11"); err != nil {
		t.Fatal(err)
	}
	if s := m.Sample(); s.Processes != 1 || s.ReadBytes != 12 {
		t.Errorf("then %+v", s)
	}
}

// BenchmarkSample measures a sample of this host's processes: below 50 ms, it is 0.5 % of a core
// every 10 s.
func BenchmarkSample(b *testing.B) {
	m, err := Open(Proc, 1, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	for b.Loop() {
		m.Sample()
	}
}
