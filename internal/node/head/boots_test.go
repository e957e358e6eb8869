package head

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/testkit"
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
		for i := range 2 {
			if len(eventsOf(j)) != 2 || eventsOf(j)[i].Waited != time.Duration(i+1)*newsPause {
				t.Fatalf("the history has %+v", eventsOf(j))
			}
			testkit.Wording(t, fmt.Sprint(i, " of 2"), eventsOf(j)[i].Message)
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
