package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// account is a cloud in memory. A call may crash its caller, before or after it was carried out.
type account struct {
	machines []*Machine
	tokens   map[string][]*Machine
	groups   map[string]Group
	places   map[string]PlacementKind // placement groups by their names
	serial   int
	// placement is what the site wants. scattered: no machines can be placed so; noPlaces is why no placement group can be made.
	placement Placement
	scattered bool
	noPlaces  error
	orders    []Order
	// left is how many calls there are until one crashes; below 0: none does.
	left  int
	after bool
	// unanswered is how many calls of Launched fail for a passing reason.
	unanswered int
	// unlisted is how many lists of machines there are until the first that has them.
	unlisted int
	// silent machines never answer, and console is what they print.
	silent  bool
	console string
	// larger are offers before the one that there always is, and refused are the errors of
	// checks by type.
	larger       []Offer
	refused      map[string]error
	reservations Reservations
	// prices are those of the price list by type; listed is how often that was asked, and listError its answer.
	prices    map[string]float64
	listed    int
	listError error
	// ends are why machines have ended, by their ids, and endsError is the answer to that question.
	ends      map[string]core.HostsEnd
	endsError error
	// prolonged are the addresses of machines that were asked to live longer.
	prolonged []string
}

var errCrash = errors.New("crash")

func newAccount() *account {
	return &account{tokens: map[string][]*Machine{}, groups: map[string]Group{}, places: map[string]PlacementKind{}, left: -1}
}

// call carries out a call that changes something, or crashes its caller.
func (a *account) call(f func()) {
	a.left--
	if a.left == -1 && !a.after {
		panic(errCrash)
	}
	f()
	if a.left == -1 {
		panic(errCrash)
	}
}

func (a *account) Check(_ context.Context, o Offer) error { return a.refused[o.Type] }

func (a *account) Offers(context.Context) ([]Offer, error) {
	return append(a.larger[:len(a.larger):len(a.larger)], Offer{Type: "small", Zone: "z", Image: "i", User: "ann", Arch: "amd64", Cores: 2, Memory: 4 << 30, Network: "n", Together: 5, Apart: 2}), nil
}

// Prices has the price of each offer, while the list answers.
func (a *account) Prices(_ context.Context, offers []Offer) (map[string]driver.Price, error) {
	a.listed++
	if a.listError != nil {
		return nil, a.listError
	}
	prices := map[string]driver.Price{}
	for _, o := range offers {
		if p, known := a.prices[o.Type]; known {
			prices[o.String()] = driver.Price{Amount: p, Currency: "USD", Source: driver.PriceOfList}
		}
	}
	return prices, nil
}

func (a *account) Launch(_ context.Context, o Order) (machines []Machine, err error) {
	a.call(func() {
		a.orders = append(a.orders, o)
		if a.scattered && o.PlacementGroup != "" {
			err = &core.Error{Kind: core.Busy, Op: "rent", Err: ErrNoCapacity}
			return
		}
		if a.tokens[o.Token] == nil {
			for i := range o.Nodes {
				a.serial++
				m := &Machine{ID: fmt.Sprint("m", a.serial), Index: i, State: Running, Address: fmt.Sprint("192.0.2.", a.serial), Owner: o.Owner}
				a.machines, a.tokens[o.Token] = append(a.machines, m), append(a.tokens[o.Token], m)
			}
		}
		machines = values(a.tokens[o.Token])
	})
	return machines, err
}

func values(machines []*Machine) (all []Machine) {
	for _, m := range machines {
		all = append(all, *m)
	}
	return all
}

func (a *account) Launched(_ context.Context, token string) (machines []Machine, err error) {
	a.call(func() {
		if a.unlisted <= 0 {
			machines = values(a.tokens[token])
		}
	})
	if a.unanswered > 0 {
		a.unanswered--
		return nil, &core.Error{Kind: core.Transient, Op: "list", Err: errors.New("the connection broke")}
	}
	return machines, nil
}

func (a *account) Owned(_ context.Context, q core.Owner) (machines []Machine, err error) {
	a.call(func() {
		a.unlisted--
		defer func() {
			for _, m := range a.machines {
				if m.State == Stopping {
					m.State = Stopped
				}
			}
		}()
		for _, m := range values(a.machines) {
			if m.Owner.Matches(q) && a.unlisted <= 0 {
				m.Address = "10.0.0." + m.Address[strings.LastIndex(m.Address, ".")+1:] // that in its network
				machines = append(machines, m)
			}
		}
	})
	return machines, nil
}

func (a *account) WhyEnded(_ context.Context, id string) (core.HostsEnd, error) {
	return a.ends[id], a.endsError
}

func (a *account) Console(context.Context, string) (string, error) { return a.console, nil }

func (a *account) End(_ context.Context, ids []string) error {
	a.call(func() { a.set(ids, Ended) })
	return nil
}

// Stop stops machines at the second look after it.
func (a *account) Stop(_ context.Context, ids []string) error {
	a.call(func() { a.set(ids, Stopping) })
	return nil
}

// set has machines be in a state.
func (a *account) set(ids []string, state State) {
	for _, m := range a.machines {
		if slices.Contains(ids, m.ID) {
			m.State = state
		}
	}
}

func (a *account) MakeGroup(_ context.Context, g Group) (Group, error) {
	a.call(func() { g.ID = "g-" + g.Name; a.groups[g.ID] = g })
	switch {
	case g.Placement.Kind == "":
		return g, nil
	case a.noPlaces != nil:
		return g, g.Placement.Refused(a.noPlaces)
	}
	a.call(func() { g.PlacementGroup = g.Name; a.places[g.Name] = g.Placement.Kind })
	return g, nil
}

func (a *account) Reservations() Reservations { return a.reservations }

func (a *account) Admit(_ context.Context, group string, from []string) error {
	a.call(func() { g := a.groups[group]; g.From = append(g.From, from...); a.groups[group] = g })
	return nil
}

func (a *account) Groups(_ context.Context, q core.Owner) (groups []Group, err error) {
	a.call(func() {
		for _, g := range a.groups {
			if g.Owner.Matches(q) {
				groups = append(groups, g)
			}
		}
	})
	return groups, nil
}

func (a *account) EndGroup(_ context.Context, g Group) (err error) {
	if g.Placement.Kind != "" {
		a.call(func() { delete(a.places, g.Name) })
	}
	a.call(func() {
		if machines, _ := a.live(); machines > 0 {
			err = &core.Error{Kind: core.Busy, Op: "end group", Object: g.ID, Err: errors.New("machines use it")}
			return
		}
		delete(a.groups, g.ID)
	})
	return err
}

// live is how many machines cost money, and how many groups of either kind there are.
func (a *account) live() (machines, groups int) {
	for _, m := range a.machines {
		if m.State != Ended {
			machines++
		}
	}
	return machines, len(a.groups) + len(a.places)
}

// standInHosts is the provider of machines that answer.
type standInHosts struct {
	driver.Provider
	c Connection
}

func (h standInHosts) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	l := standInLease{owner: r.Owner}
	for i, a := range h.c.Addresses {
		l.hosts = append(l.hosts, core.Host{Index: i, Name: a, Slots: 2, Dir: "/run"})
	}
	return l, nil
}

type standInLease struct {
	driver.Lease
	owner core.Owner
	hosts []core.Host
}

func (l standInLease) Hosts() []core.Host  { return l.hosts }
func (l standInLease) Handle() core.Handle { return core.Handle{Driver: "stand-in", Owner: l.owner} }
func (standInLease) Disconnect()           {}
func (standInLease) Fetch(context.Context, driver.Transfer) error {
	return &core.Error{Kind: core.Transient, Op: "fetch", Err: errors.New("nobody answers")}
}

const someKey = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTY="

func newProvider(t *testing.T, a *account, dir string, boot time.Duration) driver.Provider {
	t.Helper()
	p, err := New(Settings{
		Driver: "stand-in", Name: "s", Dir: dir, Slot: time.Hour, Boot: boot, Settle: time.Millisecond, Placement: a.placement,
		From: func(context.Context) ([]string, error) { return []string{"203.0.113.7/32"}, nil },
		Reach: Reach{
			Provider: func(c Connection) (driver.Provider, error) { return standInHosts{c: c}, nil },
			Moved:    func(inner core.Handle, _ Connection) (core.Handle, error) { return inner, nil },
			Output: func(_ context.Context, c Connection, address, command string) (string, error) {
				if command == prolongCommand {
					a.prolonged = append(a.prolonged, address)
					return "", nil
				}
				if a.silent {
					return "", &core.Error{Kind: core.Transient, Err: errors.New("nobody answers")}
				}
				for _, file := range []string{c.Key, c.KnownHosts} {
					if _, err := os.Stat(file); err != nil {
						return "", err
					}
				}
				return someKey + "\nhost-" + address[strings.LastIndex(address, ".")+1:] + "\n", nil
			},
		},
	}, a)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// crashes reports whether f crashed.
func crashes(t *testing.T, f func() error) (crashed bool) {
	t.Helper()
	defer func() {
		if v := recover(); v != nil {
			if v != errCrash { //nolint:errorlint // the very value
				panic(v)
			}
			crashed = true
		}
	}()
	if err := f(); err != nil {
		t.Error(err)
	}
	return false
}

var request = driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}, Nodes: 3}

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

// TestStartScript is a script of the shell, whole, and below what clouds take.
func TestStartScript(t *testing.T) {
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "", time.Unix(1800000000, 0), time.Unix(1800003600, 0))
	if err != nil || regexp.MustCompile("@[A-Z]+@").MatchString(text) || !strings.Contains(text, "1800000000") || len(text) > mostScript/2 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	c := exec.Command("/bin/sh", "-n")
	c.Stdin = strings.NewReader(text)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if _, err := script("ann; reboot", "KEY", "k", "", time.Now(), time.Now()); err == nil {
		t.Error("a user who is none is taken")
	}
}

// TestGuard powers the machine off at its expiry, also where a process cannot be had for a moment before; and only at
// the last moment while files are fetched.
func TestGuard(t *testing.T) {
	for fetching, looks := range map[string]string{"": "4\n", "echo /etc/bee/fetching": "5\n"} {
		guardEnds(t, fetching, looks)
	}
}

// guardEnds runs the guard with a stand-in for find, until it has powered the machine off.
func guardEnds(t *testing.T, find, looks string) {
	t.Helper()
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "", time.Unix(1800000000, 0), time.Unix(1800000001, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, guard, _ := strings.Cut(text, "/etc/bee/guard <<'END'\n")
	guard, _, found := strings.Cut(guard, "\nEND\n")
	if !found {
		t.Fatalf("no guard in %q", text)
	}
	bin := t.TempDir()
	for name, program := range map[string]string{
		"ip": "echo 169.254.169.254", "grep": "", "sysctl": "", "sync": "", "sleep": "", "find": find,
		// Twice there is no process, then the expiry is a moment away, and then it is reached.
		"date":     `n=$(/bin/cat "$0.n" 2>/dev/null || echo 0); echo $((n + 1)) >"$0.n"; [ "$n" -gt 1 ] || exit 1; echo $((1800000000 - 3 + n))`,
		"poweroff": `: >"$0.done"; kill -KILL "$PPID"`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", guard)
	c.Env = []string{"PATH=" + bin}
	out, _ := c.CombinedOutput() // poweroff kills it
	if _, err := os.Stat(filepath.Join(bin, "poweroff.done")); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if n, err := os.ReadFile(filepath.Join(bin, "date.n")); err != nil || string(n) != looks {
		t.Errorf("it has looked at the clock %q times, expected %q, %v", n, looks, err)
	}
}

// TestGuardWhoseWatchEnds: where nothing looks for the cloud's notice any more, the guard ends, and is started again.
func TestGuardWhoseWatchEnds(t *testing.T) {
	text, err := script("ann", "KEY", "ssh-ed25519 AAAA", "false", time.Unix(1800000000, 0), time.Unix(1800000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, guard, _ := strings.Cut(text, "/etc/bee/guard <<'END'\n")
	guard, _, _ = strings.Cut(guard, "\nEND\n")
	bin := t.TempDir()
	for name, program := range map[string]string{
		"ip": "echo 169.254.169.254", "grep": "", "sysctl": "", "date": "echo 1",
		"sleep": `[ "$1" -ne 1 ] || { kill -KILL "$PPID"; : >"$0.killed"; exit; }; exec /bin/sleep 0.02`,
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+program+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, "/bin/sh", "-c", guard)
	c.Env, c.WaitDelay = []string{"PATH=" + bin}, time.Second
	out, err := c.CombinedOutput()
	if _, serr := os.Stat(filepath.Join(bin, "sleep.killed")); serr != nil {
		t.Error(serr)
	}
	if c.ProcessState.ExitCode() != 1 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestWatch has the guard write what the cloud announces, and nothing else.
func TestWatch(t *testing.T) {
	dir := t.TempDir()
	notice := `n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) >n; echo "maintenance $((100 + n))"; [ $n -lt 2 ] || echo "notice 300"; echo "rebalance soon"; echo "../harm 1"; echo "rebalance -1"; [ $n -lt 3 ] || echo done >done`
	watch := strings.ReplaceAll(strings.Replace(watchScript, "@NOTICE@", notice, 1), "/etc/bee", dir)
	c := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(watch, "sleep 1", "[ ! -e done ] || exit; sleep 0.01")+"wait")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"notice": "300\n", "maintenance": "103\n", "rebalance": "", "../harm": ""} {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != want { // of what is not there nothing is read
			t.Errorf("%s has %q, expected %q", name, got, want)
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
