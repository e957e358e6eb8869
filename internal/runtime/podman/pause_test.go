package podman

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/runtime/command"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestAProbeLeavesNoProcess of podman's behind, and does not end one that was there.
func TestAProbeLeavesNoProcess(t *testing.T) {
	testkit.RequireTool(t, "podman")
	if os.Geteuid() == 0 {
		t.Skip("podman holds no namespaces for root")
	}
	ownStore(t)
	file := os.Getenv("XDG_RUNTIME_DIR")
	probe := func() {
		t.Helper()
		if _, err := New(command.Options{}).Probe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	probe()
	if pid := pause(file); pid != 0 {
		t.Errorf("process %d is left", pid)
	}
	if out, err := exec.Command("podman", "ps").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	before := pause(file)
	if before == 0 {
		t.Fatal("podman keeps no such process any more, or elsewhere")
	}
	defer unix.Kill(before, unix.SIGKILL)
	probe()
	if pid := pause(file); pid != before {
		t.Errorf("process %d became %d", before, pid)
	}
}

// TestNoProcessIsLeftWhereTMPDIRSays: podman notes it there for those who have no
// runtime directory.
func TestNoProcessIsLeftWhereTMPDIRSays(t *testing.T) {
	testkit.RequireTool(t, "podman")
	if os.Geteuid() == 0 {
		t.Skip("podman holds no namespaces for root")
	}
	ownStore(t)
	dir := filepath.Dir(os.Getenv("XDG_RUNTIME_DIR"))
	t.Setenv("HOME", dir)
	t.Setenv("TMPDIR", dir)
	t.Setenv("XDG_RUNTIME_DIR", "")
	file := filepath.Join(dir, fmt.Sprintf("podman-run-%d", os.Getuid()))
	leavingNoPause(func() {
		if out, err := exec.Command("podman", "ps").CombinedOutput(); err != nil || pause(file) == 0 {
			t.Errorf("podman keeps no such process there any more: %v: %s", err, out)
		}
	})
	if pid := pause(file); pid != 0 {
		unix.Kill(pid, unix.SIGKILL)
		t.Errorf("process %d is left", pid)
	}
}

// TestANoteOfAnotherUser, who was first in /tmp, has no process ended and nobody wait.
func TestANoteOfAnotherUser(t *testing.T) {
	testkit.RequireRoot(t)
	const stranger = 54321
	raw, err := os.ReadFile("/bin/bash")
	program := filepath.Join(t.TempDir(), "podman")
	if err = errors.Join(err, core.WriteProgram(program, raw, 0o755)); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(program, "-c", "read x")
	in, err := victim.StdinPipe()
	if err = errors.Join(err, victim.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); victim.Wait() }() //nolint:errcheck // however it ends
	note := []byte(strconv.Itoa(victim.Process.Pid))
	for name, c := range map[string]struct {
		owner int
		make  func(file string) error
		found bool
	}{
		"of this user":              {0, func(file string) error { return os.WriteFile(file, note, 0o600) }, true},
		"of another user":           {stranger, func(file string) error { return os.WriteFile(file, note, 0o644) }, false},
		"a FIFO of another user's":  {stranger, func(file string) error { return unix.Mkfifo(file, 0o666) }, false},
		"a FIFO of this user's":     {0, func(file string) error { return unix.Mkfifo(file, 0o600) }, false},
		"a link to what never ends": {0, func(file string) error { return os.Symlink("/dev/zero", file) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := t.TempDir()
			dir := filepath.Join(tmp, "podman-run-0")
			file := filepath.Join(dir, pauseFile)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), c.make(file), os.Chown(dir, c.owner, c.owner)); err != nil {
				t.Fatal(err)
			}
			found := make(chan int, 1)
			go func() { found <- pause(dir) }()
			select {
			case pid := <-found:
				if (pid != 0) != c.found {
					t.Errorf("it found %d", pid)
				}
			case <-time.After(time.Minute):
				t.Fatal("it waits for another user")
			}
		})
	}
}
