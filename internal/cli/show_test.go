package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/store"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// TestShowSaysEachThingOnce: the only attempt of a run fails for the reason for
// which the run fails; that of another attempt is its own.
func TestShowSaysEachThingOnce(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Failed, Kind: "lost", Message: "n1 is gone", Remedy: "Look after it."})
	for i, reason := range []string{"n0 is away", "n1 is gone"} {
		at := state.Attempt{Run: "aaaa1111", N: i + 1, Site: "rack", Started: time.Now(), State: state.Closed, Record: state.Record{Kind: "lost", Message: reason, Remedy: "Look after it."}}
		if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.store.AddEvent(t.Context(), event.Event{Run: "aaaa1111", Fields: event.Note{Text: "it waited"}}); err != nil {
		t.Fatal(err)
	}
	if err := d.bee("show", "pi"); err != nil {
		t.Fatal(err)
	}
	got := d.out.String()
	for part, times := range map[string]int{"n0 is away": 1, "n1 is gone": 1, "Look after it.": 2, "\nreason ": 1, "\n  reason ": 1, "\nhistory\n": 1, " \n": 0} {
		if strings.Count(got, part) != times {
			t.Errorf("%q is there %d times, not %d, in\n%s", part, strings.Count(got, part), times, got)
		}
	}
}

// TestShowTellsHowFarMachinesAre, as long as the attempt is not over.
func TestShowTellsHowFarMachinesAre(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	const far = "starting virtual machines: 1 of 2 ready"
	at := state.Attempt{Run: "aaaa1111", N: 1, Site: "rack", Started: time.Now(), Record: state.Record{Starting: far}}
	for want, ended := range []time.Time{1: {}, 0: time.Now()} {
		at.Ended = ended
		if err := d.store.PutAttempt(t.Context(), at, false); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"show", "pi"}, {"show", "--json", "pi"}} {
			d.out.Reset()
			if err := d.bee(args...); err != nil {
				t.Fatal(err)
			}
			if got := d.out.String(); strings.Count(got, far) != want || strings.Contains(got, `"starting"`) != (want == 1 && len(args) == 3) {
				t.Errorf("%v of one that ended %v tells:\n%s", args, ended, got)
			}
		}
	}
}

// TestShowListsCheckpoints with their size, how long each took, and where it lies.
func TestShowListsCheckpoints(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Suspended})
	home := dirstore.Checkpoints(filepath.Join(d.store.RunDir("aaaa1111"), "checkpoints"))
	kept, _, err := home.Keep(t.Context(), driver.Generation{Attempt: 1}, "rack", store.FetchFunc(func(to, _ string) error {
		time.Sleep(100 * time.Millisecond) // so that a time of 0 is not its own
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, "state"), make([]byte, 3<<20), 0o600)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if err := d.bee("show", "pi"); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("attempt 1 on rack, 1 file, %s, kept in %s: %s\n", bytesText(3<<20), seconds(kept.Took.Seconds()), filepath.Join(string(home), "1", "volume"))
	if got := d.out.String(); !strings.Contains(got, want) {
		t.Errorf("want %q in\n%s", want, got)
	}
	var v struct{ Checkpoints []control.Checkpoint }
	if err := d.bee("show", "--json", "pi"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.out.Bytes(), &v); err != nil || len(v.Checkpoints) != 1 || v.Checkpoints[0].Bytes != 3<<20 || v.Checkpoints[0].Seconds != kept.Took.Seconds() {
		t.Errorf("%v: %+v", err, v)
	}
}

// TestAllOfARunsTimeHasAName: between attempts, within them, and of one that was lost
// with its head.
func TestAllOfARunsTimeHasAName(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds int) time.Time { return begun.Add(time.Duration(seconds) * time.Second) }
	took := func(seconds int) time.Duration { return time.Duration(seconds) * time.Second }
	head := []plan.NodeReport{{}}
	attempts := []state.Attempt{
		{Started: at(10), Ended: at(100), Record: state.Record{
			Nodes:  head,
			Phases: map[plan.Phase]time.Duration{"queue": took(20), "stage": took(3), "launch": took(1), "run": took(50), "checkpoint": took(5), "collect": took(9)},
		}},
		{Started: at(130), Ended: at(170), State: state.Closed, Result: state.Unreported, Record: state.Record{Phases: map[plan.Phase]time.Duration{"acquire": took(4)}}},
		// Released while the next one goes on, and with a phase of before its beginning.
		{Started: at(170), Ended: at(190), Record: state.Record{Nodes: head, Phases: map[plan.Phase]time.Duration{"image": took(2), "run": took(10)}}},
		{Started: at(180), Record: state.Record{Phases: map[plan.Phase]time.Duration{"acquire": took(1)}}},
	}
	want := map[spentOn]time.Duration{
		onNoSite: took(10 + 30 - 2), onQueue: took(20 + 4 + 1), onImage: took(2), onTransfer: took(3 + 9), onStart: took(1), onCompute: took(60),
		onCheckpoint: took(5), onOther: took(2), onLoss: took(36), onCurrent: took(19),
	}
	got := spent(state.Run{Created: begun}, attempts, at(200))
	sum := time.Duration(0)
	for _, d := range got {
		sum += d
	}
	if !maps.Equal(got, want) || sum != took(200) {
		t.Errorf("of 200 s, %v in all:\n%v, want\n%v", sum, got, want)
	}
	if text := spentText(map[spentOn]float64{onCompute: 60, onNoSite: 20}); text != "1m0s computing (75 %), 20.0s before and between attempts" {
		t.Errorf("in words: %q", text)
	}
	if all := spent(state.Run{Created: begun, Ended: at(7)}, nil, at(200)); !maps.Equal(all, map[spentOn]time.Duration{onNoSite: took(7)}) {
		t.Errorf("a run without attempts: %v", all)
	}
}
