package head

import (
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

// emulating is a node whose guest is emulated.
type emulating struct{ Node }

func (emulating) Emulates() bool { return true }

// Guests that start slowly are reported, with what they are and for how long.
func TestSlowGuestsAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, err := journal.New(filepath.Join(t.TempDir(), "events"))
		if err != nil {
			t.Fatal(err)
		}
		h := &Head{node: emulating{}, config: plan.Config{Size: 2}, journal: j}
		var up atomic.Int32
		stop := h.reportBoots(&up)
		time.Sleep(newsPause + time.Second)
		up.Add(1)
		time.Sleep(newsPause)
		stop()
		time.Sleep(time.Hour)
		for i, want := range []string{"starting virtual machines in software emulation: 0 of 2 ready", "starting virtual machines in software emulation: 1 of 2 ready"} {
			if len(eventsOf(j)) != 2 || eventsOf(j)[i].Message != want || eventsOf(j)[i].Waited != time.Duration(i+1)*newsPause {
				t.Errorf("the history has %+v", eventsOf(j))
			}
		}
	})
}

// TestNotesOfManyHosts are one for all hosts with the same.
func TestNotesOfManyHosts(t *testing.T) {
	j, err := journal.New(filepath.Join(t.TempDir(), "events"))
	if err != nil {
		t.Fatal(err)
	}
	h := &Head{journal: j, hosts: &hosts{plan: &plan.Plan{Names: []string{"a", "b", "c"}}}}
	h.reportNotes([][]string{{"one", "two"}, nil, {"one"}})
	var got []string
	for _, e := range eventsOf(j) {
		got = append(got, e.Message)
	}
	if want := []string{"note: on a (node 0), c (node 2): one", "note: on a (node 0): two"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
