package openstack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// hosts has a site reserve hosts.
func hosts(c *openstack.Settings) {
	c.Types = []string{openstackserver.Metal}
	c.Lease = &openstack.Lease{Kind: openstack.LeaseHost, Properties: map[string]string{"node_type": openstackserver.NodeType}}
}

// await looks at the queue of a lease until its hosts are there.
func await(t *testing.T, l driver.Lease) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		w, err := l.Queue().Ready(t.Context())
		if err == nil && !w.Ready {
			err = errors.New(w.Reason)
		}
		if err == nil && w.Billed.IsZero() {
			t.Error("the hosts are not billed from the start of the reservation on")
		}
		return err
	})
}

// TestLeaseOfBlazar waits for its start, has machines that end with it, and is ended with the run.
func TestLeaseOfBlazar(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	dir := t.TempDir()
	later := func(c *openstack.Settings) {
		hosts(c)
		c.Lease.Start = time.Now().Add(2 * time.Hour)
	}
	l, err := site(t, s, dir, later).Acquire(t.Context(), driver.Request{Owner: owner("lease"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	wantLeft(t, s, "group", "lease")
	w, err := l.Queue().Ready(t.Context())
	if err != nil || w.Ready || time.Until(w.Expected) < time.Hour || len(l.Hosts()) != 0 {
		t.Fatalf("before its start: %+v, %v", w, err)
	}
	if l, err = site(t, s, dir, later).Recover(t.Context(), l.Handle()); err != nil { // another process waits for it
		t.Fatal(err)
	}
	s.StartLeases()
	await(t, l)
	if left := time.Until(l.Deadline()); len(l.Hosts()) != 2 || left < 3*time.Hour || left > 3*time.Hour+10*time.Minute {
		t.Errorf("there are hosts %+v for %s", l.Hosts(), left)
	}
	wantLeft(t, s, "floating", "group", "lease", "server", "server")
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("it lives not: %+v, %v", st, err)
	}
	s.EndLeases(0)
	testkit.Eventually(t, time.Minute, func() error {
		st, err := l.Status(t.Context())
		if err == nil && (st.Live || st.End != core.HostsReclaimed || !strings.Contains(st.Reason, "TERMINATED")) {
			err = fmt.Errorf("its status is %+v", st)
		}
		return err
	})
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantLeft(t, s)
}

// ownEnd reports whether a machine has a start script by which it ends itself at a time.
func ownEnd(t *testing.T, s *openstackserver.Server, at time.Time) bool {
	t.Helper()
	scripts, err := filepath.Glob(filepath.Join(s.Files(), "*", "user-data"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(scripts, func(name string) bool {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return strings.Contains(string(raw), fmt.Sprintf("((%d - now))", at.Unix()))
	})
}

// TestLateStart: where machines are rented late in a lease, or its end has been changed, it is extended, and the machines
// live for a whole slot from then on. One that can be no longer has its own end as theirs.
func TestLateStart(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*openstack.Settings)
		next   bool // others have the hosts from its end on
		left   time.Duration
	}{
		"extended":                      {func(*openstack.Settings) {}, false, time.Hour},
		"others have the hosts":         {func(*openstack.Settings) {}, true, 10 * time.Minute},
		"what a run costs is limited":   {func(o *openstack.Settings) { o.Cloud.Limited = true }, false, 10 * time.Minute},
		"nothing is left that computes": {func(o *openstack.Settings) { o.Cloud.Limited, o.Cloud.Keep = true, time.Hour }, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := openstackserver.Start(t)
			s.Use(t)
			l, err := site(t, s, t.TempDir(), func(o *openstack.Settings) { hosts(o); c.change(o) }).Acquire(t.Context(), driver.Request{Owner: owner("late"), Nodes: 1})
			if err != nil {
				t.Fatal(err)
			}
			s.StartLeases()
			s.EndLeases(40 * time.Minute)
			if c.next {
				s.Reserve("next", 2, time.Now().Add(24*time.Hour))
			}
			if c.left == 0 {
				if _, err := l.Queue().Ready(t.Context()); !core.IsKind(err, core.Lost) || core.Remedy(err) == "" {
					t.Errorf("it waits with %v", err)
				}
				wantLeft(t, s, "group", "lease")
			} else {
				await(t, l)
				if left := time.Until(l.Deadline()); left < c.left-time.Minute || left > c.left+8*time.Minute {
					t.Errorf("the hosts are there for %s", left)
				}
				if ends := l.Deadline().Add(cloud.Settings{}.WithDefaults().Keep); !ownEnd(t, s, ends) {
					t.Errorf("no machine ends itself at %s", ends)
				}
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLeaseByApplicationCredential: where Keystone lets Blazar not act for its user, the error has what to do.
func TestLeaseByApplicationCredential(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	s.Restrict()
	_, err := site(t, s, t.TempDir(), hosts).Acquire(t.Context(), driver.Request{Owner: owner("delegated"), Nodes: 1})
	if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	wantLeft(t, s)
}

// TestKindsOfLeases are each launched into, and gone with the run; one of the user's is used and stays.
func TestKindsOfLeases(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	for _, lease := range []openstack.Lease{{Kind: openstack.LeaseInstance}, {Kind: openstack.LeaseFlavor}, {Name: "mine"}} {
		var stays []string
		if lease.Name != "" {
			s.Reserve("mine", 1, time.Now().Add(3*time.Hour))
			stays = []string{"lease"}
		} else {
			s.Drop("POST /reservation/v1/leases", true) // its answer is lost
		}
		p := site(t, s, t.TempDir(), func(c *openstack.Settings) {
			if c.Lease = &lease; lease.Name != "" {
				c.Types = []string{openstackserver.Metal}
			}
		})
		l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("kind"), Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		wantLeft(t, s, "group", "lease")
		await(t, l)
		wantLeft(t, s, "floating", "group", "lease", "server")
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
		wantLeft(t, s, stays...)
	}
	// A run that was forgotten while it waited.
	p := site(t, s, t.TempDir(), func(c *openstack.Settings) { c.Lease = &openstack.Lease{Kind: openstack.LeaseFlavor} })
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("forgotten"), Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := driver.ReleaseOwned(t.Context(), site(t, s, t.TempDir(), nil), core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s, "lease")
	if _, err := l.Queue().Ready(t.Context()); !core.IsKind(err, core.Lost) {
		t.Errorf("it waits with %v", err)
	}
}

// TestLeasesThatCannotBe are refused before anything is made, with a remedy.
func TestLeasesThatCannotBe(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	s.Reserve("short", 2, time.Now().Add(time.Hour))
	s.Reserve("twice", 1, time.Now().Add(9*time.Hour))
	s.Reserve("twice", 1, time.Now().Add(9*time.Hour))
	for name, c := range map[string]struct {
		change func(*openstack.Lease)
		word   string
	}{
		"ends before the slot": {func(l *openstack.Lease) { *l = openstack.Lease{Name: "short"} }, "ends at"},
		"unknown":              {func(l *openstack.Lease) { *l = openstack.Lease{Name: "shor"} }, `"short"`},
		"of two":               {func(l *openstack.Lease) { *l = openstack.Lease{Name: "twice"} }, "2 leases"},
		"in the past":          {func(l *openstack.Lease) { l.Start = time.Now().Add(-time.Hour) }, "past"},
	} {
		p := site(t, s, t.TempDir(), func(o *openstack.Settings) { hosts(o); c.change(o.Lease) })
		f, err := p.Probe(t.Context())
		if err != nil || f.Usable || f.Remedy == "" || !strings.Contains(f.Reason, c.word) {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	wantLeft(t, s, "lease", "lease", "lease")
	s.EndLeases(0)
	for name, c := range map[string]struct {
		change func(*openstack.Settings)
		nodes  int
		kind   core.Kind
	}{
		"longer than allowed": {func(o *openstack.Settings) { o.Cloud.Slot = 8 * 24 * time.Hour }, 1, core.Unsupported},
		"no such hosts":       {func(o *openstack.Settings) { o.Lease.Properties["node_type"] = "other" }, 1, core.Busy},
		"too many":            {func(*openstack.Settings) {}, 3, core.Busy},
	} {
		p := site(t, s, t.TempDir(), func(o *openstack.Settings) { hosts(o); c.change(o) })
		if _, err := p.Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: c.nodes}); !core.IsKind(err, c.kind) || core.Remedy(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantLeft(t, s, "lease", "lease", "lease")
}
