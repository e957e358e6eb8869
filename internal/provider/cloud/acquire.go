package cloud

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Acquire implements driver.Provider. An earlier call that was killed is continued from its record.
func (p *provider) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if r.Nodes < 1 {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: p.s.Name, Err: fmt.Errorf("%d nodes cannot be had", r.Nodes), Remedy: "Correct `nodes:`."}
	}
	dir := p.kind.Dir(p.s.Dir, r.Owner)
	rec, err := read(dir, r.Owner)
	if err != nil {
		return nil, err
	}
	var offers []Offer
	if !rec.ready() { // before anything is made
		if offers, err = p.fitting(ctx, r); err != nil {
			return nil, err
		}
	}
	unlock, err := p.lock(ctx, dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	rec, err = read(dir, r.Owner) // another may have been quicker
	if err != nil {
		return nil, err
	}
	if rec.ready() {
		return newLease(p, r.Owner, dir, rec, nil), nil
	}
	l, err := p.acquire(ctx, dir, rec, r, offers)
	if err == nil {
		return l, nil
	}
	if context.Cause(ctx) != nil { // its owner finds by List what is there
		return nil, err
	}
	return nil, leasedir.Undo(ctx, err, dir, r.Owner, func(ctx context.Context) error { return p.end(ctx, r.Owner, dir) })
}

func (p *provider) acquire(ctx context.Context, dir string, rec *record, r driver.Request, offers []Offer) (*lease, error) {
	var err error
	if rec == nil || !rec.Asked && rec.Reservation == "" {
		if rec != nil { // of a call that was killed
			if err := p.endGroups(ctx, r.Owner, rec); err != nil {
				return nil, err
			}
		}
		if rec, err = p.choose(ctx, dir, r, offers); err != nil {
			return nil, err
		}
	}
	if rec.Reservation != "" { // its start is waited for as for a queue
		return newLease(p, rec.Owner, dir, rec, nil), nil
	}
	return p.launchAndBoot(ctx, dir, rec, r)
}

// launchAndBoot rents the machines of a record, as far as they are not known, and makes them hosts.
func (p *provider) launchAndBoot(ctx context.Context, dir string, rec *record, r driver.Request) (*lease, error) {
	if len(rec.Machines) == 0 { // whether an earlier call has rented machines may not be known: the same token returns them
		if err := p.launch(ctx, dir, rec); err != nil {
			return nil, err
		}
	}
	return p.boot(ctx, dir, rec, r)
}

// choose rents or reserves machines of the first offer for which the cloud has as many.
func (p *provider) choose(ctx context.Context, dir string, r driver.Request, offers []Offer) (*record, error) {
	from, err := p.s.From(ctx)
	if err != nil {
		return nil, err
	}
	var refused []string
	for _, o := range p.s.Placement.placed(offers, r.Nodes) {
		rec := &record{Version: driverVersion, Owner: r.Owner, Nodes: r.Nodes, Offer: o, Token: strings.ToLower(rand.Text())}
		if p.api.Reservations() == nil {
			err = p.rent(ctx, dir, rec, from)
		} else {
			rec.Request = r
			err = p.reserve(ctx, dir, rec, from)
		}
		if !isRefusal(err) {
			return rec, err
		}
		refused = append(refused, fmt.Sprintf("%s: %v", o, err))
		if rec.Group == "" {
			continue
		}
		if err := p.api.EndGroup(ctx, rec.group()); err != nil {
			return nil, err
		}
	}
	return nil, &core.Error{
		Kind: core.Busy, Op: "rent machines for site", Object: p.s.Name, Err: errors.New(strings.Join(refused, "; ")),
		Remedy: "Add types or zones to the site, or let another site take the run.",
	}
}

// isRefusal reports whether an error is of an offer alone: the next one may do.
func isRefusal(err error) bool {
	return errors.Is(err, ErrNoCapacity) || errors.Is(err, ErrNoPlacement)
}

// rent rents the machines of a new record.
func (p *provider) rent(ctx context.Context, dir string, rec *record, from []string) error {
	host, login, err := makeKeys(ctx, dir)
	if err == nil {
		rec.Expires = time.Now().Add(p.s.Life()).Truncate(time.Second)
		rec.Script, err = p.script(rec, host, login, rec.Expires.Add(max(p.s.Keep, p.s.Slot)))
	}
	if err == nil {
		err = p.makeGroup(ctx, dir, rec, from)
	}
	if err != nil {
		return err
	}
	return p.launch(ctx, dir, rec)
}

// reserve reserves the machines of a new record. They end themselves at the end of the reservation.
func (p *provider) reserve(ctx context.Context, dir string, rec *record, from []string) error {
	host, login, err := makeKeys(ctx, dir)
	if err == nil {
		err = p.makeGroup(ctx, dir, rec, from)
	}
	if err != nil {
		return err
	}
	granted, err := p.api.Reservations().Reserve(ctx, rec.order(), p.s.Life())
	if err != nil {
		return err
	}
	rec.Reservation, rec.Begins, rec.Expires = granted.ID, granted.Start, granted.End
	if rec.Script, err = p.script(rec, host, login, rec.Expires); err != nil {
		return err
	}
	return rec.write(dir)
}

// makeGroup makes the group of a record, which is on the disk before.
func (p *provider) makeGroup(ctx context.Context, dir string, rec *record, from []string) error {
	if err := rec.write(dir); err != nil {
		return err
	}
	g := rec.group()
	g.From = from
	g, err := p.api.MakeGroup(ctx, g)
	rec.Group, rec.PlacementGroup = g.ID, g.PlacementGroup
	return err
}

// launch rents the machines of a record. That it may have done so is on the disk first.
func (p *provider) launch(ctx context.Context, dir string, rec *record) error {
	rec.Asked, rec.Gone = true, false
	if err := rec.write(dir); err != nil {
		return err
	}
	machines, err := p.api.Launch(ctx, rec.order())
	if err != nil {
		rec.Asked = !isRefusal(err)
		return errors.Join(err, rec.write(dir))
	}
	if len(machines) != rec.Nodes {
		return &core.Error{Kind: core.Lost, Op: "rent machines for site", Object: p.s.Name, Err: fmt.Errorf("number is %d, expected %d", len(machines), rec.Nodes), Remedy: core.RemedyShow}
	}
	rec.Launched, rec.Machines = time.Now(), make([]string, len(machines))
	for i, m := range byIndex(machines) {
		rec.Machines[i] = m.ID
	}
	return rec.write(dir)
}

// byIndex returns machines in the order of their launch.
func byIndex(machines []Machine) []Machine {
	slices.SortFunc(machines, func(a, b Machine) int {
		if a.Index != b.Index {
			return a.Index - b.Index
		}
		return strings.Compare(a.ID, b.ID)
	})
	return machines
}

// boot waits until all machines answer, and makes them hosts behind ssh.
func (p *provider) boot(ctx context.Context, dir string, rec *record, r driver.Request) (*lease, error) {
	machines, err := p.answers(ctx, dir, rec)
	if err != nil {
		return nil, err
	}
	rec.Keys = make([]string, len(machines))
	for i, m := range machines {
		rec.Keys[i] = m.key
	}
	if err := pinOwnKeys(dir, rec.Addresses, rec.Keys); err != nil {
		return nil, leasedir.Unusable(dir, err)
	}
	hosts, err := p.s.Reach.Provider(rec.connection(dir))
	if err != nil {
		return nil, err
	}
	inner, err := hosts.Acquire(ctx, r)
	if err != nil {
		return nil, err
	}
	rec.Hosts, rec.Inner = named(inner.Hosts(), machines), inner.Handle()
	for i := range rec.Hosts {
		rec.Hosts[i].Spot, rec.Hosts[i].Placement = rec.Offer.Spot, p.s.Placement.of(rec)
	}
	if err := rec.write(dir); err != nil {
		inner.Disconnect()
		return nil, err
	}
	return newLease(p, rec.Owner, dir, rec, inner), nil
}

// answered is what a machine reports once its start script is through: its own host key, and its name.
type answered struct{ key, name string }

// answerCommand has a machine report that.
const answerCommand = "cat /etc/bee/host_key.pub && uname -n"

// parseAnswer reads what a machine has reported.
func parseAnswer(text string) (a answered, err error) {
	key, name, _ := strings.Cut(text, "\n")
	if a.key, err = publicKey(key); err == nil && core.IsHost(strings.TrimSpace(name)) {
		a.name = strings.TrimSpace(name)
	}
	return a, err
}

// named returns hosts by the names that they have for themselves, where no two have the same.
func named(hosts []core.Host, machines []answered) []core.Host {
	hosts, seen := slices.Clone(hosts), map[string]bool{}
	for i := range hosts {
		name := machines[i].name
		if name == "" || seen[name] {
			return hosts
		}
		seen[name] = true
	}
	for i := range hosts {
		hosts[i].Name = machines[i].name
	}
	return hosts
}

// answers waits until all machines answer.
func (p *provider) answers(ctx context.Context, dir string, rec *record) ([]answered, error) {
	pause, got := looks(), make([]answered, rec.Nodes)
	var last error
	for begun := time.Now(); ; {
		machines, err := p.api.Launched(ctx, rec.Token)
		if err != nil && (!core.IsKind(err, core.Transient) || ctx.Err() != nil) {
			return nil, err
		}
		if err := p.standing(machines, rec); err != nil {
			return nil, err
		}
		if last = err; err == nil && len(machines) == rec.Nodes {
			rec.Addresses, rec.Jump = rec.Addresses[:0], ""
			for _, m := range byIndex(machines) {
				rec.Addresses, rec.Jump = append(rec.Addresses, m.Address), m.Jump
			}
			last = p.ask(ctx, rec.connection(dir), got)
		}
		missing := slices.IndexFunc(got, func(a answered) bool { return a.key == "" })
		if missing < 0 {
			return got, nil
		}
		if time.Since(begun) > p.s.Boot {
			return nil, p.silent(ctx, rec, missing, last)
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, err
		}
	}
}

// standing refuses machines that do not boot any more.
func (p *provider) standing(machines []Machine, rec *record) error {
	for _, m := range machines {
		if m.State > Running {
			return &core.Error{
				Kind: core.Lost, Op: "boot machine", Object: m.ID, Err: fmt.Errorf("it is %s%s (%s)", m.State, ended([]Machine{m}), rec.Offer),
				Remedy: "Let another site take the run, or try again.",
			}
		}
	}
	return nil
}

// answerTime is how long a machine may take for one answer.
const answerTime = 20 * time.Second

// ask asks the machines that have an address and have not answered yet.
func (p *provider) ask(ctx context.Context, c Connection, got []answered) error {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	errs := make([]error, len(got))
	var wg sync.WaitGroup
	for i, address := range c.Addresses {
		if address == "" || got[i].key != "" {
			continue
		}
		wg.Go(func() {
			errs[i] = core.Caught(func() error {
				printed, err := p.s.Reach.Output(ctx, c, address, answerCommand)
				if err == nil {
					got[i], err = parseAnswer(printed)
				}
				return err
			})
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// silentError is the cause of the error of machines that did not answer in time.
type silentError struct{ error }

func (e silentError) Unwrap() error { return e.error }

// silent is the error of machines that did not answer in time.
func (p *provider) silent(ctx context.Context, rec *record, i int, last error) error {
	id := "of " + rec.Owner.String()
	if i < len(rec.Machines) {
		id = rec.Machines[i]
	}
	cause := fmt.Errorf("it does not answer by ssh within %s (%s)", p.s.Boot, rec.Offer)
	if last != nil {
		cause = fmt.Errorf("%w: %w", cause, last)
	}
	if console, err := p.api.Console(ctx, id); err == nil && console != "" {
		cause = fmt.Errorf("%w; its console ends with %q", cause, core.Printable(console[max(0, len(console)-1000):], 1000))
	}
	remedy := "Check `image:`, `user:` and `network:` at the site, and whether this machine may connect to port 22 there; `boot:` allows more time."
	if p.s.Bastion != "" {
		remedy = "Check `image:`, `user:` and `network:` at the site: does `ssh " + p.s.Bastion + "` ask for nothing, and does `ssh_from:` have the address from which the bastion reaches the machines? `boot:` allows more time."
	}
	return &core.Error{Kind: core.Transient, Op: "boot machine", Object: id, Err: silentError{cause}, Remedy: remedy}
}
