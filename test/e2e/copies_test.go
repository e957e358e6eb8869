package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestWhatIsTheUsersStays: a job works on copies of its inputs, and outputs replace nothing
// but earlier results of the same run.
func TestWhatIsTheUsersStays(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "inputs: [{from: ./link, to: /work}, {from: ./link, to: /opt/data}]",
		"outputs: [{from: /work/res, to: .}, {from: '/work/out/*', to: ./stolen, optional: true}, {from: /work/*/log, to: ./logs}]",
		"run: 'rm -rf ./*; touch /opt/data/more; mkdir -p res a b; echo new > res/day1; echo a > a/log; echo b > b/log; ln -s $PLACE out'")
	b.File("precious/month", "of work")
	b.File("res/notes", "mine")
	b.File("res/day1", "old")
	if err := os.Symlink(filepath.Join(b.Work, "precious"), filepath.Join(b.Work, "link")); err != nil {
		t.Fatal(err)
	}
	if r := b.Try("run", "-q", "-e", "PLACE="+filepath.Join(b.Work, "precious"), job); r.Code != 0 || !strings.Contains(r.Stderr, filepath.Join(b.Work, "res", "day1.")) {
		t.Errorf("an output beside a file, quietly: %+v", r)
	}
	if beside, err := filepath.Glob(filepath.Join(b.Work, "res", "day1.*")); err != nil || len(beside) != 1 || b.Read(filepath.Join("res", filepath.Base(beside[0]))) != "new\n" {
		t.Errorf("beside a file that no run wrote is %q, %v", beside, err)
	}
	for name, want := range map[string]string{"precious/month": "of work", "res/notes": "mine", "res/day1": "old", "logs/a/log": "a\n", "logs/b/log": "b\n"} {
		if got := b.Read(name); got != want {
			t.Errorf("%s holds %q, not %q", name, got, want)
		}
	}
	for _, name := range []string{"precious/more", "stolen"} {
		if _, err := os.Lstat(filepath.Join(b.Work, name)); err == nil {
			t.Errorf("there is %s", name)
		}
	}
}

// TestRelativeNamesAreInTheVolume where neither Beefile nor image name a working directory,
// for the job's commands and for those of `bee exec`.
func TestRelativeNamesAreInTheVolume(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "setup: echo setup > out.txt", "run: echo run >> out.txt; while [ ! -e go ]; do sleep 0.1; done", "outputs: [{from: /work/out.txt, to: .}]")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "sh", "-c", "grep -q run out.txt && echo exec >> out.txt && pwd"); r.Stdout != "/work\n" {
			return errors.New(r.Stdout + r.Stderr)
		}
		return nil
	})
	b.Touch(id, "go")
	b.Must("logs", "-f", id)
	if got := b.Read("out.txt"); got != "setup\nrun\nexec\n" {
		t.Errorf("the output holds %q", got)
	}
}

// TestOutputsThatMatchNothing make the run fail, and cost no result.
func TestOutputsThatMatchNothing(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "outputs: [{from: '/work/resluts/*', to: ./results}]", "run: 'mkdir results; echo done > results/end'")
	r := b.Try("run", job)
	if r.Code != 202 || !strings.Contains(r.Stderr, "/work/resluts/*") {
		t.Errorf("%d: %s", r.Code, r.Stderr)
	}
	if _, err := os.Stat(filepath.Join(b.Work, "results")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no output there is a directory: %v", err)
	}
	dirs, err := filepath.Glob(filepath.Join(b.Dir, "state", "runs", "*", "volume"))
	if err != nil || len(dirs) != 1 {
		t.Fatalf("volumes %q, %v", dirs, err)
	}
	kept := dirs[0]
	if raw, err := os.ReadFile(filepath.Join(kept, "results", "end")); err != nil || string(raw) != "done\n" {
		t.Errorf("%q, %v\n%s", raw, err, r.Stderr)
	}
	if testkit.Events(b, "small", event.KindOutputsMissing, "/work/resluts/*") != 1 {
		t.Errorf("it shows %s", b.Must("show", "small"))
	}
	if r := b.Try("rm", "small"); r.Code == 0 {
		t.Error("the only copy of its results was removed")
	}
	b.Must("rm", "-f", "small")
	if _, err := os.Stat(kept); err == nil {
		t.Error("`bee rm` keeps it")
	}
}

// TestARunWhoseOutputsCannotComeHome says so to anyone who waits for its end, and
// ends once they can.
func TestARunWhoseOutputsCannotComeHome(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "outputs: [{from: /work/end, to: ./taken/below}]", doneOnceBlocked)
	id := blocked(t, b, job, "taken")
	testkit.Eventually(t, time.Minute, func() error {
		if testkit.Events(b, id, event.KindCollectFailed) == 0 {
			return b.Explained(id, "its outputs are collected, or not yet")
		}
		return nil
	})
	if f := b.Fail("stop", id); f.Kind != "transient" || !strings.Contains(f.Remedy, "`bee show "+id+"`") {
		t.Errorf("got %+v", f)
	}
	if err := os.Remove(filepath.Join(b.Work, "taken")); err != nil {
		t.Fatal(err)
	}
	b.Must("stop", id)
	if got := b.Read("taken/below/end"); got != "done\n" {
		t.Errorf("home came %q", got)
	}
}
