package drivertest

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// inventory: of a site whose hosts are rented, all that a lease has is listed as its owner's, and nothing once it is
// released. Others' is not.
func (s ProviderSuite) inventory(t *testing.T) {
	p, o := s.New(t), s.owner(t)
	if p.Inventory() == nil {
		if s.Rented && !s.Free {
			t.Error("the hosts are rented, and nothing lists them")
		}
		return
	}
	l := s.leaseOf(t, p, o)
	list, err := p.Inventory().Rented(t.Context(), core.Owner{User: o.User, Run: o.Run})
	check(t, err)
	kinds := map[driver.RentedKind]int{}
	for _, r := range list {
		kinds[r.Kind]++
		if r.Owner != o || r.ID == "" {
			t.Errorf("listed is %+v, of %s", r, o)
		}
		if r.Kind == driver.RentedMachine && (r.Type == "" || r.State == "" || time.Since(r.Since).Abs() > time.Hour || time.Until(r.Ends) < time.Minute) {
			t.Errorf("a machine is %+v", r)
		}
	}
	if kinds[driver.RentedMachine] != s.Nodes || kinds[driver.RentedGroup] != 1 {
		t.Errorf("listed are %v", kinds)
	}
	if list, err := p.Inventory().Rented(t.Context(), core.Owner{User: "stranger"}); err != nil || len(list) > 0 {
		t.Errorf("a stranger's are %+v, %v", list, err)
	}
	check(t, l.Release(t.Context()))
	if list, err := p.Inventory().Rented(t.Context(), core.Owner{User: o.User, Run: o.Run}); err != nil || len(list) > 0 {
		t.Errorf("after the release there are %+v, %v", list, err)
	}
}
