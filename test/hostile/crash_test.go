package hostile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

const waiting = "run: 'touch log; while [ ! -e go ]; do sleep 0.1; done'"

// supervisorOf returns the directory of the mark with a run, and the process that made it.
// A new one starts once the locks of the one before are free.
func supervisorOf(t *testing.T, b *testkit.Bee, id string) (mark string, pid int) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		b.Must("supervise")
		found, err := filepath.Glob(filepath.Join(b.Dir, "state/supervisors/*/runs", id))
		if err != nil || len(found) != 1 {
			return fmt.Errorf("its marks are %v, %w", found, err)
		}
		mark = filepath.Dir(filepath.Dir(found[0]))
		for _, pid = range b.Controllers() {
			files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
			if err != nil {
				return err
			}
			if slices.ContainsFunc(files, func(f string) bool { at, err := os.Readlink(f); return err == nil && at == filepath.Join(mark, "lock") }) {
				return nil
			}
		}
		return fmt.Errorf("%s is of none of %v", mark, b.Controllers())
	})
	return mark, pid
}

// crash ends a run's supervisor as a panic in a goroutine does. internal/crashes proves that
// the runtime writes such a text.
func crash(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	mark, pid := supervisorOf(t, b, id)
	f, err := os.OpenFile(filepath.Join(mark, "crash.txt"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Fprintf(f, "panic: runtime error: index out of range [%d]\n\ngoroutine 7 [running]:\nmain.x()\n", pid)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	testkit.Kill(pid)
}

func viewOf(b *testkit.Bee, id string) (v testkit.RunView) {
	b.JSON(&v, "show", "--json", id)
	return v
}

// finish ends a job that waits.
func finish(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		b.Must("supervise") // starts its supervisor
		if r := b.Try("exec", id, "--", "touch", "go"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	v, began := b.Await(id, time.Minute), 0
	for _, a := range v.Attempts { // one may have ended before its job was launched
		if a.Phases["run"] > 0 {
			began++
		}
	}
	if v.State != "succeeded" || began != 1 {
		t.Errorf("run %s began %d times: %+v", id, began, v)
	}
}

// TestARunThatCrashesItsControllers: a panic without a guard ends the process with the
// controllers of many runs. The guilty run is found and set aside. The others succeed.
func TestARunThatCrashesItsControllers(t *testing.T) {
	b, job := busyboxJob(t, waiting, "volume: /data", "workdir: /data")
	b.Oversubscribe()
	var ids []string
	for range 3 {
		ids = append(ids, strings.TrimSpace(b.Must("run", "-d", job)))
	}
	bad := ids[2]
	var v testkit.RunView
	for i := range 8 {
		b.Must("supervise") // counts crashes
		if v = viewOf(b, bad); v.State == "set aside" {
			if i < 4 {
				t.Errorf("after %d crashes: %+v", i, v)
			}
			break
		}
		crash(t, b, bad)
	}
	if v.State != "set aside" || v.Error == nil || !strings.Contains(v.Error.Message, "index out of range") || !strings.Contains(v.Error.Remedy, "bee resume "+bad) {
		t.Errorf("the run: %+v", v)
	}
	if stack, err := os.ReadFile(filepath.Join(b.Dir, "state/runs", bad, "panic.txt")); err != nil || !strings.Contains(string(stack), "\ngoroutine 7 [running]:\n") {
		t.Errorf("its stack: %q, %v", stack, err)
	}
	for _, id := range ids[:2] {
		finish(t, b, id)
	}
	b.Must("supervise")
	testkit.AwaitControllers(t, b, 0) // none starts for it any more
	b.Must("stop", bad)               // as its remedy says
	if v := b.Await(bad, time.Minute); v.State != "stopped" {
		t.Errorf("the run: %+v", v)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if left, err := filepath.Glob(filepath.Join(b.Dir, "state/supervisors/*-*")); err != nil || len(left) > 0 {
			return fmt.Errorf("marks of processes that are gone: %v, %w", left, err)
		}
		return nil
	})
}

// TestKilledControllersHaveNotCrashed: a supervisor that others end, as a reboot does, is no
// fault of a run.
func TestKilledControllersHaveNotCrashed(t *testing.T) {
	b, job := busyboxJob(t, waiting, "volume: /data", "workdir: /data")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGQUIT, syscall.SIGKILL, syscall.SIGABRT, syscall.SIGKILL} {
		_, pid := supervisorOf(t, b, id)
		if err := syscall.Kill(pid, signal); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 20*time.Second, func() error { // it writes its stack first
			if slices.Contains(b.Controllers(), pid) {
				return fmt.Errorf("%d runs after %v", pid, signal)
			}
			return nil
		})
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "state/runs", id, "crashes.json")); err == nil {
		t.Error("crashes were counted")
	}
	finish(t, b, id)
}
