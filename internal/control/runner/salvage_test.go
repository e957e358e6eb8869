package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// TestWhatALostHeadLeftKeepsItsNames: outputs of one name do not replace each other, and
// links among them keep nothing away.
func TestWhatALostHeadLeftKeepsItsNames(t *testing.T) {
	w, out := newWorld(t, "a"), t.TempDir()
	dir := protocol.VolumeDir(w.sites["a"].Dir)
	testkit.WriteFiles(t, out, map[string]string{"mine/log": "mine"})
	testkit.WriteFiles(t, dir, map[string]string{"run1/log": "1", "run2/log": "2", "other/log": "3", "other/one.dat": "4"})
	for name, to := range map[string]string{"latest": "run2", "run3": "../../../mine", "loop": "loop", "run4": "/work/other"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	run := w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"},
		Outputs: []spec.Output{{From: "/work/*/log", To: out}, {From: "/work/other/log", To: out}, {From: "/work/l*/*", To: filepath.Join(out, "linked")}},
	})
	w.drive(t, run, nil)
	want := map[string]string{"mine/log": "mine", "log": "3", "run1/log": "1", "run2/log": "2", "other/log": "3", "linked/log": "2"}
	if got := testkit.Files(t, out); !same(got, want) {
		t.Errorf("there came %q, want %q", got, want)
	}
}

// TestWhatALostHeadsHostsLeft: outputs in volumes of other hosts come as well, as the head
// would have gathered them: what it has itself counts. Links of the job lead nowhere else.
func TestWhatALostHeadsHostsLeft(t *testing.T) {
	w, out, outside := newWorld(t, "a"), t.TempDir(), t.TempDir()
	f := w.sites["a"]
	f.HostCount, f.Private = 3, true
	testkit.WriteFiles(t, protocol.VolumeDir(f.Dir), map[string]string{"all/log": "0", "all/d/0.dat": "0", "rank0.dat": "0"})
	testkit.WriteFiles(t, protocol.VolumeDir(f.Dir+"/f1"), map[string]string{"all/log": "1", "all/d/1.dat": "1", "rank1.dat": "1", "only": "1", "all/out/key": "stolen", "more/d/m.dat": "1"})
	testkit.WriteFiles(t, protocol.VolumeDir(f.Dir+"/f2"), map[string]string{"all/d/1.dat": "2", "all/d/2.dat": "2", "rank2.dat": "2", "rank1.dat": "2"})
	if err := os.Symlink(outside, filepath.Join(protocol.VolumeDir(f.Dir), "all", "out")); err != nil {
		t.Fatal(err)
	}
	f.Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	run := w.submitJob(t, spec.Job{
		Name: "j", Nodes: 3, Volume: spec.Volume{Path: "/work"},
		Outputs: []spec.Output{{From: "/work/all/d", To: out}, {From: "/work/all/l*", To: out}, {From: "/work/*.dat", To: filepath.Join(out, "ranks")}, {From: "/work/only", To: out}, {From: "/work/all/*/key", To: out}, {From: "/work/none", To: out}, {From: "/work/more/d", To: out}},
	})
	w.drive(t, run, nil)
	want := map[string]string{"d/0.dat": "0", "d/1.dat": "1", "d/2.dat": "2", "log": "0", "ranks/rank0.dat": "0", "ranks/rank1.dat": "1", "ranks/rank2.dat": "2", "only": "1", "more/d/m.dat": "1"}
	if got := testkit.Files(t, out); !same(got, want) {
		t.Errorf("there came %q, want %q\n%s", got, want, history(t, w, run.ID))
	}
	if got := testkit.Files(t, outside); len(got) > 0 {
		t.Errorf("outside there is %q", got)
	}
}

// TestWhatALostHeadLeftDoesNotLeadOut: links that the job has made, the last element of an
// output or above it, lead to what lies in the volume alone.
func TestWhatALostHeadLeftDoesNotLeadOut(t *testing.T) {
	w, out, outside := newWorld(t, "a"), t.TempDir(), t.TempDir()
	dir := protocol.VolumeDir(w.sites["a"].Dir)
	testkit.WriteFiles(t, outside, map[string]string{"key": "secret", "deep/key": "secret"})
	testkit.WriteFiles(t, dir, map[string]string{"run1/log": "1", "run1/deep/log": "2"})
	for name, to := range map[string]string{
		"latest": "run1/log", "run": "/work/run1", "key": filepath.Join(outside, "key"), "out": outside, "gone": "nowhere", "loop": "loop", "up": "../../../../../../../../.." + outside,
	} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}
	for _, from := range []string{"latest", "run/deep", "run/l*", "key", "out", "out/key", "out/k*", "out/deep/k*", "up/key", "up/*", "gone", "gone/*", "loop", "loop/x", "none"} {
		job.Outputs = append(job.Outputs, spec.Output{From: "/work/" + from, To: out})
	}
	w.drive(t, w.submitJob(t, job), nil)
	want := map[string]string{"latest": "1", "deep/log": "2", "log": "1"}
	if got := testkit.Files(t, out); !same(got, want) {
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
		if s, err := checkpoint.ReadSaved(dir); err == nil {
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
		"a checkpoint": func(a *attempt, to string) error {
			return transfer.Tree{Site: a.at.transfers()}.Fetch(t.Context(), to, "")
		},
		"output": func(a *attempt, to string) error {
			return headlink.FetchFile(t.Context(), a.at.lease, driver.Transfer{Local: to}, 0)
		},
	} {
		dir := t.TempDir()
		if err := unix.Mount("small", dir, "tmpfs", 0, "size=64m"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Unmount(dir, 0) })
		a := attemptOf(control(&Runner{Report: func(protocol.Event) {}}, state.Run{}, submission.Submission{}), &drive{}, spec.Site{}, nil, state.Attempt{})
		a.at.lease = filling{}
		if err := fetch(a, filepath.Join(dir, "x")); !errors.Is(err, transfer.ErrScarce) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// lostWith has a site lose the head of its next attempt, which has left files in its volume.
func (w *world) lostWith(t *testing.T, site string, files map[string]string) {
	t.Helper()
	dir := protocol.VolumeDir(w.sites[site].Dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFiles(t, dir, files)
	w.sites[site].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
}

// TestWhatALostHeadLeftReplacesNothing: its files may be incomplete, and come beside those of
// attempts that have ended. A later lost attempt replaces them there, and one that ends
// replaces what is in its place.
func TestWhatALostHeadLeftReplacesNothing(t *testing.T) {
	for name, o := range map[string]spec.Output{
		"a pattern":          {From: "/vol/o*"},
		"a path":             {From: "/vol/out"},
		"with replace: true": {From: "/vol/o*", Replace: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			o.To = t.TempDir()
			job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/vol"}, Outputs: []spec.Output{o}}
			good := func(text string) {
				w.ending(t, 0, map[string]string{"volume/out": text}, protocol.OutputMatch{Path: "volume/out"})
			}
			good("good")
			w.drive(t, w.submitJob(t, job), nil)
			w.lostWith(t, "a", map[string]string{"out": "par"})
			run := w.drive(t, w.submitJob(t, job), nil)
			want := map[string]string{"out": "good", "out." + run.ID: "par"}
			if got := testkit.Files(t, o.To); run.State != state.Failed || !same(got, want) {
				t.Errorf("after a lost run (%s) there is %q, want %q", run.State, got, want)
			}
			job.Checkpoint = &spec.Checkpoint{}
			attempts, texts := 0, []string{"first", "second", "third"}
			w.sites["a"].OnAcquire = func() error {
				if attempts++; attempts <= len(texts) {
					w.lostWith(t, "a", map[string]string{"out": texts[attempts-1]})
				} else {
					good("better")
				}
				if attempts == len(texts) {
					raw, err := os.ReadFile(filepath.Join(o.To, "out"))
					if err != nil || string(raw) != "good" {
						t.Errorf("after %d lost attempts it holds %q, %v", attempts-1, raw, err)
					}
				}
				return nil
			}
			next := w.drive(t, w.submitJob(t, job), nil)
			want["out"], want["out."+next.ID] = "better", "third"
			if got := testkit.Files(t, o.To); next.State != state.Succeeded || !same(got, want) {
				t.Errorf("after further attempts (%s) there is %q, want %q\n%s", next.State, got, want, history(t, w, next.ID))
			}
		})
	}
}

// TestLinksThatALostHeadLeft: a match that leads elsewhere in the volume is fetched from
// there. Below a match, what its links lead to comes in their place, and what cannot come
// is reported.
func TestLinksThatALostHeadLeft(t *testing.T) {
	w, to, outside := newWorld(t, "a"), t.TempDir(), t.TempDir()
	testkit.WriteFiles(t, outside, map[string]string{"key": "secret"})
	w.lostWith(t, "a", map[string]string{"out/x": "x", "out/deep/y": "y", "run1/log": "1", "shut/z": "z"})
	dir := protocol.VolumeDir(w.sites["a"].Dir)
	for name, target := range map[string]string{
		"out/latest": "../run1", "out/log": "/vol/run1/log", "out/deep/in": "../x", "out/deep/kept": "y", "out/deep/far": "../../run1/log",
		"out/deep/key": filepath.Join(outside, "key"), "out/key": filepath.Join(outside, "key"), "out/deep/.bee-linked": outside, "out/linked": outside, "out/staged": outside,
	} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"shut/z", "shut"} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	run := w.drive(t, w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/vol"}, Outputs: []spec.Output{{From: "/vol/out/*", To: to}, {From: "/vol/shut/*", To: to}},
	}), nil)
	want := map[string]string{"x": "x", "deep/y": "y", "deep/in": "x", "deep/kept": "y", "latest/log": "1", "log": "1", "z": "z"}
	if got := testkit.Files(t, to); !same(got, want) {
		t.Errorf("there came %q, want %q\n%s", got, want, history(t, w, run.ID))
	}
	left := map[string]bool{}
	for _, e := range controltest.EventsOf(t, w.Store, run.ID) {
		switch f := e.Fields.(type) {
		case event.OutputsMissing:
			for _, l := range f.Left {
				left[l.Path] = true
			}
		case event.DanglingLinks:
			left[f.First] = f.Count == 3
		}
	}
	for _, name := range []string{"deep/far", "deep/key", "deep/.bee-linked", "key"} {
		if !left[name] {
			t.Errorf("%s is not reported: %v\n%s", name, left, history(t, w, run.ID))
		}
	}
}
