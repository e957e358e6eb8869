package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestMain keeps a background controller that a command starts from running the
// tests: this program is the bee binary of the commands under test.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "drive":
			os.Exit(0)
		case emulate.HolderArg:
			os.Exit(emulate.HolderMain(os.Args[2:]))
		}
	}
	time.Local = time.UTC // golden files have times as they are printed
	os.Exit(withState(m))
}

// withState runs the tests with a state directory of their own: some name none.
func withState(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bee-cli-state-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("BEE_STATE", dir); err != nil {
		panic(err)
	}
	return m.Run()
}

// desk is a user's state directory, and what the last command wrote.
type desk struct {
	t        *testing.T
	dir      string
	store    *state.Store
	out, err bytes.Buffer
}

func newDesk(t *testing.T, runs ...state.Run) *desk {
	d := &desk{t: t, dir: t.TempDir()}
	d.store = runrecords.Open(t, filepath.Join(d.dir, "s"), runs...)
	return d
}

// bee runs a command line.
func (d *desk) bee(args ...string) error {
	d.out.Reset()
	return d.beeTo(&d.out, args...)
}

// beeTo is bee with another standard output.
func (d *desk) beeTo(stdout io.Writer, args ...string) error {
	d.err.Reset()
	a := newApp(stdout, &d.err)
	root := a.newRoot()
	root.SetOut(stdout)
	root.SetArgs(append([]string{"--state-dir", filepath.Join(d.dir, "s"), "--cache", filepath.Join(d.dir, "c")}, args...))
	return root.ExecuteContext(d.t.Context())
}

// left gives the ids of the runs on record, oldest first, with + for those that
// were asked to stop.
func (d *desk) left() string {
	runs, err := d.store.Runs(d.t.Context(), state.Filter{})
	if err != nil {
		d.t.Fatal(err)
	}
	var ids []string
	for _, r := range slices.Backward(runs) {
		id := r.ID
		requests, err := d.store.Requests().Of(d.t.Context(), r.ID)
		if err != nil {
			d.t.Fatal(err)
		}
		if slices.ContainsFunc(requests, func(q state.Request) bool { return q.Kind == state.RequestStop }) {
			id += "+"
		}
		ids = append(ids, id)
	}
	return strings.Join(ids, " ")
}

// obey ends runs that are asked to stop, as their controllers would.
func (d *desk) obey() {
	ctx, stop := context.WithCancel(d.t.Context())
	done := make(chan struct{})
	d.t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		for core.Sleep(ctx, time.Millisecond) == nil {
			runs, _ := d.store.Runs(ctx, state.Filter{Active: true})
			for _, r := range runs {
				if r.StopAsked {
					r.State = state.Stopped
					d.store.PutRun(ctx, r) //nolint:errcheck // the test waits without success then
				}
			}
		}
	}()
}

// TestWhatWasDoneInJSON: one record for each run that was named, however it stands.
func TestWhatWasDoneInJSON(t *testing.T) {
	runs := []state.Run{{ID: "aaaa1111", Name: "pi", State: state.Suspended}, {ID: "bbbb1111", Name: "md", State: state.Failed}}
	for line, want := range map[string]string{
		"stop --json md pi":                       `[{"id":"bbbb1111","state":"failed"},{"id":"aaaa1111","state":"stopped"}]`,
		"stop --json --no-wait pi":                `[{"id":"aaaa1111","state":"suspended"}]`,
		"rm --json md":                            `[{"id":"bbbb1111"}]`,
		"rm --json --force md pi":                 `[{"id":"bbbb1111"},{"id":"aaaa1111"}]`,
		"rm --json --finished":                    `[{"id":"bbbb1111"}]`,
		"rm --json --finished --state-dir nobody": `[]`,
		"stop --json --all --state nobody":        `[]`,
	} {
		d := newDesk(t, runs...)
		d.obey()
		line = strings.Replace(line, "nobody", t.TempDir(), 1)
		var got bytes.Buffer
		if err := d.bee(strings.Fields(line)...); err != nil || json.Compact(&got, d.out.Bytes()) != nil || strings.TrimSpace(got.String()) != want {
			t.Errorf("%s wrote %s and %s, %v; want %s", line, d.out.String(), d.err.String(), err, want)
		}
	}
}

// TestWhatCannotBeWrittenFails: who reads the result would take it for the whole one.
func TestWhatCannotBeWrittenFails(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, line := range []string{"ps", "ps -q --all", "rm md", "rm --json md"} {
		d := newDesk(t, state.Run{ID: "bbbb1111", Name: "md", State: state.Failed})
		if err := d.beeTo(full, strings.Fields(line)...); err == nil {
			t.Errorf("%s: its result is lost, and it succeeds", line)
		}
	}
}

// TestRemoveWhatHasLeftNothing: what cannot be removed keeps none of the others, and
// is reported with its exit code. Nobody knows here the site on which the run has left something.
func TestRemoveWhatHasLeftNothing(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Stopped}, state.Run{ID: "bbbb1111", Name: "md", State: state.Failed})
	if err := d.store.PutAttempt(t.Context(), state.Attempt{Run: "aaaa1111", N: 1, Site: "rack", Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	err := d.bee("rm", "--json", "pi", "md")
	var done []console.DoneView
	if jerr := json.Unmarshal(d.out.Bytes(), &done); jerr != nil || len(done) != 2 || done[0].Error == nil || done[0].Error.Kind != "busy" || done[0].Error.Remedy == "" || done[1] != (console.DoneView{ID: "bbbb1111"}) {
		t.Errorf("it wrote %s (%v)", d.out.String(), jerr)
	}
	if !errors.Is(err, console.Exit(console.ExitBusy)) || !strings.Contains(d.err.String(), "rack") || d.left() != "aaaa1111" {
		t.Errorf("got %v, %s; there are %s", err, d.err.String(), d.left())
	}
	if err := d.bee("rm", "--force", "pi"); err != nil || d.out.String() != "aaaa1111\n" || !strings.Contains(d.err.String(), "rack") || d.left() != "" {
		t.Errorf("forced: got %v, %s; there are %s", err, d.err.String(), d.left())
	}
}

func TestStopAndRemoveWhatIsMeantOnly(t *testing.T) {
	runs := []state.Run{
		{ID: "aaaa1111", Name: "pi", State: state.Suspended},
		{ID: "bbbb1111", Name: "pi", State: state.Succeeded},
		{ID: "cccc1111", Name: "md", State: state.Failed},
		{ID: "dddd1111", Name: "two", State: state.Suspended},
		{ID: "eeee1111", Name: "two", State: state.Suspended},
	}
	const all = "aaaa1111 bbbb1111 cccc1111 dddd1111 eeee1111"
	for _, c := range []struct {
		line string
		kind core.Kind // 0: it works
		says string    // of an error, the runs that it names
		left string
	}{
		{"stop ''", core.Invalid, "", all},
		{"rm ''", core.Invalid, "", all},
		{"rm -f ''", core.Invalid, "", all},
		{"stop", core.Invalid, "", all},
		{"rm", core.Invalid, "", all},
		{"rm -f", core.Invalid, "", all},
		{"stop aaa", core.Invalid, "", all},
		{"rm ccc", core.Invalid, "", all},
		{"stop --all nosuch", core.Invalid, "", all},
		{"stop --all pi", core.Invalid, "", all},
		{"rm --finished nosuch", core.Invalid, "", all},
		{"rm -f --finished md", core.Invalid, "", all},
		{"stop md nosuch", core.NotFound, "", all},
		{"stop two", core.Invalid, "eeee1111 (suspended), dddd1111 (suspended)", all},
		{"rm pi", core.Invalid, "bbbb1111 (succeeded), aaaa1111 (suspended)", all},
		{"rm -f pi", core.Invalid, "bbbb1111 (succeeded), aaaa1111 (suspended)", all},
		{"rm md aaaa1111", core.Busy, "aaaa1111", all},
		{"checkpoint two", core.Invalid, "eeee1111 (suspended), dddd1111 (suspended)", all},
		{"exec two -- true", core.Invalid, "eeee1111 (suspended), dddd1111 (suspended)", all},
		{"logs -f two", core.Invalid, "eeee1111 (suspended), dddd1111 (suspended)", all},
		{"resume two", core.Invalid, "eeee1111 (suspended), dddd1111 (suspended)", all},
		{"stop pi", 0, "", "aaaa1111+ bbbb1111 cccc1111 dddd1111 eeee1111"},
		{"stop md", 0, "", all},
		{"stop --all --no-wait", 0, "", "aaaa1111+ bbbb1111 cccc1111 dddd1111+ eeee1111+"},
		{"rm cccc md", 0, "", "aaaa1111 bbbb1111 dddd1111 eeee1111"},
		{"rm -f eeee", 0, "", "aaaa1111 bbbb1111 cccc1111 dddd1111"},
		{"rm --finished", 0, "", "aaaa1111 dddd1111 eeee1111"},
		{"rm -f --finished", 0, "", "aaaa1111 dddd1111 eeee1111"},
	} {
		t.Run(c.line, func(t *testing.T) {
			d := newDesk(t, runs...)
			d.obey()
			args := strings.Fields(c.line)
			for i := range args {
				args[i] = strings.Trim(args[i], "'")
			}
			err := d.bee(args...)
			if c.kind == 0 {
				if err != nil {
					t.Error(err)
				}
				testkit.Wording(t, "printed", d.out.String()+d.err.String())
			} else if !core.IsKind(err, c.kind) || core.Remedy(err) == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v; want kind %v, %q and a remedy", err, c.kind, c.says)
			}
			if left := d.left(); left != c.left {
				t.Errorf("there are %s; want %s", left, c.left)
			}
		})
	}
}
