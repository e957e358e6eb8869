package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// ProviderSuite is what the conformance suite for providers needs to know.
type ProviderSuite struct {
	// New gives a provider of the site under test, each time the same site.
	// What it launches as a node is StandInNode.
	New func(t testing.TB) driver.Provider
	// Nodes is the number of hosts to ask for.
	Nodes int
	// Binary is given as Request.Binary.
	Binary string
	// Agents is set where an agent on the site launches nodes, whose account has Stray in
	// its environment.
	Agents bool
	// Rented is set where the site has no hosts, and no directories, before they are asked for.
	Rented bool
	// Free is set where these cost nothing: no inventory lists them.
	Free bool
}

// Run runs the suite.
func (s ProviderSuite) Run(t *testing.T) {
	t.Run("Probe", s.probe)
	t.Run("Directories", s.directories)
	t.Run("BurstBuffers", s.burstBuffers)
	t.Run("Acquire", s.acquire)
	t.Run("AcquireAtOnce", s.acquireAtOnce)
	t.Run("Refuse", s.refuse)
	t.Run("Launch", s.launch)
	t.Run("Transfer", s.transfer)
	t.Run("Matches", s.matches)
	t.Run("JobLinks", s.jobLinks)
	t.Run("Recover", s.recover)
	t.Run("Yield", s.yield)
	t.Run("Release", s.release)
	t.Run("Inventory", s.inventory)
	t.Run("Cancel", s.cancel)
	t.Run("Unattended", s.unattended)
}

func (s ProviderSuite) owner(t testing.TB) core.Owner {
	return core.Owner{User: "suite", Run: "run-" + filepath.Base(t.Name()) + "-" + time.Now().Format("150405.000000"), Attempt: 1}
}

func (s ProviderSuite) request(o core.Owner) driver.Request {
	return driver.Request{Owner: o, Nodes: s.Nodes, Binary: s.Binary}
}

func (s ProviderSuite) lease(t testing.TB) driver.Lease {
	t.Helper()
	return s.leaseOf(t, s.New(t), s.owner(t))
}

func (s ProviderSuite) leaseOf(t testing.TB, p driver.Provider, o core.Owner) driver.Lease {
	t.Helper()
	l, err := s.acquired(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Release(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return l
}

// acquired gets a lease, and waits for its hosts where the site has a queue.
func (s ProviderSuite) acquired(t testing.TB, p driver.Provider, o core.Owner) (driver.Lease, error) {
	t.Helper()
	l, err := p.Acquire(t.Context(), s.request(o))
	if err != nil {
		return nil, err
	}
	if q := l.Queue(); q != nil {
		testkit.Eventually(t, 60*time.Second, func() error {
			w, err := q.Ready(t.Context())
			if err == nil && !w.Ready {
				err = errors.New(w.Reason)
			}
			return err
		})
	}
	return l, err
}

func (s ProviderSuite) probe(t *testing.T) {
	f, err := s.New(t).Probe(t.Context())
	if err != nil || !f.Usable {
		t.Fatalf("%+v, %v", f, err)
	}
	if f.Slots < 1 && f.Slots != 0 || s.New(t).Info().Name == "" {
		t.Errorf("%+v", f)
	}
}

// burstBuffers: a site has none of an installation that there is not, and ends none that is not its own.
func (s ProviderSuite) burstBuffers(t *testing.T) {
	buffers := s.New(t).BurstBuffers()
	if buffers == nil {
		return
	}
	if list, err := buffers.Left(t.Context(), "nobody"); err != nil || len(list) > 0 {
		t.Errorf("of nobody: %+v, %v", list, err)
	}
	dir := t.TempDir()
	if _, err := buffers.End(t.Context(), driver.BurstBuffer{Owner: core.Owner{User: "nobody"}, Dir: dir}, true); err == nil {
		t.Error("a directory that is no burst buffer was ended")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}

func (s ProviderSuite) acquire(t *testing.T) {
	p, o := s.New(t), s.owner(t)
	l, err := s.acquired(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, l.Release(context.WithoutCancel(t.Context()))) }()
	if len(l.Hosts()) != s.Nodes {
		t.Fatalf("%d hosts, want %d", len(l.Hosts()), s.Nodes)
	}
	var f driver.Facts
	if s.Rented {
		if f, err = p.Probe(t.Context()); err != nil {
			t.Error(err)
		}
	}
	names := map[string]bool{}
	for i, h := range l.Hosts() {
		if h.Placement != f.Placement {
			t.Errorf("host %d is placed as %q, expected %q", i, h.Placement, f.Placement)
		}
		if h.Index != i || h.Slots < 1 || h.Arch == "" || !filepath.IsAbs(h.Dir) || !filepath.IsAbs(h.Cache) || h.Name == "" || names[h.Name] {
			t.Errorf("host %d: %+v", i, h)
		}
		names[h.Name] = true
		// Its Dir exists and is empty.
		got := filepath.Join(t.TempDir(), "dir")
		check(t, l.Fetch(t.Context(), driver.Transfer{Host: i, Remote: h.Dir, Local: got}))
		entries, err := os.ReadDir(got)
		check(t, err)
		if len(entries) > 0 {
			t.Errorf("host %d: Dir is not empty: %v", i, entries)
		}
		if st, err := os.Stat(got); err == nil && st.Mode().Perm()&0o077 != 0 {
			t.Errorf("host %d: Dir is open to others: %v", i, st.Mode())
		}
	}
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("status %+v, %v", st, err)
	}
	// The same owner gets the same lease.
	again, err := s.acquired(t, s.New(t), o)
	check(t, err)
	if !reflect.DeepEqual(again.Hosts(), l.Hosts()) || !reflect.DeepEqual(again.Handle(), l.Handle()) {
		t.Errorf("the second Acquire gave %+v, not %+v", again.Hosts(), l.Hosts())
	}
	s.wantListed(t, p, o, 1)
	s.wantListed(t, p, core.Owner{User: o.User, Run: o.Run}, 1)
	s.wantListed(t, p, core.Owner{User: "stranger", Run: o.Run}, 0)
	s.wantListed(t, p, core.Owner{User: o.User, Run: o.Run, Attempt: 2}, 0)
}

func (s ProviderSuite) wantListed(t *testing.T, p driver.Provider, q core.Owner, n int) {
	t.Helper()
	got, err := p.List(t.Context(), q)
	if err != nil || len(got) != n {
		t.Errorf("List(%v) gave %d handles (%v), want %d", q, len(got), err, n)
	}
}

func (s ProviderSuite) acquireAtOnce(t *testing.T) {
	o := s.owner(t)
	leases := make([]driver.Lease, 4)
	var wg sync.WaitGroup
	for i := range leases {
		wg.Go(func() {
			var err error
			leases[i], err = s.New(t).Acquire(t.Context(), s.request(o))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, l := range leases {
		if l == nil {
			t.FailNow()
		}
		// Not their hosts: a queue may have come to an end in between.
		if got, want := l.Handle(), leases[0].Handle(); !reflect.DeepEqual(got, want) {
			t.Errorf("callers at once got different leases: %+v and %+v", got, want)
		}
	}
	s.wantListed(t, s.New(t), o, 1)
	// And all of them may release it.
	for _, l := range leases {
		wg.Go(func() { check(t, l.Release(t.Context())) })
	}
	wg.Wait()
	s.wantListed(t, s.New(t), o, 0)
}

func (s ProviderSuite) refuse(t *testing.T) {
	p, o := s.New(t), s.owner(t)
	for name, r := range map[string]driver.Request{
		"too many hosts":  {Owner: o, Nodes: 100_000, Binary: s.Binary},
		"too many slots":  {Owner: o, Nodes: 1, SlotsPerNode: 1 << 20, Binary: s.Binary},
		"too much memory": {Owner: o, Nodes: 1, Memory: 1 << 50, Binary: s.Binary},
		"no hosts":        {Owner: o, Binary: s.Binary},
	} {
		if _, err := p.Acquire(t.Context(), r); err == nil {
			t.Errorf("%s: was granted", name)
		} else if r.Nodes > 0 && core.Remedy(err) == "" {
			t.Errorf("%s: no remedy in %v", name, err)
		}
	}
	s.wantListed(t, p, o, 0)
}

func (s ProviderSuite) recover(t *testing.T) {
	l := s.lease(t)
	h := l.Handle()
	s.start(t, l, 0, "before")
	r, err := s.New(t).Recover(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r.Hosts(), l.Hosts()) || !reflect.DeepEqual(r.Handle(), h) {
		t.Errorf("recovered %+v, want %+v", r.Hosts(), l.Hosts())
	}
	if st, err := r.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("status %+v, %v", st, err)
	}
	if got := s.ask(t, r, 0); got.Config != "before" {
		t.Errorf("the node answered %+v", got)
	}
	s.wantAlive(t, r, 0, true)
	check(t, r.Release(t.Context()))
	if _, err := s.New(t).Recover(t.Context(), h); !core.IsKind(err, core.NotFound) {
		t.Errorf("after Release: %v, want not found", err)
	}
}

// yield has the hosts go that others wait for, and what is there stay, out of the
// way of the run's next lease, which may take it over.
func (s ProviderSuite) yield(t *testing.T) {
	if s.Rented {
		t.Skip("no file outlives machines that are rented")
	}
	p, o := s.New(t), s.owner(t)
	l := s.leaseOf(t, p, o)
	y := l.VolumeReuse()
	if y == nil {
		return
	}
	local := filepath.Join(t.TempDir(), "state")
	check(t, os.WriteFile(local, []byte("saved"), 0o600))
	check(t, l.Stage(t.Context(), driver.Transfer{Local: local, Remote: filepath.Join(l.Hosts()[0].Dir, "state")}))
	for range 2 {
		check(t, y.LendVolume(t.Context()))
	}
	remote := filepath.Join(l.Hosts()[0].Dir, "state")
	if st, err := l.Status(t.Context()); err != nil || st.Live && !l.Deadline().IsZero() {
		t.Errorf("still held: %+v, %v", st, err)
	}
	check(t, os.Remove(local))
	check(t, l.Fetch(t.Context(), driver.Transfer{Remote: remote, Local: local}))
	if raw, err := os.ReadFile(local); err != nil || string(raw) != "saved" {
		t.Errorf("what stayed is %q, %v", raw, err)
	}
	o.Attempt++
	next := s.leaseOf(t, p, o)
	at := filepath.Join(next.Hosts()[0].Dir, "below", "state")
	if reuser := next.VolumeReuse(); reuser != nil {
		lent, dir := driver.Transfer{Remote: remote, Within: filepath.Dir(remote)}, next.Hosts()[0].Dir
		if found, err := y.Look(t.Context(), lent); err != nil || found != (driver.Lent{Bytes: 5}) {
			t.Errorf("what is lent is %+v, %v", found, err)
		}
		if _, err := y.Look(t.Context(), driver.Transfer{Remote: remote + "2", Within: filepath.Dir(remote)}); !core.IsKind(err, core.NotFound) {
			t.Errorf("what is not there is lent: %v", err)
		}
		for range 2 {
			check(t, reuser.CopyTree(t.Context(), lent, filepath.Join(dir, "via", "state"), filepath.Join(dir, "copies", "state")))
		}
		check(t, next.Fetch(t.Context(), driver.Transfer{Remote: filepath.Join(dir, "copies"), Local: local + "2"}))
		if raw, err := os.ReadFile(filepath.Join(local+"2", "state")); err != nil || string(raw) != "saved" {
			t.Errorf("the copy is %q, %v", raw, err)
		}
		for range 2 {
			check(t, reuser.ReuseVolume(t.Context(), remote, at))
		}
		if err := reuser.ReuseVolume(t.Context(), remote, at+"2"); !core.IsKind(err, core.NotFound) {
			t.Errorf("a volume that is gone is reused: %v", err)
		}
	} else {
		check(t, next.Stage(t.Context(), driver.Transfer{Local: local, Remote: at}))
	}
	check(t, l.Release(t.Context()))
	check(t, os.Remove(local))
	check(t, next.Fetch(t.Context(), driver.Transfer{Remote: at, Local: local}))
	if raw, err := os.ReadFile(local); err != nil || string(raw) != "saved" {
		t.Errorf("what the next one has is %q, %v", raw, err)
	}
}

func (s ProviderSuite) release(t *testing.T) {
	p, o := s.New(t), s.owner(t)
	l, err := s.acquired(t, p, o)
	if err != nil {
		t.Fatal(err)
	}
	var nodes []*standIn
	for i := range l.Hosts() {
		nodes = append(nodes, s.start(t, l, i, "x"))
	}
	for range 3 {
		check(t, l.Release(t.Context()))
		s.wantListed(t, p, o, 0)
	}
	for _, n := range nodes {
		n.wantEnd(t)
	}
	if st, err := l.Status(t.Context()); err == nil && st.Live {
		t.Error("still live")
	}
	// The same owner can have a new one, which is empty again.
	l, err = s.acquired(t, p, o)
	check(t, err)
	got := filepath.Join(t.TempDir(), "dir")
	check(t, l.Fetch(t.Context(), driver.Transfer{Host: 0, Remote: l.Hosts()[0].Dir, Local: got}))
	if entries, err := os.ReadDir(got); err != nil || len(entries) > 0 {
		t.Errorf("left in Dir: %v, %v", entries, err)
	}
	check(t, l.Release(t.Context()))
}

// cancel ends Acquire at random moments: what is left can be listed, and
// released from there. Behind a connection it may only begin when its caller has
// gone; what it makes then, it removes by itself.
func (s ProviderSuite) cancel(t *testing.T) {
	for i := range 8 {
		p, o := s.New(t), s.owner(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*time.Millisecond)
		l, err := p.Acquire(ctx, s.request(o))
		cancel()
		if err == nil {
			check(t, l.Release(t.Context()))
		}
		handles, err := p.List(t.Context(), o)
		check(t, err)
		for _, h := range handles {
			l, err := p.Recover(t.Context(), h)
			if core.IsKind(err, core.NotFound) { // removed by itself since
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			check(t, l.Release(t.Context()))
		}
		testkit.Eventually(t, 10*time.Second, func() error {
			left, err := p.List(t.Context(), o)
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("left of %v: %v", o, left)
			}
			return err
		})
	}
}

// unattended stages a launch spec on a site that can execute it: the site does so once
// they are in force, not before, and with no controller there.
func (s ProviderSuite) unattended(t *testing.T) {
	if s.Rented {
		t.Skip("hosts of this site are there at once, or not at all")
	}
	p, o := s.New(t), s.owner(t)
	l, err := p.Acquire(t.Context(), s.request(o))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, l.Release(context.WithoutCancel(t.Context()))) }()
	launchSpec := func(word string) []byte {
		raw, err := json.Marshal(slices.Repeat([]string{word}, s.Nodes))
		check(t, err)
		return raw
	}
	u := l.Autostart()
	if u != nil {
		err = u.StageSpec(t.Context(), launchSpec("torn"))
	}
	if u == nil || core.IsKind(err, core.Unsupported) {
		t.Skip("hosts of this site are there at once, or not at all")
	}
	check(t, err)
	l, err = s.acquired(t, s.New(t), o) // by another, who brings it to its end
	check(t, err)
	if _, err := l.Dial(t.Context(), 0, socketPath(l.Hosts()[0])); !core.IsKind(err, core.NotFound) {
		t.Errorf("with a launch spec that is not enabled a node answers: %v", err)
	}
	u = l.Autostart()
	check(t, u.StageSpec(t.Context(), launchSpec("whole")))
	for range 2 {
		check(t, u.EnableSpec(t.Context()))
	}
	for i, h := range l.Hosts() {
		if n := s.ask(t, l, i); n.Config != "whole on "+h.Name {
			t.Errorf("the node on host %d has %q", i, n.Config)
		}
	}
	check(t, l.Release(t.Context()))
	if err := u.EnableSpec(t.Context()); !core.IsKind(err, core.NotFound) {
		t.Errorf("launch spec of a released lease: %v, want not found", err)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func (s ProviderSuite) wantAlive(t *testing.T, l driver.Lease, host int, want bool) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		alive, err := l.NodeAlive(t.Context(), host)
		if err == nil && alive != want {
			return errStillSo
		}
		return err
	})
}
