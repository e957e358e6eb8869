package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Times by default.
const (
	defaultBoot = 5 * time.Minute
	defaultKeep = 30 * time.Minute
	settle      = 3 * time.Second
)

type provider struct {
	s      Settings
	api    API
	kind   leasedir.Kind
	prices prices
}

// New returns the provider of a site whose machines are rented through api.
func New(s Settings, api API) (driver.Provider, error) {
	if s.Slot <= 0 {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: errors.New("it has no `slot`, by which rented machines end"), Remedy: "Add `slot:` to the site."}
	}
	return &provider{s: s.WithDefaults(), api: api, kind: leasedir.Kind{Driver: s.Driver, Version: driverVersion, Leases: "leases", Machine: s.Machine}}, nil
}

// WithDefaults returns the settings with all times.
func (s Settings) WithDefaults() Settings {
	s.Boot, s.Keep = cmp.Or(s.Boot, defaultBoot), cmp.Or(s.Keep, defaultKeep)
	s.Settle, s.Late = cmp.Or(s.Settle, settle), cmp.Or(s.Late, listedLate)
	return s
}

// Life returns how long machines live at most from their launch.
func (s Settings) Life() time.Duration { return s.Boot + s.Slot + s.Keep }

// Info implements driver.Provider.
func (p *provider) Info() driver.Info {
	return driver.Info{Name: p.s.Driver, Summary: p.s.Summary, Downloads: true, Untried: p.s.Untried, Billing: core.Billing{Boot: p.s.Boot, Least: p.s.LeastBilled}}
}

// Probe implements driver.Provider: it has the cloud check its offers, until it would take one.
func (p *provider) Probe(ctx context.Context) (driver.Facts, error) {
	no := func(err error) (driver.Facts, error) {
		if core.Interrupted(err) {
			return driver.Facts{}, err
		}
		return driver.Facts{Reason: err.Error(), Remedy: core.Remedy(err), Passing: core.IsKind(err, core.Transient)}, nil
	}
	offers, err := p.api.Offers(ctx)
	if err != nil {
		return no(err)
	}
	noPrice := p.priced(ctx, offers)
	if ctx.Err() != nil {
		return driver.Facts{}, context.Cause(ctx)
	}
	if offers, err = p.counted(offers, noPrice); err != nil {
		return no(err)
	}
	first, err := p.usable(ctx, offers)
	if err != nil {
		return no(err)
	}
	if _, err := p.s.From(ctx); err != nil {
		return no(err)
	}
	f := driver.Facts{
		Usable: true, Slots: first.Cores, Notice: p.s.NoticeTime,
		Reason: fmt.Sprintf("%s: rents %s with %d cores, %d GiB, linux/%s", p.s.Summary, first, first.Cores, first.Memory>>30, first.Arch),
		Detail: map[string]string{"type": first.Type, "zone": first.Zone, "image": first.Image},
		Price:  first.withMost(offers),
	}
	if first.Foreign {
		f.Warning = foreignImage(first.Image)
	}
	if p.s.Placement.Kind != "" && first.notPlaced(p.s.Placement, 2) == "" {
		f.Placement, f.PlacementRequired = string(p.s.Placement.Kind), p.s.Placement.Required
	}
	switch {
	case f.Price != nil:
	case noPrice != nil:
		f.NoPrice = noPrice.Error()
		if remedy := core.Remedy(noPrice); remedy != "" {
			f.NoPrice += ". " + remedy
		}
	case p.s.Priced:
		f.NoPrice = noneOf(first).Error()
	}
	return f, nil
}

// usable returns the first offer that the cloud would take. If it refuses all, the error is
// that of the first, which the user prefers.
func (p *provider) usable(ctx context.Context, offers []Offer) (Offer, error) {
	if len(offers) == 0 {
		return Offer{}, noneAt(p.s.Name)
	}
	var refused error
	for _, o := range offers {
		err := p.api.Check(ctx, o)
		if err == nil {
			return o, nil
		}
		if !core.IsKind(err, core.Unsupported) { // it is not this offer's
			return Offer{}, err
		}
		refused = cmp.Or(refused, err)
	}
	return Offer{}, refused
}

// noneAt is the error of a site whose cloud offers none of its machines.
func noneAt(site string) error {
	return &core.Error{Kind: core.Unsupported, Op: "rent machines for site", Object: site, Err: errors.New("the cloud has none of its types in its zones"), Remedy: "Check `types:` and `zones:` at the site."}
}

// Echo implements driver.Provider: there is no file system before machines are rented.
func (p *provider) Echo(context.Context, []byte) ([]byte, error) { return nil, driver.ErrNoHosts }

// TryRuntime implements driver.Provider: there is no host before one is rented.
func (p *provider) TryRuntime(context.Context, string) (runtime, host string, err error) {
	return "", "", nil
}

// Directories implements driver.Provider: machines that are rented have no directories of the user's.
func (p *provider) Directories(_ context.Context, wanted []driver.Directory) ([]string, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	return nil, &core.Error{
		Kind: core.Unsupported, Op: "mount", Object: wanted[0].Path, Err: errors.New("machines of site " + p.s.Name + " are rented for the run, and have no directories of yours"),
		Remedy: "Use `inputs:`, or a site that has the directory.",
	}
}

// Queue implements driver.Provider.
func (p *provider) Queue() driver.SiteQueue { return nil }

// Foreign implements driver.Provider: the key of its machines is on the submitting machine alone.
func (p *provider) Foreign() driver.ForeignLeases { return nil }

// HostLocks implements driver.Provider: each run has machines of its own.
func (p *provider) HostLocks() driver.HostLocks { return nil }

// BurstBuffers implements driver.Provider: what machines have goes with them.
func (p *provider) BurstBuffers() driver.BurstBuffers { return nil }

// Inventory implements driver.Provider.
func (p *provider) Inventory() driver.Inventory { return inventory{p} }

// fitting returns the offers that serve a request; an error has the reason of each that does not.
func (p *provider) fitting(ctx context.Context, r driver.Request) ([]Offer, error) {
	offers, err := p.api.Offers(ctx)
	if err != nil {
		return nil, err
	}
	var reasons []string
	remedy := "Add a larger type to `types:` at the site, or lower what the job wants."
	fit := slices.DeleteFunc(offers, func(o Offer) bool {
		reason := ""
		switch {
		case o.Spot && !r.Interruptible:
			reason = "spot machines may be taken back at any moment, and the job has neither `checkpoint:` nor `restarts:`"
			remedy = "Add `checkpoint:` to the Beefile, or `restarts: true` where the job can begin again, or `on-demand` to `market:` at the site."
		case r.SlotsPerNode > o.Cores:
			reason = fmt.Sprintf("%s has %d cores, and the job wants %d", o.Type, o.Cores, r.SlotsPerNode)
		case r.Memory > o.Memory:
			reason = fmt.Sprintf("%s has %d MiB of memory, and the job wants %d", o.Type, o.Memory>>20, r.Memory>>20)
		case r.GPUs > o.GPUs:
			reason = fmt.Sprintf("%s has %d GPUs, and the job wants %d", o.Type, o.GPUs, r.GPUs)
		case r.GPUs < 0 && o.GPUs == 0:
			reason = o.Type + " has no GPUs"
		case p.s.Placement.Required:
			if reason = o.notPlaced(p.s.Placement, r.Nodes); reason != "" {
				remedy = "Leave `required` out at `placement:` of the site, or add a type that can to `types:`."
			}
		}
		if reason != "" && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		return reason != ""
	})
	switch {
	case len(fit) == 0 && len(reasons) == 0:
		return nil, noneAt(p.s.Name)
	case len(fit) == 0:
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "rent machines for site", Object: p.s.Name, Err: errors.New(strings.Join(reasons, "; ")),
			Remedy: remedy,
		}
	}
	noPrice := p.priced(ctx, fit)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return p.counted(fit, noPrice)
}

// List implements driver.Provider: what is recorded here, and what carries the owner's tags in the cloud.
func (p *provider) List(ctx context.Context, q core.Owner) ([]core.Handle, error) {
	handles, err := p.kind.List(q, p.s.Dir)
	errs := []error{err}
	add := func(o core.Owner) {
		h := p.kind.Handle(p.kind.Dir(p.s.Dir, o), o)
		if o.Matches(q) && !slices.ContainsFunc(handles, func(k core.Handle) bool { return k.Owner == o }) {
			handles = append(handles, h)
		}
	}
	machines, err := p.api.Owned(ctx, q)
	errs = append(errs, err)
	for _, m := range machines {
		if m.State != Ended {
			add(m.Owner)
		}
	}
	groups, err := p.api.Groups(ctx, q)
	errs = append(errs, err)
	for _, g := range groups {
		add(g.Owner)
	}
	others, err := inventory{p}.others(ctx, q)
	errs = append(errs, err)
	for _, o := range others {
		add(o.Owner)
	}
	return handles, errors.Join(errs...)
}

// Recover implements driver.Provider. Where nothing of a lease runs any more, what is left
// of it is removed.
func (p *provider) Recover(ctx context.Context, h core.Handle) (driver.Lease, error) {
	dir, _, err := p.kind.Find(h)
	if err != nil && !core.IsKind(err, core.NotFound) {
		return nil, err
	}
	known := err == nil
	var r *record
	if known {
		if r, err = read(dir, h.Owner); err != nil {
			return nil, err
		}
	}
	l := newLease(p, h.Owner, dir, cmp.Or(r, &record{Owner: h.Owner}), nil)
	if r.ready() { // a process may begin with many
		if _, all, err := l.running(ctx); all && err == nil {
			return l, nil
		}
	}
	machines, err := p.machines(ctx, h.Owner, r)
	if err != nil {
		return nil, err
	}
	waits := r != nil && r.Reservation != "" && len(r.Machines) == 0 && !r.Gone // for its reservation
	if waits || slices.ContainsFunc(machines, func(m Machine) bool { return m.State != Ended }) {
		return l, nil
	}
	groups, err := p.api.Groups(ctx, h.Owner)
	if err != nil {
		return nil, err
	}
	others, err := inventory{p}.others(ctx, h.Owner)
	if err != nil {
		return nil, err
	}
	gone := &core.GoneError{Err: errors.New("its machines are gone")}
	last, is := firstEnd(machines)
	if !is && len(l.r.Machines) > 0 {
		last, is = unlisted(l.r.Machines[0]), true
	}
	if is { // before the reservation ends with the lease
		why := p.why(ctx, l.r, last)
		gone.End, gone.Err = why.End, errors.New(why.Reason)
	}
	if known || len(groups) > 0 || len(others) > 0 {
		if err := l.Release(ctx); err != nil {
			return nil, err
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "recover lease on", Object: p.s.Name, Err: gone}
}

// ended returns the reason of machines that have ended, for messages.
func ended(machines []Machine) string {
	for _, m := range machines {
		if m.Reason != "" {
			return fmt.Sprintf(" (%s: %s)", m.ID, core.Printable(m.Reason, 200))
		}
	}
	return ""
}

// machines returns all machines of a lease that the cloud lists, by their tags and by the token. Those of the token have
// the addresses by which ssh reaches them.
func (p *provider) machines(ctx context.Context, owner core.Owner, r *record) ([]Machine, error) {
	all, err := p.api.Owned(ctx, owner)
	if err != nil || r == nil || !r.Asked {
		return all, err
	}
	launched, err := p.api.Launched(ctx, r.Token)
	for _, m := range launched {
		all = append(slices.DeleteFunc(all, func(o Machine) bool { return o.ID == m.ID }), m)
	}
	if err == nil && len(all) == 0 {
		err = p.inAccount(ctx, r)
	}
	return all, err
}

// lists reports whether a machine is among those that the cloud lists.
func lists(machines []Machine, id string) bool {
	return slices.ContainsFunc(machines, func(m Machine) bool { return m.ID == id })
}

// groupLooks is how often a group is looked for that may be listed late.
const groupLooks = 3

// inAccount returns an error where nothing of a lease is listed, and neither its group, which stays until the
// machines are gone: other credentials, or another region, list nothing of it either.
func (p *provider) inAccount(ctx context.Context, r *record) error {
	if r.Gone || r.Group == "" || time.Now().After(r.Expires) {
		return nil
	}
	for look := 1; ; look++ {
		groups, err := p.api.Groups(ctx, r.Owner)
		if err != nil || len(groups) > 0 {
			return err
		}
		if look == groupLooks {
			break
		}
		if err := core.Sleep(ctx, p.s.Settle); err != nil {
			return err
		}
	}
	return &core.Error{
		Kind: core.Transient, Op: "find machines of", Object: r.Owner.String(),
		Err:    fmt.Errorf("neither they nor their security group %s are in this account and region (%s)", r.Group, r.Offer),
		Remedy: "Use the credentials and the region with which they were rented; best, name both at the site.",
	}
}

// looks returns the pauses between looks at what the cloud does.
func looks() fsutil.Backoff {
	return fsutil.Backoff{First: 100 * time.Millisecond, Longest: 5 * time.Second}
}
