package journal

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestEvents are numbered, reported from any number on, and end with the result; each is a
// line of the file.
func TestEvents(t *testing.T) {
	file := filepath.Join(t.TempDir(), "events")
	j, err := New(file)
	if err != nil {
		t.Fatal(err)
	}
	j.Enter(core.PhaseRun)
	j.Say(core.PhaseRun, "first")
	var got []plan.Event
	begun, followed := make(chan struct{}), make(chan error)
	go func() {
		followed <- j.Follow(t.Context(), 1, func(e plan.Event) error {
			if got = append(got, e); len(got) == 1 {
				close(begun)
			}
			return nil
		})
	}()
	<-begun
	j.Remark(core.PhaseRun, "second")
	j.Add(plan.Event{Rank: -1, Result: &plan.Result{}})
	if err := <-followed; err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 || got[0].Seq != 2 || got[0].Message != "first" || got[0].Remark || got[1].Message != "second" || !got[1].Remark || got[2].Result == nil {
		t.Errorf("reported are %+v", got)
	}
	stop := errors.New("enough")
	if err := j.Follow(t.Context(), 0, func(plan.Event) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("an error ends it: %v", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil || strings.Count(string(raw), "\n") != 4 {
		t.Errorf("%v: the file has %s", err, raw)
	}
}

// TestDurations count a phase that comes again, and one that has not ended.
func TestDurations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := New(filepath.Join(t.TempDir(), "events"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			j.Enter(core.PhaseRun)
			time.Sleep(time.Second)
			j.End(core.PhaseRun)
		}
		j.Begin(core.PhaseCheckpoint)
		time.Sleep(time.Minute)
		if j.Phase() != core.PhaseRun {
			t.Errorf("the present phase is %q", j.Phase())
		}
		if got := j.Durations(); got[core.PhaseRun] != 2*time.Second || got[core.PhaseCheckpoint] != time.Minute {
			t.Errorf("got %v", got)
		}
	})
}
