package runner

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
)

// ending is the head of a job that has left files, which its outputs match.
func (w *world) ending(t *testing.T, exit int, files map[string]string, matches ...protocol.OutputMatch) {
	t.Helper()
	s := w.sites["a"]
	testkit.WriteFiles(t, s.Dir, files)
	s.Head = controltest.Events(protocol.Result{Exit: &core.Exit{Code: exit}, Outputs: matches})
}

func same(a, b map[string]string) bool {
	for name, text := range a {
		if b[name] != text {
			return false
		}
	}
	return len(a) == len(b)
}

// TestOutputsKeepWhatIsThere: what lies at home where outputs come to is its
// user's. ID stands for the run's.
func TestOutputsKeepWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name           string
		there, outputs map[string]string
		froms          []string
		matches        []protocol.OutputMatch
		after          map[string]string
		warns, unlike  bool
	}{
		{
			"a directory takes what is new",
			map[string]string{"res/notes": "mine", "res/day1": "old", "res/deep/x": "mine"},
			map[string]string{"res/day1": "new", "res/deep/y": "new"},
			[]string{"/work/res"},
			[]protocol.OutputMatch{{Path: "volume/res"}},
			map[string]string{"res/notes": "mine", "res/day1": "old", "res/day1.ID": "new", "res/deep/x": "mine", "res/deep/y": "new"},
			true, false,
		},
		{
			"a file comes where a directory is",
			map[string]string{"f/mine": "mine"},
			map[string]string{"f": "new"},
			[]string{"/work/f"},
			[]protocol.OutputMatch{{Path: "volume/f"}},
			map[string]string{"f/mine": "mine", "f.ID": "new"},
			true, true,
		},
		{
			"a directory comes where a file is",
			map[string]string{"d": "mine", "e/f": "mine"},
			map[string]string{"d/x": "new", "e/f/g": "new"},
			[]string{"/work/*"},
			[]protocol.OutputMatch{{Path: "volume/d"}, {Path: "volume/e"}},
			map[string]string{"d": "mine", "d.ID/x": "new", "e/f": "mine", "e/f.ID/g": "new"},
			true, true,
		},
		{
			"two have one name", nil,
			map[string]string{"a/log": "a", "b/log": "b", "c": "c"},
			[]string{"/work/*/log", "/work/c"},
			[]protocol.OutputMatch{{Path: "volume/a/log"}, {Path: "volume/b/log"}, {Index: 1, Path: "volume/c"}},
			map[string]string{"a/log": "a", "b/log": "b", "c": "c"},
			false, false,
		},
		{"the volume has its name inside", nil, map[string]string{"x": "x"}, []string{"/work"}, []protocol.OutputMatch{{Path: "volume"}}, map[string]string{"work/x": "x"}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, results := newWorld(t, "a"), t.TempDir()
			testkit.WriteFiles(t, results, c.there)
			volume := map[string]string{}
			for name, text := range c.outputs {
				volume["volume/"+name] = text
			}
			w.ending(t, 0, volume, c.matches...)
			job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}}
			for _, from := range c.froms {
				job.Outputs = append(job.Outputs, spec.Output{From: from, To: results})
			}
			run := w.drive(t, w.submitJob(t, job), nil)
			after := map[string]string{}
			for name, text := range c.after {
				after[strings.ReplaceAll(name, "ID", run.ID)] = text
			}
			if got := testkit.Files(t, results); run.State != state.Succeeded || !same(got, after) {
				t.Errorf("%s: got %q, want %q", run.State, got, after)
			}
			if happened(t, w, run.ID, event.OutputRenamed{}) != c.warns || happened(t, w, run.ID, event.OutputRenamed{Unlike: true}) != c.unlike {
				t.Errorf("its history: %s", history(t, w, run.ID))
			}
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || len(attempts) != 1 || len(attempts[0].Outputs) != 1 {
				t.Fatalf("%+v: %v", attempts, err)
			}
			for _, name := range attempts[0].Outputs[0].Names { // which users are shown
				if !slices.ContainsFunc(slices.Collect(maps.Keys(after)), func(file string) bool {
					return (file == name || strings.HasPrefix(file, name+"/")) && after[file] != "mine"
				}) {
					t.Errorf("nothing of the output is in %s", name)
				}
			}
		})
	}
}

// TestOutputsThatWereNotThere make a run whose job has succeeded a failed one, whose volume
// is kept. The job's own failure comes first, and it is not tried again.
func TestOutputsThatWereNotThere(t *testing.T) {
	for _, c := range []struct {
		name     string
		exit     int
		optional bool
		matches  []protocol.OutputMatch
		kind     string
		missing  bool
	}{
		{"none", 0, false, []protocol.OutputMatch{}, core.NotFound.String(), true},
		{"one of two", 0, false, []protocol.OutputMatch{{Index: 1, Path: "volume/x.csv"}}, core.NotFound.String(), true},
		{"an optional one", 0, true, []protocol.OutputMatch{{Index: 1, Path: "volume/x.csv"}}, "", false},
		{"none of a run that failed", 3, false, []protocol.OutputMatch{}, core.Permanent.String(), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, results := newWorld(t, "a"), t.TempDir()
			w.ending(t, c.exit, map[string]string{"volume/x.csv": "a month"}, c.matches...)
			run := w.drive(t, w.submitJob(t, spec.Job{
				Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data"}, Retry: map[bool]int{true: 3}[c.exit == 0],
				Outputs: []spec.Output{{From: "/data/resluts/*", To: results, Optional: c.optional}, {From: "/data/x.*", To: results}},
			}), nil)
			if happened(t, w, run.ID, event.OutputsMissing{Missing: []string{"/data/resluts/*"}}) != c.missing {
				t.Errorf("its history: %s", history(t, w, run.ID))
			}
			fails := c.kind == core.NotFound.String()
			if run.Kind != c.kind || (run.ExitCode == nil) != fails || (run.State == state.Succeeded) != (c.kind == "") {
				t.Errorf("got %+v", run)
			}
			raw, _ := os.ReadFile(filepath.Join(retention.UnnamedVolume(w.Store.RunDir(run.ID)), "x.csv"))
			if (string(raw) == "a month") != fails {
				t.Errorf("kept %q", raw)
			}
			attempts, err := w.Store.Attempts(t.Context(), run.ID)
			if err != nil || len(attempts) != 1 {
				t.Fatalf("%d attempts, %v", len(attempts), err)
			}
			if out := remembered(attempts[0]); out.state != run.State || fails && core.KindOf(out.err) != core.NotFound {
				t.Errorf("another controller makes of it %+v", out)
			}
		})
	}
}

// TestOutputsThatCannotComeKeepNoOthersAway, and are there for the next try.
func TestOutputsThatCannotComeKeepNoOthersAway(t *testing.T) {
	w, results := newWorld(t, "a"), t.TempDir()
	testkit.WriteFiles(t, results, map[string]string{"blocked": "a file"})
	w.ending(t, 0, map[string]string{"volume/a": "a", "volume/b": "b"}, protocol.OutputMatch{Path: "volume/a"}, protocol.OutputMatch{Index: 1, Path: "volume/b"})
	run := w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data"},
		Outputs: []spec.Output{{From: "/data/a", To: filepath.Join(results, "blocked")}, {From: "/data/b", To: results}},
	})
	if got, err := w.Drive(t.Context(), run.ID, nil); err == nil {
		t.Fatalf("got %+v", got)
	}
	if raw, _ := os.ReadFile(filepath.Join(results, "b")); string(raw) != "b" {
		t.Errorf("the other holds %q", raw)
	}
	if !happened(t, w, run.ID, event.CollectFailed{}) {
		t.Errorf("its history: %s", history(t, w, run.ID))
	}
	if err := os.Remove(filepath.Join(results, "blocked")); err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Errorf("got %+v", got)
	}
	if raw, _ := os.ReadFile(filepath.Join(results, "blocked", "a")); string(raw) != "a" {
		t.Errorf("after all it holds %q", raw)
	}
	w.arrived(t, run.ID, state.Arrived{To: filepath.Join(results, "blocked"), Count: 1, Names: []string{"a"}}, state.Arrived{To: results, Count: 1, Names: []string{"b"}})
}

// arrived fails the test unless just that is recorded to have come home.
func (w *world) arrived(t *testing.T, id string, want ...state.Arrived) {
	t.Helper()
	attempts, err := w.Store.Attempts(t.Context(), id)
	if err != nil || len(attempts) != 1 || !reflect.DeepEqual(attempts[0].Outputs, want) {
		t.Errorf("%v: got %+v, want the outputs %+v", err, attempts, want)
	}
}

// TestWhatHasComeHomeIsRecorded, also of a run that failed: its user looks there for
// the cause. What was there before is not taken for an output.
func TestWhatHasComeHomeIsRecorded(t *testing.T) {
	w, results, logs := newWorld(t, "a"), t.TempDir(), t.TempDir()
	testkit.WriteFiles(t, results, map[string]string{"f03": "old", "mine": "mine"})
	files, matches := map[string]string{"volume/md.log": "why"}, []protocol.OutputMatch{{Index: 1, Path: "volume/md.log"}}
	want := state.Arrived{To: results, Count: outputs.MostNamed + 2}
	for i := range want.Count {
		name := fmt.Sprintf("f%02d", i)
		files["volume/"+name], matches = "new", append(matches, protocol.OutputMatch{Path: "volume/" + name})
		want.Names = append(want.Names, name)
	}
	want.Names = want.Names[:outputs.MostNamed]
	w.ending(t, 3, files, matches...)
	run := w.drive(t, w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data"},
		Outputs: []spec.Output{{From: "/data/f*", To: results}, {From: "/data/md.log", To: logs}, {From: "/data/none", To: "/there/is/none"}},
	}), nil)
	want.Names[3] += "." + run.ID // beside the file that was there
	w.arrived(t, run.ID, state.Arrived{To: logs, Count: 1, Names: []string{"md.log"}}, want)
}

// TestOutputsTravelAtOnce, so that a line that takes long there and back is waited for
// seldom; also where one goes into the place of another.
func TestOutputsTravelAtOnce(t *testing.T) {
	const count, takes = 3 * outputs.AtOnce, time.Second
	for name, c := range map[string]struct {
		within bool
		lasts  time.Duration
	}{"beside each other": {false, count / outputs.AtOnce * takes}, "one within the other": {true, (count/outputs.AtOnce + 1) * takes}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, results := newWorld(t, "a"), t.TempDir()
				files, matches := map[string]string{"volume/sub/x": "x", "volume/sub/y": "y"}, []protocol.OutputMatch(nil)
				for i := range count {
					name := fmt.Sprintf("volume/f%02d", i)
					files[name], matches = name, append(matches, protocol.OutputMatch{Path: name})
				}
				job := spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data"}, Outputs: []spec.Output{{From: "/data/f*", To: results}}}
				if c.within {
					matches = append(matches, protocol.OutputMatch{Index: 1, Path: "volume/sub/x"}, protocol.OutputMatch{Index: 2, Path: "volume/sub"})
					job.Outputs = append(job.Outputs, spec.Output{From: "/data/sub/x", To: filepath.Join(results, "sub")}, spec.Output{From: "/data/sub", To: results})
				}
				w.ending(t, 0, files, matches...)
				w.sites["a"].Line = func(remote string) error {
					if name, is := inputs.Below(protocol.VolumeDir(w.sites["a"].Dir), remote); is && name != "" {
						time.Sleep(takes)
					}
					return nil
				}
				begun := time.Now()
				if run := w.drive(t, w.submitJob(t, job), nil); run.State != state.Succeeded {
					t.Fatalf("got %+v", run)
				}
				if took := time.Since(begun).Truncate(takes); took != c.lasts {
					t.Errorf("they took %v", took)
				}
				if raw, _ := os.ReadFile(filepath.Join(results, "f23")); string(raw) != "volume/f23" {
					t.Errorf("the last holds %q", raw)
				}
				for _, name := range []string{"x", "y"} {
					if raw, _ := os.ReadFile(filepath.Join(results, "sub", name)); c.within && string(raw) != name {
						t.Errorf("%s holds %q", name, raw)
					}
				}
				w.Store.Close()
			})
		})
	}
}

// TestWhatADeadHeadLeavesIsRecorded, and all of it comes home: also what lies where
// an input was brought to, which need not be at home any more.
func TestWhatADeadHeadLeavesIsRecorded(t *testing.T) {
	w, results := newWorld(t, "a"), t.TempDir()
	input := filepath.Join(t.TempDir(), "input")
	testkit.WriteFiles(t, input, map[string]string{"in": "in"})
	w.ending(t, 0, map[string]string{"volume/x.csv": "x", "volume/y": "y", "volume/z": "z", "inputs/0/data/out/a": "a", "inputs/0/data/b.log": "b", "inputs/0/data/c": "c"})
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "gone"})
	w.sites["a"].Line = func(string) error { return os.RemoveAll(input) }
	run := w.drive(t, w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: input, To: "/data/"}},
		Outputs: []spec.Output{{From: "/work/*.csv", To: results}, {From: "/work/y", To: results}, {From: "/work/none", To: results}, {From: "/data/out", To: results}, {From: "/data/*.log", To: results}},
	}), nil)
	w.arrived(t, run.ID, state.Arrived{To: results, Count: 4, Names: []string{"x.csv", "y", "out", "b.log"}})
	if got := testkit.Files(t, results); !same(got, map[string]string{"x.csv": "x", "y": "y", "out/a": "a", "b.log": "b"}) {
		t.Errorf("got %q", got)
	}
}

// TestWhatTheHeadDidNotTellIsShown: a head ends once it has a result, and may not
// have told all that the job has printed.
func TestWhatTheHeadDidNotTellIsShown(t *testing.T) {
	w := newWorld(t, "a")
	f, err := os.Create(protocol.OutputPath(w.sites["a"].Dir))
	if err == nil {
		log := tasklog.New(f)
		err = errors.Join(log.Write(tasklog.Stdout, []byte("printed\n")), log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	w.sites["a"].Head = controltest.Exiting(0)
	var shown strings.Builder
	w.Output = func(f tasklog.Frame) error {
		shown.Write(f.Data)
		return nil
	}
	if run := w.drive(t, w.submit(t), nil); run.State != state.Succeeded || shown.String() != "printed\n" {
		t.Errorf("%s: %q was shown", run.State, shown.String())
	}
}

// TestASiteThatNamesOthersFiles gets nothing written outside of `to:`, and the run ends
// with what was asked for.
func TestASiteThatNamesOthersFiles(t *testing.T) {
	w, home := newWorld(t, "a"), t.TempDir()
	results := filepath.Join(home, "project", "results")
	testkit.WriteFiles(t, home, map[string]string{".ssh/authorized_keys": "mine", "project/results/.git/hooks/x": "mine"})
	w.ending(t, 0, map[string]string{"volume/a.dat": "a", "volume/.git/hooks/x": "evil", ".ssh/authorized_keys": "evil"},
		protocol.OutputMatch{Path: ".."}, protocol.OutputMatch{Path: "volume/.."}, protocol.OutputMatch{Path: "volume/a.dat"},
		protocol.OutputMatch{Path: "volume/a.dat"}, protocol.OutputMatch{Path: "volume/.git"}, protocol.OutputMatch{Path: "../../.ssh"})
	run := w.drive(t, w.submitJob(t, spec.Job{
		Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/w"}, Outputs: []spec.Output{{From: "/w/*", To: results}},
	}), nil)
	if got := testkit.Files(t, home); run.State != state.Succeeded || !same(got, map[string]string{".ssh/authorized_keys": "mine", "project/results/.git/hooks/x": "mine", "project/results/a.dat": "a"}) {
		t.Errorf("%s: %q", run.State, got)
	}
	w.arrived(t, run.ID, state.Arrived{To: results, Count: 1, Names: []string{"a.dat"}})
}
