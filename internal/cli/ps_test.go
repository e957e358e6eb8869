package cli

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

func TestPsShowsProgressAndWhy(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running}, state.Run{ID: "bbbb2222", Name: "md", State: state.Suspended, Message: "no site fits"})
	at := state.Attempt{Run: "aaaa1111", N: 2, Site: "lab", State: state.Computing, Started: time.Now().Add(-time.Minute)}
	at.Span = time.Hour
	if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	var views []runview.View
	if err := d.bee("ps", "--format", "json"); err != nil || json.Unmarshal(d.out.Bytes(), &views) != nil || len(views) != 2 ||
		views[0].Why != "no site fits" || views[1].Progress == nil || views[1].Progress.SlotSeconds != 3600 {
		t.Errorf("%v: %s", err, d.out.String())
	}
	if err := d.bee("ps", "--format", "{{.id}}/{{.state}}/{{.progress.attempt}}"); err != nil || d.out.String() != "bbbb2222/suspended/\naaaa1111/running/2\n" {
		t.Errorf("%v: %q", err, d.out.String())
	}
	if err := d.bee("ps", "--format", "{{.id"); !core.IsKind(err, core.Invalid) {
		t.Errorf("a broken template: %v", err)
	}
}

// TestAWatchedListIsWrittenWhenItChanges, and ends with an interrupt.
func TestAWatchedListIsWrittenWhenItChanges(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	n := 0
	done := make(chan error)
	go func() {
		done <- newApp(write, nil).Watch(t.Context(), func(s *output.Screen) error {
			n++
			s.Say("once")
			return syscall.Kill(os.Getpid(), syscall.SIGINT)
		})
		write.Close()
	}()
	if err := <-done; err != nil || n != 1 {
		t.Errorf("%v, written %d times", err, n)
	}
	failed := errors.New("failed")
	if err := newApp(write, nil).Watch(t.Context(), func(*output.Screen) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("got %v", err)
	}
}

func TestAListIsRedrawnInPlace(t *testing.T) {
	if got := console.Redrawn("a\nb\n", 24); got != "\x1b[Ha\x1b[K\r\nb\x1b[K\r\n\x1b[J" {
		t.Errorf("got %q", got)
	}
	if got := console.Redrawn(strings.Repeat("x\n", 50), 5); strings.Count(got, "\n") != 4 || !strings.Contains(got, "47 more") {
		t.Errorf("got %q", got)
	}
}

func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 7 * 24 * time.Hour, "1w": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "90m": 90 * time.Minute, "2w1d": 15 * 24 * time.Hour} {
		var a console.Age
		if err := a.Set(text); err != nil || time.Duration(a) != want {
			t.Errorf("%s: %v, %v", text, time.Duration(a), err)
		}
	}
	for _, text := range []string{"", "7", "d", "-7d", "-1h", "7 days", "99999999d"} {
		if err := new(console.Age).Set(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func TestRmOfOldRuns(t *testing.T) {
	old, young := time.Now().Add(-10*24*time.Hour), time.Now().Add(-time.Hour)
	runs := []state.Run{
		{ID: "aaaa1111", Name: "old", State: state.Stopped, Ended: old},
		{ID: "bbbb1111", Name: "young", State: state.Failed, Ended: young},
		{ID: "cccc1111", Name: "runs", State: state.Suspended},
	}
	d := newDesk(t, runs...)
	if err := d.bee("rm", "--older-than", "7d", "old"); !core.IsKind(err, core.Invalid) {
		t.Errorf("with a name: %v", err)
	}
	if err := d.bee("rm", "--older-than", "7d"); err != nil || d.out.String() != "aaaa1111\n" || d.left() != "bbbb1111 cccc1111" {
		t.Errorf("%v: %q, there are %s", err, d.out.String(), d.left())
	}
}

// TestPsFoldsArrays unless each case is asked for, by the array, a flag or a filter.
func TestPsFoldsArrays(t *testing.T) {
	of := func(n int) state.Case { return state.Case{Array: "dddd4444", Name: "model", Number: n} }
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running},
		state.Run{ID: "bbbb2222", Name: "model.1", State: state.Succeeded, Case: of(1)},
		state.Run{ID: "cccc3333", Name: "model.2", State: state.Running, Case: of(2)},
		state.Run{ID: "eeee5555", Name: "model.3", State: state.Queued, Case: of(3)})
	for _, c := range []struct {
		args string
		has  string // in order
		not  string
	}{
		{"ps", "dddd4444|1 of 3 cases over, 1 running", "model.2"},
		{"ps -a", "dddd4444|1 of 3 cases over, 1 running", "model.1"},
		{"ps --cases", "model.3", "dddd4444"},
		{"ps --state succeeded", "model.1", "dddd4444"},
		{"ps -q", "eeee5555", "dddd4444"},
		{"ps model", "model.1|model.2|model.3", "pi"},
		{"ps dddd4444", "model.1|model.2|model.3", "pi"},
	} {
		err := d.bee(strings.Fields(c.args)...)
		rest, whole := d.out.String(), true
		for word := range strings.SplitSeq(c.has, "|") {
			_, after, is := strings.Cut(rest, word)
			rest, whole = after, whole && is
		}
		if err != nil || !whole || strings.Contains(d.out.String(), c.not) {
			t.Errorf("%s: %v\n%s", c.args, err, d.out.String())
		}
	}
	if err := d.bee("ps", "--limit", "1"); err != nil || !strings.Contains(d.out.String(), "dddd4444") || strings.Contains(d.out.String(), "aaaa1111") {
		t.Errorf("the newest is the array: %v\n%s", err, d.out.String())
	}
	if err := d.bee("ps", "pi"); !core.IsKind(err, core.NotFound) {
		t.Errorf("a run is listed as an array: %v", err)
	}
}
