package openstack_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// TestLeftWithoutItsGroup: an address whose group its user has removed is its owner's still, and so is the lease of that
// name. Without both, nothing tells whose the lease is: it is listed, and kept.
func TestLeftWithoutItsGroup(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Lease = &openstack.Lease{Kind: openstack.LeaseFlavor} })
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("left"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	for ready := false; !ready; {
		w, err := l.Queue().Ready(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ready = w.Ready
	}
	all := core.Owner{User: "u"}
	kinds := func() string {
		t.Helper()
		list, err := p.Inventory().Rented(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		var text []string
		for _, r := range list {
			word := string(r.Kind)
			if r.Owner != owner("left") {
				word += " of nobody"
			}
			text = append(text, word)
			if r.Kind == driver.RentedReservation && (r.Hosts != 1 || time.Until(r.Ends) < time.Minute) {
				t.Errorf("the reservation is %+v", r)
			}
			if r.Kind == driver.RentedMachine && (!r.Free || r.PowersOff || r.Type != openstackserver.Small) {
				t.Errorf("the machine is %+v", r)
			}
		}
		return strings.Join(text, ", ")
	}
	if got := kinds(); got != "machine, reservation, address, group" {
		t.Errorf("listed are %s", got)
	}
	s.RemoveMachines()
	s.RemoveGroups()
	testkit.Eventually(t, 10*time.Second, func() error {
		if left := strings.Join(s.Left(), ", "); strings.Contains(left, "server") {
			return errors.New(left)
		}
		return nil
	})
	if got := kinds(); got != "reservation, address" {
		t.Errorf("without the group, listed are %s", got)
	}
	fresh := site(t, s, t.TempDir(), nil) // without the record
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "stranger"}, "stranger"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s, "floating", "lease")
	s.Reserve("bee-"+strings.Repeat("a", 26), 1, time.Now().Add(time.Hour))
	s.Reserve("bee-of-the-user", 1, time.Now().Add(time.Hour))
	if err := driver.ReleaseOwned(t.Context(), fresh, all, "u"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s, "lease", "lease")
	if got := kinds(); got != "reservation of nobody" {
		t.Errorf("of leases without an owner, listed are %s", got)
	}
}
