package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/web"
)

// webDesk is the records of pages over a new state directory.
func webDesk(t *testing.T) *webRecords {
	t.Helper()
	a := New(workspace.New(io.Discard, io.Discard, "1"))
	a.StateDir, a.CacheDir = filepath.Join(t.TempDir(), "state"), t.TempDir()
	s, err := a.OpenQuietly(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &webRecords{a, s}
}

func (w *webRecords) put(t *testing.T, r state.Run) {
	t.Helper()
	r.Submission = []byte("{}")
	if err := w.s.Store.PutRun(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// TestPagesOfRuns: the pages of a list have each run once, also of runs of one time, and
// arrays as one line each.
func TestPagesOfRuns(t *testing.T) {
	w := webDesk(t)
	now := time.Now()
	for i := range 230 { // 100 of them at one time
		r := state.Run{ID: fmt.Sprintf("run%05d", i), Name: "md", State: state.Running, Created: now.Add(time.Duration(min(i, 130)) * time.Second)}
		switch {
		case i%10 == 0:
			r.State, r.Name = state.Failed, "Steps"
		case i%23 == 0:
			r.Case = state.Case{Array: "arrayaaa", Name: "sweep", Number: i}
		}
		w.put(t, r)
	}
	for query, want := range map[string]int{"all=1": 222, "": 199, "state=failed": 23, "state=failed&state=running&find=step": 23, "all=1&find=run00007": 1, "array=arrayaaa": 9, "array=sweep": 9, "site=nowhere": 0} {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]int{}
		for {
			v, err := w.Runs(t.Context(), q)
			if err != nil {
				t.Fatalf("%q: %v", query, err)
			}
			list := v.(*webRuns)
			for _, r := range list.Runs {
				seen[r.ID]++
			}
			if list.Next == "" {
				break
			}
			q.Set("until", list.Next)
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("%q: %s is listed %d times", query, id, n)
			}
		}
		if len(seen) != want {
			t.Errorf("%q: %d runs, expected %d", query, len(seen), want)
		}
	}
	if _, err := w.Runs(t.Context(), url.Values{"state": {"strange"}}); !core.IsKind(err, core.Invalid) {
		t.Errorf("a state that no run has: %v", err)
	}
}

// TestEventsForPages: those of runs that begin, continue and end meanwhile, each once.
func TestEventsForPages(t *testing.T) {
	w := webDesk(t)
	add := func(run, text string) {
		t.Helper()
		if _, err := w.s.Store.AddEvent(t.Context(), event.Event{Run: run, Fields: event.Note{Text: text}}); err != nil {
			t.Fatal(err)
		}
	}
	w.put(t, state.Run{ID: "first", State: state.Running, Created: time.Now()})
	add("first", "before")
	before, err := w.s.Store.History().Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	add("first", "one")
	w.put(t, state.Run{ID: "first", State: state.Succeeded, Created: time.Now()})
	w.put(t, state.Run{ID: "second", State: state.Running, Created: time.Now()})
	add("second", "two")
	for _, want := range []string{"first:one second:two ", ""} {
		got := ""
		before, err = w.newEvents(t.Context(), before, func(v any) error {
			l := v.(eventLine)
			got += l.Run + ":" + l.Text + " "
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%v, events %q, expected %q", err, got, want)
		}
	}
}

// TestPartsOfALog: its end, what is before it, what follows an offset, and lines with a text.
func TestPartsOfALog(t *testing.T) {
	w := webDesk(t)
	w.put(t, state.Run{ID: "run1", State: state.Succeeded, Created: time.Now()})
	if err := w.s.Store.PutAttempt(t.Context(), state.Attempt{Run: "run1", N: 1, State: state.Closed, Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	dir := w.s.Store.RunDir("run1")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(control.OutputLog(dir, 1))
	if err != nil {
		t.Fatal(err)
	}
	log := tasklog.New(f)
	for i := range 20_000 {
		err = errors.Join(err, log.Write(tasklog.Stdout, fmt.Appendf(nil, "line %d of", i)), log.Write(tasklog.Stderr, []byte(" many\x1b\n")))
	}
	if err := errors.Join(err, log.Write(tasklog.Stderr, []byte("no end")), log.Close()); err != nil {
		t.Fatal(err)
	}
	read := func(part web.LogPart) (pieces []web.LogPiece) {
		t.Helper()
		size := 0
		if err := w.Log(context.Background(), "run1", part, func(p web.LogPiece) error {
			pieces, size = append(pieces, p), size+len(p.Text)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if size > 3*webLogBytes || len(pieces) == 0 {
			t.Fatalf("%+v: %d pieces with %d bytes", part, len(pieces), size)
		}
		return pieces
	}
	end := read(web.LogPart{From: -1})
	if last := end[len(end)-1]; last.Text != "no end" || last.Stream != "stderr" {
		t.Errorf("the end is %+v", last)
	}
	earlier := read(web.LogPart{From: -1, Before: end[0].At})
	if last := earlier[len(earlier)-1]; last.Next != end[0].At {
		t.Errorf("what is before %d ends at %d", end[0].At, last.Next)
	}
	if again := read(web.LogPart{From: earlier[0].At}); again[0] != earlier[0] {
		t.Errorf("at an offset is %+v, expected %+v", again[0], earlier[0])
	}
	if last := read(web.LogPart{From: -1, Find: "no end"}); len(last) != 1 || last[0].Text != "no end" || last[0].Next <= last[0].At {
		t.Errorf("a last line without an end: %+v", last)
	}
	found := read(web.LogPart{From: -1, Find: "19 of many"})
	if len(found) != webFound || found[0].Text != "line 19 of many\\x1b\n" || found[0].At != read(web.LogPart{From: found[0].At})[0].At {
		t.Errorf("found %d, first %+v", len(found), found[0])
	}
	if err := w.Log(t.Context(), "run1", web.LogPart{Attempt: 2}, nil); !core.IsKind(err, core.NotFound) {
		t.Errorf("an attempt that is not there: %v", err)
	}
}

// TestLogOfAnEarlierAttempt: of an attempt with one after it, nothing is awaited.
func TestLogOfAnEarlierAttempt(t *testing.T) {
	w := webDesk(t)
	w.put(t, state.Run{ID: "run1", State: state.Running, Created: time.Now()})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for n, s := range []state.AttemptState{state.Closed, state.InQueue} {
		if err := w.s.Store.PutAttempt(ctx, state.Attempt{Run: "run1", N: n + 1, State: s, Started: time.Now()}, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []web.LogPart{{Attempt: 1, From: -1, Follow: true}, {Attempt: 2, From: -1}} {
		if err := w.Log(ctx, "run1", part, func(web.LogPiece) error { return nil }); err != nil {
			t.Errorf("%+v: %v", part, err)
		}
	}
}

// TestMayPrint: no connection is opened to a site for an attempt that has not begun there.
func TestMayPrint(t *testing.T) {
	for s, want := range map[state.AttemptState]bool{state.Acquiring: false, state.Staging: false, state.InQueue: false, state.Starting: true, state.Computing: true, state.Collecting: true} {
		if got := mayPrint(state.Attempt{State: s}); got != want {
			t.Errorf("%s: %t", s, got)
		}
	}
}
