package cloud

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
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
	// others are what there is besides, and othersError is the answer to that question.
	others      []driver.Rented
	othersError error
	// endOtherError is the answer to an end of one of others.
	endOtherError error
	// images are those that there are, uploads is how many were sent, and uploadError and registerError end one.
	images                     []driver.MachineImage
	uploads                    int
	uploadError, registerError error
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

// Types has a type in two zones, and one of spot machines.
func (a *account) Types(context.Context, []string) ([]Offer, error) {
	small := Offer{Type: "small", Arch: "amd64", Cores: 2, Memory: 4 << 30}
	inA, inB, spot := small, small, small
	inA.Zone, inB.Zone, spot.Zone, spot.Spot = "a", "b", "b", true
	return []Offer{inA, inB, spot, {Type: "large", Zone: "a", Cores: 4}}, nil
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
				m := &Machine{ID: fmt.Sprint("m", a.serial), Index: i, State: Running, Address: fmt.Sprint("192.0.2.", a.serial), Owner: o.Owner, Type: o.Offer.Type, Zone: o.Offer.Zone, Expires: o.Expires}
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

func (a *account) Others(_ context.Context, q core.Owner) (found []driver.Rented, err error) {
	for _, o := range a.others {
		if o.Owner.Matches(q) || o.Owner == (core.Owner{}) {
			found = append(found, o)
		}
	}
	return found, a.othersError
}

func (a *account) EndOther(_ context.Context, o driver.Rented) error {
	if a.endOtherError != nil {
		return a.endOtherError
	}
	a.call(func() { a.others = slices.DeleteFunc(a.others, func(x driver.Rented) bool { return x.ID == o.ID }) })
	return nil
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

// Images implements API: the account itself keeps them.
func (a *account) Images() Images { return keptImages{a} }

// keptImages are an account's images. An upload takes several calls, and leaves what it has come to.
type keptImages struct{ a *account }

func (k keptImages) List(context.Context) ([]driver.MachineImage, error) {
	return slices.Clone(k.a.images), nil
}

func (k keptImages) at(id string) int {
	return slices.IndexFunc(k.a.images, func(i driver.MachineImage) bool { return i.ID == id })
}

func (k keptImages) Upload(ctx context.Context, like driver.MachineImage, d driver.MachineDisk, report func(done, total int64)) (driver.MachineImage, error) {
	a := k.a
	if !like.Uploaded {
		a.call(func() {
			a.serial++
			like.ID = fmt.Sprint("part", a.serial)
			part := like
			part.Pushed = time.Time{}
			a.images = append(a.images, part)
		})
		a.uploads++
		report(d.Size/2, d.Size)
		if a.uploadError != nil {
			return like, a.uploadError
		}
		a.call(func() { a.images[k.at(like.ID)].Uploaded = true })
		like.Uploaded = true
	}
	if a.registerError != nil {
		return like, a.registerError
	}
	a.call(func() {
		a.images[k.at(like.ID)].Whole = true
		a.images[k.at(like.ID)].Pushed = like.Pushed
	})
	like.Whole = true
	return like, nil
}

func (k keptImages) Prefer(_ context.Context, i driver.MachineImage, pushed time.Time) error {
	k.a.call(func() { k.a.images[k.at(i.ID)].Pushed = pushed })
	return nil
}

func (k keptImages) End(_ context.Context, i driver.MachineImage) error {
	k.a.call(func() {
		k.a.images = slices.DeleteFunc(k.a.images, func(o driver.MachineImage) bool { return o.ID == i.ID })
	})
	return nil
}
