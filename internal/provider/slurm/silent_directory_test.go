package slurm

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/testkit"
)

// silent puts something in the place of a directory that makes each look at what is below
// it fail, as on a file system that does not answer, until it is put back.
func silent(t *testing.T, dir string) (back func()) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+".away"), os.Symlink(filepath.Base(dir), dir)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
			t.Fatal(err)
		}
	}
}

// made is a lease of a job that has been granted, as it is in the scratch.
func made(t *testing.T) (l *lease, scratch string) {
	t.Helper()
	scratch = filepath.Join(t.TempDir(), "scratch")
	owner := core.Owner{User: "u", Run: "r", Attempt: 1}
	base := filepath.Join(scratch, "bee")
	l = &lease{p: &provider{base: base, s: Settings{Name: "cluster"}}, owner: owner, base: base, dir: kind().Dir(base, owner)}
	if err := errors.Join(os.MkdirAll(filepath.Join(l.dir, hostsDir), 0o700), os.MkdirAll(leasedir.RunDir(base, owner.Run), 0o700), writeKeys(l.dir),
		writeJSON(filepath.Join(l.dir, detailsName), details{Job: "7", Own: true, Nodes: 1, Dir: leasedir.RunDir(base, owner.Run)}),
		writeJSON(filepath.Join(l.dir, grantedName), terms{Hosts: []core.Host{{Name: "h1"}}, Agents: [][]string{nil}}), l.read()); err != nil {
		t.Fatal(err)
	}
	return l, scratch
}

// TestANoticeWhileTheScratchDoesNotAnswer is one of a preemption: the job has the time for
// its checkpoint.
func TestANoticeWhileTheScratchDoesNotAnswer(t *testing.T) {
	l, scratch := made(t)
	for name, c := range map[string]struct {
		spoil    func(t *testing.T) (back func())
		released bool
	}{
		"preempted":     {func(*testing.T) func() { return func() {} }, false},
		"no answer":     {func(t *testing.T) func() { return silent(t, scratch) }, false},
		"not mounted":   {func(t *testing.T) func() { return away(t, scratch) }, false},
		"lease is gone": {func(t *testing.T) func() { return away(t, l.dir) }, true},
		"released": {func(t *testing.T) func() {
			mark := filepath.Join(l.dir, releasedName)
			if err := os.WriteFile(mark, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() { os.Remove(mark) }
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := &agent{dir: l.dir, log: slog.New(slog.DiscardHandler), end: make(chan struct{}), node: exec.Command("sleep", "100")}
			if err := a.node.Start(); err != nil {
				t.Fatal(err)
			}
			back := c.spoil(t)
			a.notice()
			back()
			var ends bool
			select {
			case <-a.end:
				ends = true
			default:
				testkit.Eventually(t, 10*time.Second, func() error {
					var ws syscall.WaitStatus
					if _, err := syscall.Wait4(a.node.Process.Pid, &ws, syscall.WNOHANG, nil); err != nil || ws.Signal() != syscall.SIGTERM {
						return errors.New("the node was not told")
					}
					return nil
				})
			}
			a.node.Process.Kill()
			if ends != c.released {
				t.Errorf("it was taken for released: %v", ends)
			}
		})
	}
}

func away(t *testing.T, dir string) (back func()) {
	t.Helper()
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(dir+".away", dir); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNothingIsConcludedWhileTheScratchDoesNotAnswer: whatever is asked of a lease, the
// answer is that it is not known.
func TestNothingIsConcludedWhileTheScratchDoesNotAnswer(t *testing.T) {
	l, scratch := made(t)
	if err := os.WriteFile(filepath.Join(l.dir, verdictName), []byte("given back"), 0o600); err != nil {
		t.Fatal(err)
	}
	asks := map[string]func(context.Context) error{
		"recover": func(ctx context.Context) error { _, err := l.p.Recover(ctx, l.Handle()); return err },
		"ready":   func(ctx context.Context) error { _, err := l.Queue().Ready(ctx); return err },
		"status":  func(ctx context.Context) error { _, err := l.Status(ctx); return err },
		"release": l.Release,
		"commit":  l.Autostart().EnableSpec,
		"attend":  l.Autostart().Attend,
		"yield":   l.VolumeReuse().LendVolume,
		"end":     l.endJobs,
	}
	check := func(t *testing.T, back func()) {
		for name, ask := range asks {
			if err := ask(t.Context()); err == nil || core.IsKind(err, core.NotFound) || core.IsKind(err, core.Lost) {
				t.Errorf("%s: %v", name, err)
			}
			if l.details.Job != "7" {
				t.Errorf("%s: the lease has forgotten its job", name)
			}
		}
		back()
		for _, file := range []string{keysName, detailsName, grantedName} {
			if _, err := os.Stat(filepath.Join(l.dir, file)); err != nil {
				t.Error(err)
			}
		}
	}
	t.Run("links in a circle", func(t *testing.T) { check(t, silent(t, scratch)) })
	t.Run("may not be searched", func(t *testing.T) {
		testkit.RequireUser(t)
		delete(asks, "yield") // takes the lock first
		if err := os.Chmod(l.dir, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, func() { os.Chmod(l.dir, 0o700) }) //nolint:errcheck // the checks find it
	})
}

// TestTheProgramInALeaseIsACopy: who changes it does not change the user's.
func TestTheProgramInALeaseIsACopy(t *testing.T) {
	dir := t.TempDir()
	binary, at := filepath.Join(dir, "bee"), filepath.Join(dir, "in lease")
	if err := errors.Join(core.WriteProgram(binary, []byte("whole"), 0o755), place(binary, at)); err != nil {
		t.Fatal(err)
	}
	a, err1 := os.Stat(binary)
	b, err2 := os.Stat(at)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if os.SameFile(a, b) || b.Mode().Perm() != 0o500 {
		t.Errorf("%v, the same file: %v", b.Mode(), os.SameFile(a, b))
	}
	if got, err := os.ReadFile(at); err != nil || string(got) != "whole" {
		t.Errorf("it holds %q, %v", got, err)
	}
}

// TestNodesAreKeptWhileTheScratchDoesNotAnswer: that nobody needs them is concluded from
// what is seen, and never from an error.
func TestNodesAreKeptWhileTheScratchDoesNotAnswer(t *testing.T) {
	t.Setenv("SLURM_STEP_NUM_TASKS", "1")
	l, scratch := made(t)
	for rank := range 2 {
		a := &agent{dir: l.dir, rank: rank, idle: time.Hour, attend: time.Hour, log: slog.New(slog.DiscardHandler)}
		begun := time.Now().Add(-2 * time.Hour)
		if a.timeout(begun) == 0 {
			t.Errorf("rank %d: files were brought a moment ago", rank)
		}
		a.idle = 0 // since which nothing was brought
		for name, spoil := range map[string]func() (back func()){
			"answers":  func() func() { return func() {} },
			"a circle": func() func() { return silent(t, scratch) },
			"a file":   func() func() { return filed(t, scratch) },
		} {
			back := spoil()
			_, _, attended := a.attended()
			hope, hopeful := a.hopeful()
			back()
			if unknown := name != "answers"; (attended != nil) != unknown || (hopeful != nil) != unknown || hope {
				t.Errorf("rank %d, scratch %s: %v; %v, %v", rank, name, attended, hope, hopeful)
			}
		}
		a.idle = time.Minute
		back := silent(t, scratch)
		if a.timeout(begun) == 0 {
			t.Errorf("rank %d: the nodes are given back", rank)
		}
		back()
	}
}

// filed puts a file in the place of a directory.
func filed(t *testing.T, dir string) (back func()) {
	t.Helper()
	if err := errors.Join(os.Rename(dir, dir+".away"), os.WriteFile(dir, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := errors.Join(os.Remove(dir), os.Rename(dir+".away", dir)); err != nil {
			t.Fatal(err)
		}
	}
}
