package cloud

import (
	"context"
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
	"github.com/bee-hpc/bee/internal/testkit"
)

// acquired returns a provider, and a lease of the request's machines.
func acquired(t *testing.T, a *account, dir string) (*provider, *lease) {
	t.Helper()
	testkit.RequireTool(t, "ssh-keygen")
	p := newProvider(t, a, dir, time.Minute)
	l, err := p.Acquire(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return p.(*provider), l.(*lease)
}

// TestCrashAtEachCall crashes at each call of Acquire and Release, with a placement group and without. A release by what the
// cloud and the record know leaves nothing, and a repeated Acquire has as many machines as were asked for.
func TestCrashAtEachCall(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	for _, kind := range []PlacementKind{"", Cluster} {
		crashAtEachCall(t, Placement{Kind: kind})
	}
}

func crashAtEachCall(t *testing.T, placement Placement) {
	wanted := 1 // groups
	if placement.Kind != "" {
		wanted++
	}
	acquire := func(p driver.Provider) func() error {
		return func() error { _, err := p.Acquire(t.Context(), request); return err }
	}
	release := func(p driver.Provider) func() error {
		return func() error { return driver.ReleaseOwned(t.Context(), p, core.Owner{User: "u"}, "u") }
	}
	for _, after := range []bool{false, true} {
		for n, crashed := 1, true; crashed; n++ {
			a, dir := newAccount(), t.TempDir()
			a.left, a.after, a.placement = n, after, placement
			crashed = crashes(t, acquire(newProvider(t, a, dir, time.Minute)))
			a.left = -1
			if n%2 == 0 || n == 1 { // every other time the run is continued
				crashes(t, acquire(newProvider(t, a, dir, time.Minute)))
				if machines, groups := a.live(); machines != request.Nodes || groups != wanted {
					t.Errorf("after a crash at call %d, %d machines in %d groups were rented", n, machines, groups)
				}
			}
			for m, again := 1, true; again; m++ { // and the release crashes, too
				a.left, a.after = m, after
				again = crashes(t, release(newProvider(t, a, dir, time.Minute)))
			}
			a.left = -1
			if machines, groups := a.live(); machines != 0 || groups != 0 {
				t.Errorf("after a crash at call %d, %d machines and %d groups are left", n, machines, groups)
			}
			if left, err := os.ReadDir(filepath.Join(dir, "leases")); err == nil && len(left) > 0 {
				t.Errorf("after a crash at call %d, %d records are left", n, len(left))
			}
		}
	}
}

// TestReleaseOfMachinesListedLate ends machines of which nothing is known but that their group is in use, once
// they are listed; and at once those whose ids are known.
func TestReleaseOfMachinesListedLate(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	for _, left := range []int{3, -1} { // it crashes while it rents, or not
		a, dir := newAccount(), t.TempDir()
		a.left, a.after = left, true
		p := newProvider(t, a, dir, time.Minute)
		crashes(t, func() error { _, err := p.Acquire(t.Context(), request); return err })
		if machines, _ := a.live(); machines != request.Nodes {
			t.Fatalf("%d machines were rented", machines)
		}
		a.left, a.unlisted = -1, 6
		if err := driver.ReleaseOwned(t.Context(), p, core.Owner{User: "u"}, "u"); err != nil {
			t.Error(err)
		}
		if machines, groups := a.live(); machines != 0 || groups != 0 {
			t.Errorf("%d machines and %d groups are left", machines, groups)
		}
	}
}

// TestUsableOffer: a site is usable by any of its types.
func TestUsableOffer(t *testing.T) {
	quota := &core.Error{Kind: core.Unsupported, Op: "rent", Object: "large", Err: errors.New("the quota is too small")}
	for name, c := range map[string]struct {
		refused map[string]error
		usable  bool
		text    string
	}{
		"the first":              {nil, true, "large"},
		"the second":             {map[string]error{"large": quota}, true, "small"},
		"none":                   {map[string]error{"large": quota, "small": &core.Error{Kind: core.Unsupported, Op: "rent", Object: "small"}}, false, "large"},
		"the account is refused": {map[string]error{"large": &core.Error{Kind: core.Permanent, Op: "log in"}}, false, "log in"},
	} {
		a := newAccount()
		a.larger, a.refused = []Offer{{Type: "large", Zone: "z", Cores: 64, Memory: 1 << 40}}, c.refused
		f, err := newProvider(t, a, t.TempDir(), time.Minute).Probe(t.Context())
		if err != nil || f.Usable != c.usable || !strings.Contains(f.Reason, c.text) {
			t.Errorf("%s: got %+v, %v", name, f, err)
		}
	}
}

// TestFence returns once the machines are seen stopped. That they are not listed is no proof, unless they were rented
// long ago.
func TestFence(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	a.machines[2].Owner.Run, a.tokens[l.r.Token] = "none", nil
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := l.Fencer().Fence(ctx); err == nil {
		t.Error("a machine that is listed late counts as stopped")
	}
	if a.machines[0].State != Stopped || a.machines[2].State != Running {
		t.Errorf("their states are %s and %s", a.machines[0].State, a.machines[2].State)
	}
	l.r.Launched = time.Now().Add(-time.Hour)
	if err := l.Fencer().Fence(t.Context()); err != nil {
		t.Error(err)
	}
	if st, err := l.Status(t.Context()); err != nil || st.Live {
		t.Errorf("it lives: %+v, %v", st, err)
	}
}

// TestFenceAfterAFailedOperation: what a failed operation left may compute, until it is seen stopped.
func TestFenceAfterAFailedOperation(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	a.set([]string{a.machines[0].ID}, Failed)
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("it counts as ended: %+v, %v", st, err)
	}
	if err := l.Fencer().Fence(t.Context()); err != nil || a.machines[0].State != Stopped {
		t.Errorf("its state is %s, %v", a.machines[0].State, err)
	}
}

// TestNewAddress has this machine in another network than at the launch.
func TestNewAddress(t *testing.T) {
	a := newAccount()
	p, l := acquired(t, a, t.TempDir())
	const now = "198.51.100.9/32"
	p.s.From = func(context.Context) ([]string, error) { return []string{now}, nil }
	for range 2 { // the second is too soon
		if st, err := l.Status(t.Context()); err != nil || !st.Live {
			t.Errorf("got %+v, %v", st, err)
		}
	}
	if got := a.groups[l.r.Group].From; len(got) != 2 || got[1] != now {
		t.Errorf("ssh is admitted from %q", got)
	}
	if got := l.r.Addresses; !slices.Equal(got, []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}) {
		t.Errorf("the machines are reached at %q", got)
	}
}

// TestFenceWithoutAdmission stops no machine that may not have admitted this one.
func TestFenceWithoutAdmission(t *testing.T) {
	a := newAccount()
	p, l := acquired(t, a, t.TempDir())
	p.s.From = func(context.Context) ([]string, error) { return nil, errors.New("the address cannot be found") }
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("got %+v, %v", st, err)
	}
	if err := l.Fencer().Fence(t.Context()); !core.IsKind(err, core.Transient) || a.machines[0].State != Running {
		t.Errorf("its state is %s, %v", a.machines[0].State, err)
	}
}

// TestReclaimedMachines: why machines have ended is known also once another process has removed what was left of them.
// Of machines that bee itself has ended it is not.
func TestReclaimedMachines(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	_, l := acquired(t, a, dir)
	for i, m := range a.machines {
		if m.State = Ended; i == 1 { // the others by a call, as one machine does not compute alone
			m.End = core.HostsReclaimed
		} else {
			m.End = core.HostsEnded
		}
	}
	want := func(when string, end core.HostsEnd) {
		t.Helper()
		if st, err := l.Status(t.Context()); err != nil || st.Live || st.End != end || st.Reason == "" {
			t.Errorf("%s: got %+v, %v", when, st, err)
		}
	}
	want("seen by its controller", core.HostsReclaimed)
	if _, err := newProvider(t, a, dir, time.Minute).Recover(t.Context(), l.Handle()); !core.IsKind(err, core.NotFound) || core.HostsEndOf(err) != core.HostsReclaimed {
		t.Errorf("recovered with %v", err)
	}
	if _, err := os.Stat(l.dir); err == nil {
		t.Fatal("the record is still there")
	}
	want("seen after another process", core.HostsReclaimed)
	a.machines[1].End = core.HostsEnded
	want("ended by bee", "")
	a.tokens[l.r.Token] = nil
	want("not listed any more", "")
}

// TestForgottenMachine is one that ended so long ago that the cloud does not list it any more. One that was rented
// a moment ago is only listed late.
func TestForgottenMachine(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	a.machines[1].Owner.Run, a.tokens[l.r.Token] = "none", nil
	if st, err := l.Status(t.Context()); err != nil || !st.Live {
		t.Errorf("listed late: %+v, %v", st, err)
	}
	if err := l.Fetch(t.Context(), driver.Transfer{Host: 1}); !core.IsKind(err, core.Transient) {
		t.Errorf("listed late, fetched with %v", err)
	}
	l.r.Launched = time.Now().Add(-time.Hour)
	if st, err := l.Status(t.Context()); err != nil || st.Live || !strings.Contains(st.Reason, l.r.Machines[1]) {
		t.Errorf("forgotten: %+v, %v", st, err)
	}
	for host, kind := range []core.Kind{core.Transient, core.NotFound} {
		if err := l.Fetch(t.Context(), driver.Transfer{Host: host}); !core.IsKind(err, kind) {
			t.Errorf("fetched from machine %d with %v", host, err)
		}
	}
}

// TestOtherAccount has another account's credentials, or another region, in use: that nothing is listed there is
// no proof that the machines are gone.
func TestOtherAccount(t *testing.T) {
	a, dir := newAccount(), t.TempDir()
	_, l := acquired(t, a, dir)
	other := newProvider(t, newAccount(), dir, time.Minute)
	if _, err := other.Recover(t.Context(), l.Handle()); !core.IsKind(err, core.Transient) || core.Remedy(err) == "" {
		t.Errorf("recovered with %v", err)
	}
	if err := driver.ReleaseOwned(t.Context(), other, core.Owner{User: "u"}, "u"); !core.IsKind(err, core.Transient) {
		t.Errorf("released with %v", err)
	}
	p := newProvider(t, a, dir, time.Minute)
	if _, err := p.Recover(t.Context(), l.Handle()); err != nil {
		t.Error(err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if machines, groups := a.live(); machines != 0 || groups != 0 {
		t.Errorf("%d machines and %d groups are left", machines, groups)
	}
}

// TestFetchNearTheExpiry has the machine live until what it has is fetched.
func TestFetchNearTheExpiry(t *testing.T) {
	a := newAccount()
	_, l := acquired(t, a, t.TempDir())
	for _, left := range []time.Duration{time.Hour, time.Second} {
		l.r.Expires = time.Now().Add(left)
		l.Fetch(t.Context(), driver.Transfer{Host: 1}) //nolint:errcheck // nobody answers
		if want := left < time.Minute; want != slices.Equal(a.prolonged, []string{"192.0.2.2"}) {
			t.Errorf("with %s left, asked were %q", left, a.prolonged)
		}
	}
}

// TestSilentMachines are ended, and the error has what they wrote last.
func TestSilentMachines(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	a := newAccount()
	a.silent, a.console = true, "Kernel panic - not syncing"
	_, err := newProvider(t, a, t.TempDir(), time.Millisecond).Acquire(t.Context(), request)
	if !core.IsKind(err, core.Transient) || !strings.Contains(err.Error(), a.console) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	if machines, groups := a.live(); machines != 0 || groups != 0 {
		t.Errorf("%d machines and %d groups are left", machines, groups)
	}
}

// TestHostsAreNamedAsTheyNameThemselves, and the key of the start script is forgotten. A cloud that does not
// answer for a moment meanwhile costs nothing.
func TestHostsAreNamedAsTheyNameThemselves(t *testing.T) {
	a := newAccount()
	a.unanswered = 2
	_, l := acquired(t, a, t.TempDir())
	for i, h := range l.Hosts() {
		if h.Name != fmt.Sprint("host-", i+1) {
			t.Errorf("host %d is %q", i, h.Name)
		}
	}
	known, err := os.ReadFile(filepath.Join(l.dir, knownFile))
	if err != nil || strings.Contains(string(known), "ed25519") || strings.Count(string(known), someKey) != request.Nodes {
		t.Errorf("known hosts are %q, %v", known, err)
	}
	if left := time.Until(l.Deadline()); left < time.Hour || left > time.Hour+time.Minute {
		t.Errorf("the deadline is in %v", left)
	}
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string]answered{
		someKey + "\nip-1\n": {someKey, "ip-1"}, someKey + " root@x\nip-1\n": {someKey, "ip-1"}, someKey + "\na b\n": {key: someKey},
		someKey + "\n-o\n": {key: someKey}, "": {}, "ssh-rsa AAAA\nip-1\n": {}, "* " + someKey + "\nip-1\n": {}, "ssh-ed25519 AA@revoked\nx\n": {},
	} {
		if got, err := parseAnswer(text); got != want || (err == nil) != (want.key != "") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}

// TestReservationOfASiteThatReservesNoMore is of a sites file that has changed since.
func TestReservationOfASiteThatReservesNoMore(t *testing.T) {
	l := &lease{p: newProvider(t, newAccount(), t.TempDir(), time.Minute).(*provider), r: &record{Reservation: "r-1"}}
	if _, err := l.p.reserved(t.Context(), "r-1"); !core.IsKind(err, core.Permanent) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	if st := l.p.why(t.Context(), l.r, Machine{ID: "m", State: Ended}); st.End != "" {
		t.Errorf("its machines are gone as %+v", st)
	}
}
