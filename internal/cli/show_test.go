package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/driver"
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
	const far = "1 of 2 are up"
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
			if got := d.out.String(); strings.Count(got, far) != want {
				t.Errorf("%v of one that ended %v tells:\n%s", args, ended, got)
			}
			var v runview.View
			if len(args) == 3 && (json.Unmarshal(d.out.Bytes(), &v) != nil || len(v.Attempts) != 1 || (v.Attempts[0].Starting == far) != (want == 1)) {
				t.Errorf("of one that ended %v: %s", ended, d.out.String())
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
	if got, want := d.out.String(), filepath.Join(string(home), "1", "volume")+"\n"; !strings.Contains(got, want) {
		t.Errorf("want %q in\n%s", want, got)
	}
	var v struct{ Checkpoints []control.Checkpoint }
	if err := d.bee("show", "--json", "pi"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(d.out.Bytes(), &v); err != nil || len(v.Checkpoints) != 1 || v.Checkpoints[0].Attempt != 1 || v.Checkpoints[0].Site != "rack" || v.Checkpoints[0].Files != 1 || v.Checkpoints[0].Bytes != 3<<20 || v.Checkpoints[0].Seconds != kept.Took.Seconds() {
		t.Errorf("%v: %+v", err, v)
	}
}
