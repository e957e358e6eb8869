package runner

import (
	"errors"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestRented: what two sites of one account list is listed once, with what ends it. A cloud that does not answer keeps nothing
// of the other's back. What no live run owns is ended, and nothing else.
func TestRented(t *testing.T) {
	w := newWorld(t, "a", "b")
	live, gone := w.submit(t), state.NewID()
	user := w.Store.User()
	if err := w.Store.Forget(t.Context(), gone, ""); err != nil {
		t.Fatal(err)
	}
	owner := func(run string) core.Owner { return core.Owner{User: user, Run: run, Attempt: 1} }
	unknown := owner(state.NewID())
	end := time.Now().Add(time.Hour)
	list := []driver.Rented{
		{Kind: driver.RentedMachine, ID: "m-live", Owner: owner(live.ID), Ends: end},
		{Kind: driver.RentedMachine, ID: "m-gone", Owner: owner(gone), Ends: end},
		{Kind: driver.RentedMachine, ID: "m-off", Owner: owner(gone), Ends: end, PowersOff: true},
		{Kind: driver.RentedDisk, ID: "d", Owner: owner(gone), With: "m-gone"},
		{Kind: driver.RentedGroup, ID: "g", Owner: owner(gone), Free: true},
		{Kind: driver.RentedMachine, ID: "m-unknown", Owner: unknown},
		{Kind: driver.RentedReservation, ID: "r", Hosts: 2, Ends: end},
		{Kind: driver.RentedMachine, ID: "m-late", Owner: owner(gone), Ends: time.Now().Add(-time.Hour)},
		{Kind: driver.RentedMachine, ID: "m-damaged", Owner: owner(""), Ends: time.Now().Add(-time.Hour)}, // its tag is lost
	}
	stranger := driver.Rented{Kind: driver.RentedMachine, ID: "m-stranger", Owner: core.Owner{User: "stranger", Run: gone, Attempt: 1}}
	things := func() ([]driver.Rented, error) { return append(list[:len(list):len(list)], stranger), nil }
	w.sites["a"].Things, w.sites["b"].Things = things, things
	sites := []spec.Site{{Name: "a", Provider: "fake", Price: spec.Price{Amount: 2, Currency: "SU"}}, {Name: "b", Provider: "fake"}}
	clouds, err := w.Garbage().Clouds(t.Context(), sites)
	if err != nil || len(clouds) != 2 {
		t.Fatalf("got %+v, %v", clouds, err)
	}
	got, err := w.Garbage().Rented(t.Context(), clouds)
	if err != nil || len(got) != len(list) {
		t.Fatalf("got %+v, %v", got, err)
	}
	want := map[string]struct {
		by    gc.EndedBy
		kept  bool
		price float64
	}{
		"m-live": {gc.EndedByRun, false, 2}, "m-gone": {gc.EndedByItself, false, 2}, "m-off": {gc.EndedByNobody, false, 2}, "d": {gc.EndedByMachine, false, 0},
		"g": {gc.EndedByNobody, false, 0}, "m-unknown": {gc.EndedByNobody, true, 2}, "r": {gc.EndedByItself, true, 4},
		"m-late": {gc.EndedByNobody, false, 2}, "m-damaged": {gc.EndedByNobody, true, 2},
	}
	for _, r := range got {
		x, price := want[r.ID], 0.0
		if r.Price != nil {
			price = r.Price.Amount
		}
		if r.Site != "a" || r.EndedBy != x.by || (r.Kept != "") != x.kept || price != x.price {
			t.Errorf("%s is %+v", r.ID, r)
		}
	}
	w.sites["b"].Things = func() ([]driver.Rented, error) { return nil, errors.New("no answer") }
	if got, err := w.Garbage().Rented(t.Context(), clouds); err == nil || len(got) != len(list) {
		t.Errorf("with a cloud that does not answer: %d things, %v", len(got), err)
	}
	held := map[core.Owner]bool{owner(live.ID): true, owner(gone): true, unknown: true, owner(""): true}
	w.sites["a"].Held = held
	for _, c := range []struct {
		owners []core.Owner
		force  bool
		ended  int
		held   int
	}{{nil, true, 0, 4}, {[]core.Owner{owner(live.ID), owner("")}, true, 0, 4}, {[]core.Owner{unknown}, false, 1, 4}, {[]core.Owner{owner(gone)}, false, 1, 3}, {[]core.Owner{unknown}, true, 1, 2}} {
		ended, err := w.Garbage().EndRented(t.Context(), clouds[0], c.owners, c.force)
		if err != nil || len(ended) != c.ended || len(held) != c.held {
			t.Errorf("%+v: ended %+v, %v; left are %v", c, ended, err, held)
		}
	}
}

// TestCloudOfASiteThatWasRemoved: as long as something of a run may be there, its site is asked as the run has it.
func TestCloudOfASiteThatWasRemoved(t *testing.T) {
	w := newWorld(t, "a")
	unreachable := &core.Error{Kind: core.Transient, Err: errors.New("unreachable")}
	w.sites["a"].ReleaseErrors = []error{unreachable, unreachable, unreachable}
	w.sites["a"].Things = func() ([]driver.Rented, error) { return nil, nil }
	run := w.submit(t)
	w.drive(t, run, nil)
	if clouds, err := w.Garbage().Clouds(t.Context(), nil); err != nil || len(clouds) != 1 || clouds[0].Name != "a" {
		t.Errorf("with a run that is not released: %+v, %v", clouds, err)
	}
	unread := w.Garbage()
	unread.SiteOf = func(state.Run, string) *spec.Site { return nil }
	if _, err := unread.Clouds(t.Context(), nil); !core.IsKind(err, core.Permanent) || core.Remedy(err) == "" {
		t.Errorf("with a run whose site cannot be read: %v", err)
	}
	elsewhere := []spec.Site{{Name: "a", Provider: "fake", AWS: &spec.AWS{Region: "another"}}}
	if clouds, err := w.Garbage().Clouds(t.Context(), elsewhere); err != nil || len(clouds) != 2 || clouds[1].AWS != nil {
		t.Errorf("with a site of that name in another account: %+v, %v", clouds, err)
	}
	owner := core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}
	w.sites["a"].Things = func() ([]driver.Rented, error) {
		return []driver.Rented{{Kind: driver.RentedMachine, ID: "m", Owner: owner}}, nil
	}
	clouds, err := w.Garbage().Clouds(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Garbage().Rented(t.Context(), clouds); err != nil || len(got) != 1 || got[0].EndedBy != gc.EndedByRelease {
		t.Errorf("got %+v, %v", got, err)
	}
	w.drive(t, run, nil)
	if clouds, err := w.Garbage().Clouds(t.Context(), nil); err != nil || len(clouds) != 0 {
		t.Errorf("once it is released: %+v, %v", clouds, err)
	}
}
