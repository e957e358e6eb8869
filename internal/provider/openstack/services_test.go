package openstack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/openstackfarm"
)

// TestRealServices rents machines from OpenStack's own services.
func TestRealServices(t *testing.T) {
	testkit.RequireRoot(t)
	testkit.Long(t, "TestConformance")
	if !openstackfarm.Inside(t) {
		return
	}
	f := openstackfarm.Start(t)
	t.Setenv("OS_CLIENT_CONFIG_FILE", f.CloudsFile())
	dir := t.TempDir()
	provider := func(t testing.TB, change func(*openstack.Settings)) driver.Provider {
		return siteOf(t, nil, f.Scratch(), dir, func(s *openstack.Settings) {
			s.Name, s.Types, s.Image, s.User, s.Network = openstackfarm.Cloud, []string{openstackfarm.Small}, openstackfarm.Image, "", openstackfarm.Network
			if change != nil {
				change(s)
			}
		})
	}
	wantNothing := func(t *testing.T) {
		t.Helper()
		if left, err := f.Left(); err != nil || left != "" {
			t.Errorf("left in the cloud: %s, %v", left, err)
		}
	}
	t.Run("suite", func(t *testing.T) {
		drivertest.ProviderSuite{Nodes: 2, Rented: true, New: func(t testing.TB) driver.Provider { return provider(t, nil) }}.Run(t)
		wantNothing(t)
	})
	t.Run("part of the machines", func(t *testing.T) {
		if err := f.Break(); err != nil {
			t.Fatal(err)
		}
		_, err := provider(t, nil).Acquire(t.Context(), driver.Request{Owner: owner("part"), Nodes: 2})
		if !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
		wantNothing(t)
	})
	t.Run("by tags alone", func(t *testing.T) {
		l, err := provider(t, func(s *openstack.Settings) { s.Floating = openstack.FloatingAll }).Acquire(t.Context(), driver.Request{Owner: owner("tags"), Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		l.Disconnect()
		if left, err := f.Left(); err != nil || strings.Count(left, "\n") != 4 {
			t.Errorf("rented is %s, %v", left, err)
		}
		dir = t.TempDir() // the record is lost
		if err := driver.ReleaseOwned(t.Context(), provider(t, nil), core.Owner{User: "u"}, "u"); err != nil {
			t.Error(err)
		}
		wantNothing(t)
	})
	t.Run("refused", func(t *testing.T) {
		for word, change := range map[string]func(*openstack.Settings){
			"quota":      func(s *openstack.Settings) { s.Types = []string{openstackfarm.Huge} },
			`"m1.small"`: func(s *openstack.Settings) { s.Types = []string{"m1.smal"} }, `"debian-12"`: func(s *openstack.Settings) { s.Image = "debian" },
			`"private"`: func(s *openstack.Settings) { s.Network = "privat" }, `"nova"`: func(s *openstack.Settings) { s.Zones = []string{"nov"} },
		} {
			fact, err := provider(t, change).Probe(t.Context())
			if err != nil || fact.Usable || !strings.Contains(fact.Reason, word) || fact.Remedy == "" {
				t.Errorf("%s: %+v, %v", word, fact, err)
			}
		}
	})
	t.Run("own image", func(t *testing.T) {
		mine := func(s *openstack.Settings) { s.Cloud.Installation = "mine" }
		images := provider(t, mine).Inventory().Images()
		first, _ := ownDisk("hpc", "first")
		second, _ := ownDisk("hpc", "second")
		first.User, second.User = "root", "root"
		var ids []string
		for n, d := range []driver.MachineDisk{first, first, second, first} {
			i, was, err := images.Push(t.Context(), d, noReport)
			if err != nil || was != (n%2 == 1) {
				t.Fatalf("push %d: %+v, %v, %v", n, i, was, err)
			}
			ids = append(ids, i.ID)
		}
		if ids[0] != ids[1] || ids[0] != ids[3] || ids[0] == ids[2] {
			t.Errorf("pushed are %q", ids)
		}
		wrong := first
		wrong.Digest = "sha256:" + strings.Repeat("0", 64)
		if _, _, err := images.Push(t.Context(), wrong, noReport); err == nil {
			t.Error("a disk that has changed is pushed")
		}
		facts, err := provider(t, func(s *openstack.Settings) { mine(s); s.Image = "bee:hpc" }).Probe(t.Context())
		if err != nil || facts.Detail["image"] != ids[0] {
			t.Errorf("%+v, %v", facts, err)
		}
		l, err := provider(t, func(s *openstack.Settings) { mine(s); s.Image = "bee:hpc" }).Acquire(t.Context(), driver.Request{Owner: owner("own"), Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		if removed, _, err := images.Remove(t.Context(), "hpc"); err != nil || len(removed) != 2 {
			t.Errorf("%+v, %v", removed, err)
		}
		if list, err := images.List(t.Context()); err != nil || len(list) > 0 {
			t.Errorf("left are %+v, %v", list, err)
		}
		wantNothing(t)
	})
	t.Run("lease of Blazar", func(t *testing.T) { // the last: the host is Blazar's from now on
		if err := f.Reserve(); err != nil {
			t.Fatal(err)
		}
		if _, err := provider(t, nil).Acquire(t.Context(), driver.Request{Owner: owner("outside"), Nodes: 1}); !core.IsKind(err, core.Busy) {
			t.Errorf("outside of a lease: %v", err)
		}
		reserve := func(cloud string) (driver.Lease, error) {
			return provider(t, func(s *openstack.Settings) {
				s.Name, s.Lease = cloud, &openstack.Lease{Kind: openstack.LeaseHost, Properties: map[string]string{"node_type": openstackfarm.NodeType}}
			}).Acquire(t.Context(), driver.Request{Owner: owner("blazar"), Nodes: 1})
		}
		if _, err := reserve(openstackfarm.Cloud); !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
			t.Errorf("by an application credential: %v", err)
		}
		l, err := reserve(openstackfarm.ByPassword)
		if err != nil {
			t.Fatal(err)
		}
		await(t, l)
		if err := f.EndLeases(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 3*time.Minute, func() error {
			st, err := l.Status(t.Context())
			if err == nil && (st.Live || st.End != core.HostsReclaimed) {
				err = fmt.Errorf("its status is %+v", st)
			}
			return err
		})
		testkit.Eventually(t, time.Minute, func() error { return l.Release(t.Context()) }) // Blazar refuses it while it ends the lease
		wantNothing(t)
	})
}
