package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestWhatALostHeadLeftKeepsItsNames: outputs of one name do not replace each other, and
// links among them keep nothing away.
func TestWhatALostHeadLeftKeepsItsNames(t *testing.T) {
	w, out := newWorld(t, "a"), t.TempDir()
	dir := protocol.VolumeDir(w.sites["a"].dir)
	writeFiles(t, out, map[string]string{"mine/log": "mine"})
	writeFiles(t, dir, map[string]string{"run1/log": "1", "run2/log": "2", "other/log": "3", "other/one.dat": "4"})
	for name, to := range map[string]string{"latest": "run2", "run3": "../../../mine", "loop": "loop", "run4": "/work/other"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.sites["a"].head = events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	run := w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"},
		Outputs: []spec.Output{{From: "/work/*/log", To: out}, {From: "/work/other/log", To: out}, {From: "/work/l*/*", To: filepath.Join(out, "linked")}},
	})
	w.drive(t, run, nil)
	want := map[string]string{"mine/log": "mine", "log": "3", "run1/log": "1", "run2/log": "2", "other/log": "3", "linked/log": "2"}
	if got := listed(t, out); !same(got, want) {
		t.Errorf("there came %q, want %q", got, want)
	}
}

// TestWhatALostHeadLeftDoesNotLeadOut: links that the job has made, the last element of an
// output or above it, lead to what lies in the volume alone.
func TestWhatALostHeadLeftDoesNotLeadOut(t *testing.T) {
	w, out, outside := newWorld(t, "a"), t.TempDir(), t.TempDir()
	dir := protocol.VolumeDir(w.sites["a"].dir)
	writeFiles(t, outside, map[string]string{"key": "secret", "deep/key": "secret"})
	writeFiles(t, dir, map[string]string{"run1/log": "1", "run1/deep/log": "2"})
	for name, to := range map[string]string{
		"latest": "run1/log", "run": "/work/run1", "key": filepath.Join(outside, "key"), "out": outside, "gone": "nowhere", "loop": "loop", "up": "../../../../../../../../.." + outside,
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.sites["a"].head = events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}
	for _, from := range []string{"latest", "run/deep", "run/l*", "key", "out", "out/key", "out/k*", "out/deep/k*", "up/key", "up/*", "gone", "gone/*", "loop", "loop/x", "none"} {
		job.Outputs = append(job.Outputs, spec.Output{From: "/work/" + from, To: out})
	}
	w.drive(t, w.submitJob(t, job), nil)
	want := map[string]string{"latest": "1", "deep/log": "2", "log": "1"}
	if got := listed(t, out); !same(got, want) {
		t.Errorf("there came %q, want %q", got, want)
	}
}

// TestWhatIsSaidOfMachinesIsAPlainFile: a site has written it, and a checkpoint may hold
// anything in its place.
func TestWhatIsSaidOfMachinesIsAPlainFile(t *testing.T) {
	for name, make := range map[string]func(file string) error{
		"a FIFO": func(file string) error { return unix.Mkfifo(file, 0o600) },
		"a link": func(file string) error { return os.Symlink("/dev/zero", file) },
		"a link to JSON": func(file string) error {
			return errors.Join(os.WriteFile(file+".x", []byte("{}"), 0o600), os.Symlink(file+".x", file))
		},
		"a directory":     func(file string) error { return os.Mkdir(file, 0o700) },
		"without any end": func(file string) error { return errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)) },
	} {
		dir := t.TempDir()
		if err := make(filepath.Join(dir, protocol.SavedFile)); err != nil {
			t.Fatal(err)
		}
		done := time.AfterFunc(10*time.Second, func() { panic("reading " + name + " hangs") })
		if s, err := parseSaved(dir); err == nil {
			t.Errorf("%s: %+v", name, s)
		}
		done.Stop()
	}
}

// filling is a lease that sends without end.
type filling struct{ driver.Lease }

func (filling) Fetch(ctx context.Context, t driver.Transfer) error {
	f, err := os.Create(t.Local)
	if err != nil {
		return err
	}
	defer f.Close()
	for n := int64(1); ctx.Err() == nil; n++ {
		if _, err := f.Write(make([]byte, 1<<20)); err != nil {
			return err
		}
		t.Progress(n << 20)
	}
	return ctx.Err()
}

// TestNothingElseFillsADisk: of all that comes home without a bound of its own.
func TestNothingElseFillsADisk(t *testing.T) {
	testkit.RequireRoot(t)
	for name, fetch := range map[string]func(a *attempt, to string) error{
		"a checkpoint": func(a *attempt, to string) error { return a.treeOf("", 0).Fetch(t.Context(), to, "") },
		"output": func(a *attempt, to string) error {
			return fetchFile(t.Context(), a.lease, driver.Transfer{Local: to}, 0)
		},
	} {
		dir := t.TempDir()
		if err := unix.Mount("small", dir, "tmpfs", 0, "size=64m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, 0) })
		a := &attempt{runner: &drive{}, controlled: control(&Controller{Report: func(protocol.Event) {}}, state.Run{}, Submission{}), lease: filling{}}
		if err := fetch(a, filepath.Join(dir, "x")); !errors.Is(err, transfer.ErrScarce) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
