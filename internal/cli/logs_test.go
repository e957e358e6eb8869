package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/recordcmd"
	"github.com/bee-hpc/bee/internal/cli/setupcmd"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLogsOfSeveralAttempts: nothing that a run has printed is out of sight
// because it moved. The second attempt never began, and has printed nothing.
func TestLogsOfSeveralAttempts(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Succeeded})
	home := d.store.RunDir("aaaa1111")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for n, text := range []string{"first\n", "", "third\n"} {
		if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: n + 1, State: state.Closed, Started: time.Now()}, false); err != nil {
			t.Fatal(err)
		}
		if text == "" {
			continue
		}
		f, err := os.Create(control.OutputLog(home, n+1))
		if err != nil {
			t.Fatal(err)
		}
		w := tasklog.New(f)
		if err := w.Write(tasklog.Stdout, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, want string }{
		{"logs pi", "first\nthird\n"},
		{"logs -f pi", "first\nthird\n"},
		{"logs --attempt 1 pi", "first\n"},
		{"logs --attempt 2 pi", ""},
		{"logs --attempt 3 pi", "third\n"},
		{"logs -f --attempt 2 pi", "third\n"},
	} {
		if err := d.bee(strings.Fields(c.line)...); err != nil || d.out.String() != c.want {
			t.Errorf("%s gave %q, %v; want %q", c.line, d.out.String(), err, c.want)
		}
	}
	for _, line := range []string{"logs --attempt 4 pi", "logs --attempt -1 pi", "logs -f --attempt 99 pi", "logs --node 0 --attempt 4 pi"} {
		if err := d.bee(strings.Fields(line)...); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" || d.out.Len() > 0 {
			t.Errorf("%s gave %q, %v", line, d.out.String(), err)
		}
	}
}

// TestLogsInJSON: a line for each piece, of which nothing is lost, be it text or not.
func TestLogsInJSON(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Succeeded, Submission: []byte(`{"version": 1, "Job": {"Nodes": 1}}`)})
	home, begun := d.store.RunDir("aaaa1111"), time.Now()
	if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: 1, State: state.Closed, Started: begun}, false); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(home, "controller.log"), control.NodeLog(home, 1, 0)} {
		if err := os.WriteFile(file, []byte("begun\nended"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(control.OutputLog(home, 1))
	if err != nil {
		t.Fatal(err)
	}
	w := tasklog.New(f)
	if err := errors.Join(w.Write(tasklog.Stdout, []byte("<a>\n")), w.Write(tasklog.Stderr, []byte("b\xc3")), w.Close()); err != nil {
		t.Fatal(err)
	}
	output := []recordcmd.PieceView{{Attempt: 1, Stream: "stdout", Data: "<a>\n"}, {Attempt: 1, Stream: "stderr", Base64: []byte("b\xc3")}}
	for line, want := range map[string][]recordcmd.PieceView{
		"logs --json pi":              output,
		"logs --json -f pi":           output,
		"logs --json --node 0 pi":     {{Attempt: 1, Stream: "node", Data: "begun\n"}, {Attempt: 1, Stream: "node", Data: "ended"}},
		"logs --json --controller pi": {{Stream: "controller", Data: "begun\n"}, {Stream: "controller", Data: "ended"}},
	} {
		if err := d.bee(strings.Fields(line)...); err != nil || d.err.Len() > 0 {
			t.Fatalf("%s: %v, %s", line, err, d.err.String())
		}
		var got []recordcmd.PieceView
		for text := range strings.Lines(d.out.String()) {
			var v recordcmd.PieceView
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				t.Fatalf("%s: %q: %v", line, text, err)
			}
			if timed := v.Stream == "stdout" || v.Stream == "stderr"; timed != (v.Time != nil) || timed && v.Time.Before(begun) {
				t.Errorf("%s: the time in %q", line, text)
			}
			v.Time = nil
			got = append(got, v)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s gave %+v; want %+v", line, got, want)
		}
	}
}

// TestLogsBeforeThereIsAHead: a run is as good as running before its head is there,
// which is no error.
func TestLogsBeforeThereIsAHead(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running, Submission: []byte(`{"Job": {"Nodes": 1}}`)})
	if err := d.bee("logs", "pi"); err != nil || d.out.Len() > 0 {
		t.Errorf("before the first attempt: %v, %q", err, d.out.String())
	}
	for _, s := range []state.AttemptState{state.Staging, state.Starting} {
		if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: 1, Site: "gone", Started: time.Now(), State: s}, false); err != nil {
			t.Fatal(err)
		}
		if err := d.bee("logs", "pi"); err != nil || d.out.Len() > 0 {
			t.Errorf("%s: %v, %q", s, err, d.out.String())
		}
	}
}

// TestLogsOfARunThatHasNotBegunSaySo: silence would be taken for its output.
func TestLogsOfARunThatHasNotBegunSaySo(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "waits", State: state.Queued}, state.Run{ID: "bbbb1111", Name: "never", State: state.Failed},
		state.Run{ID: "cccc1111", Name: "further", State: state.Queued})
	for run, result := range map[string]state.Result{"aaaa1111": state.NoResult, "cccc1111": state.Lost} {
		at := state.Attempt{Run: run, N: 1, State: state.Closed, Result: result, Started: time.Now()}
		if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
	}
	for name, says := range map[string]bool{"waits": true, "never": true, "further": false} {
		if err := d.bee("logs", name); err != nil || d.out.Len() > 0 || (d.err.Len() > 0) != says {
			t.Errorf("%s: %v, %q, %q", name, err, d.out.String(), d.err.String())
		}
		if says {
			testkit.Wording(t, name, d.err.String())
		}
	}
}

// TestTheEndOfARunPointsToWhatThereIs: to what it has printed where it began, and to
// the outputs that have been collected.
func TestTheEndOfARunPointsToWhatThereIs(t *testing.T) {
	never, began := state.Run{ID: "aaaa1111", State: state.Failed, Message: "none"}, state.Run{ID: "bbbb1111", State: state.Failed, Message: "none"}
	ended := state.Run{ID: "cccc1111", State: state.Succeeded, Created: time.Unix(0, 0), Ended: time.Unix(60, 0)}
	d := newDesk(t, never, began, ended)
	outputs := []state.Arrived{{To: "/there/logs", Count: 1, Names: []string{"md.log"}}, {To: "/there/results", Count: 20, Names: strings.Split("a,b,c,d,e,f,g,h", ",")}}
	for _, id := range []string{began.ID, ended.ID} {
		for n, came := range [][]state.Arrived{outputs, nil} { // what the second would have brought over the first's is not there
			at := state.Attempt{Run: id, N: n + 1, State: state.Closed, Started: time.Now(), Record: state.Record{Outputs: came}}
			if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	a := newApp(nil, &d.err)
	a.StateDir, a.CacheDir = filepath.Join(d.dir, "s"), filepath.Join(d.dir, "c")
	s, err := a.OpenQuietly(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a.SayEnding(t.Context(), never, s)
	a.SayEnding(t.Context(), began, s)
	a.SayEnding(t.Context(), ended, s)
	testkit.Wording(t, "endings", d.err.String())
}

func TestPathsAreRelativeToWhereOneIs(t *testing.T) {
	for wd, want := range map[string]string{"/": "/usr/bin", "/usr": "./bin", "/usr/bin": "this directory", "/usr/lib": "/usr/bin"} {
		t.Chdir(wd)
		if got := workspace.ShortPath("/usr/bin"); got != want {
			t.Errorf("in %s: got %s, want %s", wd, got, want)
		}
	}
}

// TestInfoHasThePathOfASitesFileThatIsNotThere, as a user has to know where to write one.
func TestInfoHasThePathOfASitesFileThatIsNotThere(t *testing.T) {
	config := t.TempDir()
	t.Setenv("BEE_SITES", "")
	t.Setenv("SLURM_JOB_ID", "")
	t.Setenv("XDG_CONFIG_HOME", config)
	d := newDesk(t)
	if err := d.bee("info"); err != nil || !strings.Contains(d.out.String(), filepath.Join(config, "bee", "sites.yaml")) {
		t.Errorf("%v: %s", err, d.out.String())
	}
}

// TestLogsOfSeveralRuns: each line has the name of its run, and what JSON has is the run's id.
func TestLogsOfSeveralRuns(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Succeeded, Ended: time.Now()}, state.Run{ID: "bbbb2222", Name: "other", State: state.Failed, Message: "broken", Ended: time.Now()})
	for run, text := range map[string]string{"aaaa1111": "one\ntwo", "bbbb2222": "three\n"} {
		if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: run, N: 1, State: state.Closed, Started: time.Now()}, false); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(d.store.RunDir(run), 0o700); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(control.OutputLog(d.store.RunDir(run), 1))
		if err != nil {
			t.Fatal(err)
		}
		w := tasklog.New(f)
		if err := errors.Join(w.Write(tasklog.Stdout, []byte(text)), w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	want := "pi    | one\npi    | two\nother | three\n"
	if err := d.bee("logs", "pi", "other"); err != nil || d.out.String() != want {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if err := d.bee("logs", "-f", "pi", "other"); err != nil || len(d.out.String()) != len(want) || !strings.Contains(d.out.String(), "pi    | two\n") {
		t.Errorf("followed: %v: %q", err, d.out.String())
	}
	if printed := d.err.String(); !strings.HasPrefix(printed, "pi    | bee: ") && !strings.Contains(printed, "\npi    | bee: ") || !strings.HasPrefix(printed, "other | bee: ") && !strings.Contains(printed, "\nother | bee: ") {
		t.Errorf("how they ended: %q", printed)
	}
	if err := d.bee("logs", "--json", "pi", "other"); err != nil || !strings.HasPrefix(d.out.String(), `{"run":"aaaa1111",`) {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if err := d.bee("logs", "--node", "0", "pi", "other"); !core.IsKind(err, core.Invalid) {
		t.Errorf("logs of nodes: %v", err)
	}
}

func TestInfo(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running}, state.Run{ID: "bbbb2222", Name: "md", State: state.Failed})
	t.Setenv("SLURM_JOB_ID", "")
	t.Setenv("BEE_SITES", beefile(t, "sites: [{name: lab, provider: local}]\n"))
	var v setupcmd.InfoView
	if err := d.bee("info", "--json"); err != nil || json.Unmarshal(d.out.Bytes(), &v) != nil || v.Version == "" || v.State.Bytes == 0 || v.State.Free == 0 || v.Runs[state.Failed] != 1 || v.Runs[state.Running] != 1 || v.Sites[0].Provider != "local" || v.Sites[0].Name != "lab" {
		t.Errorf("%v: %s", err, d.out.String())
	}
}

// TestTheLogOfAController is shown with the part that was put aside as it grew.
func TestTheLogOfAController(t *testing.T) {
	d := newDesk(t, state.Run{ID: "flooded1", State: state.Succeeded})
	log := workspace.ControllerLog(d.store.RunDir("flooded1"))
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(logfile.Older(log), []byte("older\n"), 0o600), os.WriteFile(log, []byte("newer\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("logs", "--controller", "flooded1"); err != nil || d.out.String() != "older\nnewer\n" {
		t.Errorf("it shows %q: %v", d.out.String(), err)
	}
}
