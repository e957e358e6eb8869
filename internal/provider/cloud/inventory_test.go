package cloud

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// TestLeftBehind: what is left of machines that are gone is listed, and released by its owner alone.
func TestLeftBehind(t *testing.T) {
	a := newAccount()
	mine, other := core.Owner{User: "u", Run: "r", Attempt: 1}, core.Owner{User: "v", Run: "r", Attempt: 1}
	a.others = []driver.Rented{{Kind: driver.RentedDisk, ID: "d1", Owner: mine}, {Kind: driver.RentedDisk, ID: "d2", Owner: other}, {Kind: driver.RentedReservation, ID: "r1"}}
	p := newProvider(t, a, t.TempDir(), time.Minute)
	if handles, err := driver.Owned(t.Context(), p, core.Owner{User: "u"}); err != nil || len(handles) != 1 || handles[0].Owner != mine {
		t.Fatalf("listed are %+v, %v", handles, err)
	}
	if err := driver.ReleaseOwned(t.Context(), p, core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	if len(a.others) != 2 || a.others[0].ID != "d2" || a.others[1].ID != "r1" {
		t.Errorf("left are %+v", a.others)
	}
}

// TestDiskInUse: a release waits a short time for a disk that another machine uses, and then names what to do with it.
func TestDiskInUse(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		a := newAccount()
		mine := core.Owner{User: "u", Run: "r", Attempt: 1}
		a.others = []driver.Rented{{Kind: driver.RentedDisk, ID: "d1", Owner: mine}}
		a.endOtherError = &core.Error{Kind: core.Busy, Op: "delete volume", Err: errors.New("it is on a machine"), Remedy: "Detach it."}
		p, begin := newProvider(t, a, dir, time.Minute).(*provider), time.Now()
		err := p.end(t.Context(), mine, dir)
		if took := time.Since(begin); !core.IsKind(err, core.Transient) || core.Remedy(err) != "Detach it." || took < othersTime || took > 2*othersTime {
			t.Errorf("after %s: %v (%q)", took, err, core.Remedy(err))
		}
		a.endOtherError = nil
		if err := p.end(t.Context(), mine, dir); err != nil || len(a.others) > 0 {
			t.Errorf("left are %+v, %v", a.others, err)
		}
	})
}

// TestInventoryWithoutARight: machines are listed and released where disks may not be listed, and that is reported.
func TestInventoryWithoutARight(t *testing.T) {
	a := newAccount()
	p, l := acquired(t, a, t.TempDir())
	a.othersError = &core.Error{Kind: core.Unsupported, Op: "list", Err: errors.New("not allowed"), Remedy: "Allow it."}
	list, err := p.Inventory().Rented(t.Context(), core.Owner{User: "u"})
	if !core.IsKind(err, core.Unsupported) || len(list) != request.Nodes+1 {
		t.Errorf("listed are %+v, %v", list, err)
	}
	if _, err := p.List(t.Context(), core.Owner{User: "u"}); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	a.othersError = &core.Error{Kind: core.Transient, Op: "list", Err: errors.New("no answer")}
	if _, err := p.List(t.Context(), core.Owner{User: "u"}); !core.IsKind(err, core.Transient) {
		t.Errorf("a cloud that does not answer: %v", err)
	}
}

// TestReleaseWithoutARightAndAnAnswer: a right that lacks hides no other question without an answer.
func TestReleaseWithoutARightAndAnAnswer(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	forbidden := &core.Error{Kind: core.Unsupported, Op: "list addresses", Err: errors.New("not allowed")}
	silent := &core.Error{Kind: core.Transient, Op: "list leases", Err: errors.New("no answer")}
	a.othersError = errors.Join(forbidden, errors.Join(nil, forbidden, silent))
	if err := l.Release(t.Context()); !core.IsKind(err, core.Transient) || errors.Is(err, forbidden) {
		t.Errorf("released with %v", err)
	}
	a.othersError = errors.Join(forbidden, errors.Join(forbidden))
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestRentedMachine: what ends a machine, and what it costs, depends on its state, its cloud and its reservation.
func TestRentedMachine(t *testing.T) {
	end, granted := time.Now().Add(time.Hour), time.Now().Add(time.Minute)
	owner := core.Owner{User: "u", Run: "r", Attempt: 1}
	reserved := []driver.Rented{{Kind: driver.RentedReservation, ID: "l", Owner: owner, Ends: granted}}
	for name, c := range map[string]struct {
		s      Settings
		state  State
		others []driver.Rented
		want   driver.Rented
	}{
		"runs":                          {Settings{}, Running, nil, driver.Rented{Ends: end}},
		"stops":                         {Settings{StopsFree: true}, Stopped, nil, driver.Rented{Free: true}},
		"costs when it has stopped":     {Settings{PowersOff: true}, Stopped, nil, driver.Rented{}},
		"costs when it has powered off": {Settings{PowersOff: true}, Running, nil, driver.Rented{Ends: end, PowersOff: true}},
		"is reserved":                   {Settings{PowersOff: true}, Running, reserved, driver.Rented{Ends: granted, Free: true}},
	} {
		got := c.s.rented(Machine{ID: "m", State: c.state, Owner: owner, Expires: end}, nil, c.others)
		if !got.Ends.Equal(c.want.Ends) || got.PowersOff != c.want.PowersOff || got.Free != c.want.Free {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// TestTypes has a type once, with all its zones and the lowest price of each market.
func TestTypes(t *testing.T) {
	a := newAccount()
	a.prices = map[string]float64{"small": 2}
	p := newProvider(t, a, t.TempDir(), time.Minute).(*provider)
	p.s.Priced = true
	got, err := p.Inventory().Types(t.Context(), nil)
	if err != nil || len(got) != 2 || got[0].Name != "small" || !slices.Equal(got[0].Zones, []string{"a", "b"}) || got[0].Price == nil || got[0].Price.Amount != 2 || got[0].Spot == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got[1].Price != nil || got[1].Spot != nil || got[1].Cores != 4 {
		t.Errorf("a type without a price is %+v", got[1])
	}
}
