package control

import (
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/node/protocol"
)

// TestHowMuchOfTheOutputsIsStillToCome: of all of them together, as long as it is known.
func TestHowMuchOfTheOutputsIsStillToCome(t *testing.T) {
	var got []protocol.Event
	a := &attempt{drive: &drive{c: &Controller{Report: func(e protocol.Event) {
		got = append(got, protocol.Event{Message: e.Message, Done: e.Done, Total: e.Total})
	}}}}
	told := a.fetchingAll([]output{{remote: "a", bytes: 10}, {remote: "b", bytes: 20}})
	told(0, 4)
	told(1, 20)
	told(0, 12) // a part of it has travelled twice
	told = a.fetchingAll([]output{{remote: "x/c", bytes: 7}})
	told(0, 7)
	want := []protocol.Event{
		{Message: "fetching 2 outputs", Done: 4, Total: 30},
		{Message: "fetching 2 outputs", Done: 24, Total: 30},
		{Message: "fetching 2 outputs", Done: 32},
		{Message: "fetching c", Done: 7, Total: 7},
	}
	if !slices.EqualFunc(got, want, func(a, b protocol.Event) bool {
		return a.Message == b.Message && a.Done == b.Done && a.Total == b.Total
	}) {
		t.Errorf("told:\n%+v, want\n%+v", got, want)
	}
}
