package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// Blazar's types of resources.
const (
	physicalHost    = "physical:host"
	virtualInstance = "virtual:instance"
	flavorInstance  = "flavor:instance"
)

// blazarLease is a lease in an answer.
type blazarLease struct {
	ID           string
	Name         string
	Status       string
	Project      string `json:"project_id"`
	Start        string `json:"start_date"`
	End          string `json:"end_date"`
	Reservations []blazarReservation
}

// blazarReservation is a reservation of a lease.
type blazarReservation struct {
	ID     string
	Status string
	Type   string `json:"resource_type"`
	Min    int
	Amount int
	Flavor string `json:"flavor_id"`
	Group  string `json:"server_group_id"`
}

// hosts is how many machines there can be in a reservation at least.
func (r blazarReservation) hosts() int { return max(r.Min, r.Amount) }

// Forms of times: in calls, and in answers.
const (
	callDate   = "2006-01-02 15:04"
	answerDate = "2006-01-02T15:04:05"
)

// reservation returns the reservation of a lease that machines are launched into.
func (l blazarLease) reservation() (blazarReservation, error) {
	for _, r := range l.Reservations {
		if slices.Contains([]string{physicalHost, virtualInstance, flavorInstance}, r.Type) && isID(r.ID) {
			return r, nil
		}
	}
	return blazarReservation{}, fmt.Errorf("lease %q of Blazar reserves neither hosts nor instances", core.Printable(l.Name, 80))
}

// translate returns a lease as package cloud has it.
func (l blazarLease) translate() (cloud.Reservation, error) {
	r := cloud.Reservation{ID: l.ID}
	inner, err := l.reservation()
	for _, t := range []struct {
		text string
		into *time.Time
	}{{l.Start, &r.Start}, {l.End, &r.End}} {
		if err == nil {
			date, _, _ := strings.Cut(t.text, ".")
			*t.into, err = time.Parse(answerDate, date)
		}
	}
	if err == nil && !isID(l.ID) {
		err = fmt.Errorf("its id is %q", core.Printable(l.ID, 80))
	}
	if err != nil {
		return r, &core.Error{Kind: core.Permanent, Op: "read the lease", Object: core.Printable(l.Name, 80), Err: err}
	}
	switch l.Status {
	case "TERMINATED", "TERMINATING", "DELETING", "ERROR":
		r.Over = fmt.Sprintf("lease %s of Blazar is %s", l.ID, l.Status)
		if r.Ended = core.HostsReclaimed; l.Status == "DELETING" {
			r.Ended = core.HostsEnded
		}
	case "ACTIVE", "UPDATING":
		r.Active = inner.Status == "active"
	}
	return r, nil
}

// all returns the project's leases.
func (r reservations) all(ctx context.Context) ([]blazarLease, error) {
	var answer struct{ Leases []blazarLease }
	err := r.a.call(ctx, blazar, get, "leases", nil, &answer)
	return answer.Leases, err
}

// leases returns the project's leases with a name.
func (r reservations) leases(ctx context.Context, name string) ([]blazarLease, error) {
	all, err := r.all(ctx)
	return named(all, name), err
}

// named returns the leases with a name.
func named(leases []blazarLease, name string) (found []blazarLease) {
	for _, l := range leases {
		if l.Name == name && isID(l.ID) {
			found = append(found, l)
		}
	}
	return found
}

// lease returns the lease with an id.
func (r reservations) lease(ctx context.Context, id string) (blazarLease, error) {
	if err := checkID("find lease", id); err != nil {
		return blazarLease{}, err
	}
	var answer struct{ Lease blazarLease }
	err := r.a.call(ctx, blazar, get, "leases/"+id, nil, &answer)
	return answer.Lease, err
}

// Reservations implements cloud.API.
func (a *account) Reservations() cloud.Reservations {
	if a.s.Lease == nil {
		return nil
	}
	return reservations{a}
}

// reservations implements cloud.Reservations by leases of Blazar.
type reservations struct{ a *account }

// Reserved implements cloud.Reservations.
func (r reservations) Reserved(ctx context.Context, id string) (cloud.Reservation, error) {
	l, err := r.lease(ctx, id)
	if err != nil {
		return cloud.Reservation{}, err
	}
	return l.translate()
}

// Reserve implements cloud.Reservations. Blazar has no token: the name of a lease is that of the request's group.
func (r reservations) Reserve(ctx context.Context, o cloud.Order, life time.Duration) (cloud.Reservation, error) {
	if r.a.s.Lease.Name != "" {
		return r.ownLease(ctx, o.Nodes, life)
	}
	name := nameOf(o.Token)
	there, err := r.leases(ctx, name)
	if err != nil {
		return cloud.Reservation{}, err
	}
	if len(there) == 0 {
		there, err = r.makeLease(ctx, name, o, life)
	}
	if err != nil {
		return cloud.Reservation{}, err
	}
	return there[0].translate()
}

// Extend implements cloud.Reservations.
func (r reservations) Extend(ctx context.Context, id string, end time.Time) (cloud.Reservation, error) {
	l, err := r.lease(ctx, id)
	if err != nil {
		return cloud.Reservation{}, err
	}
	if !strings.HasPrefix(l.Name, nameOf("")) {
		return cloud.Reservation{}, &core.Error{
			Kind: core.Unsupported, Op: "extend lease", Object: core.Printable(l.Name, 80), Err: errors.New("it is your own"),
			Remedy: "Extend it with `openstack reservation lease update --end-date`.",
		}
	}
	var answer struct{ Lease blazarLease }
	if err := r.a.call(ctx, blazar, put, "leases/"+id, map[string]any{"end_date": endDate(end)}, &answer); err != nil {
		return cloud.Reservation{}, err
	}
	return answer.Lease.translate()
}

// endDate is the end of a lease, in a call, that is not before a moment: Blazar counts in minutes, and drops seconds.
func endDate(end time.Time) string { return end.UTC().Add(time.Minute).Format(callDate) }

// makeLease makes a lease. Where the answer is lost, it may be there.
func (r reservations) makeLease(ctx context.Context, name string, o cloud.Order, life time.Duration) ([]blazarLease, error) {
	start, begin := "now", time.Now().UTC()
	if r.a.s.Lease.Start.After(begin) {
		begin = r.a.s.Lease.Start
		start = begin.Format(callDate)
	}
	body := map[string]any{"name": name, "start_date": start, "end_date": endDate(begin.Add(life)), "reservations": []any{r.reservationOf(o)}, "events": []any{}}
	var answer struct{ Lease blazarLease }
	err := r.a.call(ctx, blazar, post, "leases", body, &answer)
	switch {
	case core.IsKind(err, core.Transient): // it may have been made
		if there, lerr := r.leases(ctx, name); lerr == nil && len(there) > 0 {
			return there, nil
		}
		if s, lerr := r.a.login(ctx); lerr == nil && s.delegated { // Blazar acts for its users by trusts of Keystone, which refuses these
			return nil, &core.Error{
				Kind: core.Unsupported, Op: "reserve", Object: o.Offer.String(), Err: fmt.Errorf("an application credential does not suffice for Blazar, which acts for its users: %w", err),
				Remedy: "Log in to the cloud by a password. Where Keystone is older, a credential made with `openstack application credential create --unrestricted` also serves.",
			}
		}
	case core.IsKind(err, core.Unsupported):
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "reserve", Object: o.Offer.String(), Err: err,
			Remedy: "Check `openstack: {lease: …}` at the site, and that `boot`, `slot` and `keep` together are no longer than a lease may be.",
		}
	}
	return []blazarLease{answer.Lease}, err
}

// reservationOf returns what is reserved for an order.
func (r reservations) reservationOf(o cloud.Order) map[string]any {
	properties := ""
	if len(r.a.s.Lease.Properties) > 0 {
		var all []any
		for _, key := range slices.Sorted(maps.Keys(r.a.s.Lease.Properties)) {
			all = append(all, []string{"==", "$" + key, r.a.s.Lease.Properties[key]})
		}
		var expression any = append([]any{"and"}, all...)
		if len(all) == 1 {
			expression = all[0]
		}
		raw, err := json.Marshal(expression)
		if err != nil {
			panic(err) // plain data: this cannot happen
		}
		properties = string(raw)
	}
	switch r.a.s.Lease.Kind {
	case LeaseInstance:
		return map[string]any{
			"resource_type": virtualInstance, "amount": o.Nodes, "vcpus": o.Offer.Cores, "memory_mb": o.Offer.Memory >> 20, "disk_gb": o.Offer.Storage,
			"affinity": nil, "resource_properties": properties,
		}
	case LeaseFlavor:
		return map[string]any{"resource_type": flavorInstance, "amount": o.Nodes, "flavor_id": o.Offer.Flavor, "affinity": nil}
	}
	return map[string]any{"resource_type": physicalHost, "min": o.Nodes, "max": o.Nodes, "hypervisor_properties": "", "resource_properties": properties}
}

// ownLease returns the lease of the user's that the site names, if it serves a number of machines for a time.
func (r reservations) ownLease(ctx context.Context, nodes int, life time.Duration) (cloud.Reservation, error) {
	const key = "lease: {name"
	name := r.a.s.Lease.Name
	all, err := r.all(ctx)
	if err != nil {
		return cloud.Reservation{}, err
	}
	found := named(all, name)
	switch len(found) {
	case 0:
		var names []string
		for _, l := range all {
			names = append(names, l.Name)
		}
		return cloud.Reservation{}, r.a.unknown(key, name, "lease of Blazar", names)
	case 1:
	default:
		return cloud.Reservation{}, r.a.invalid(key, name, fmt.Errorf("%d leases have that name", len(found)))
	}
	state, err := found[0].translate()
	if err != nil {
		return cloud.Reservation{}, err
	}
	inner, err := found[0].reservation()
	begin := time.Now()
	if state.Start.After(begin) {
		begin = state.Start
	}
	switch {
	case err != nil:
	case state.Over != "":
		err = errors.New(state.Over)
	case inner.hosts() < nodes:
		err = fmt.Errorf("it has %d machines, and the job wants %d", inner.hosts(), nodes)
	case state.End.Before(begin.Add(life)):
		err = fmt.Errorf("it ends at %s, and `boot`, `slot` and `keep` together take %s", state.End.Format(callDate), life)
	}
	if err != nil {
		return cloud.Reservation{}, r.a.invalid(key, name, err)
	}
	return state, nil
}

// checkLease refuses a lease that cannot be had, before anything is made.
func (r reservations) checkLease(ctx context.Context) error {
	l := r.a.s.Lease
	if l == nil {
		return nil
	}
	if !l.Start.IsZero() && l.Start.Before(time.Now()) {
		return r.a.invalid("lease: {start", l.Start.Format(callDate), errors.New("it is in the past"))
	}
	if l.Name == "" {
		_, err := r.all(ctx) // is there a Blazar?
		return err
	}
	_, err := r.ownLease(ctx, 1, r.a.s.Cloud.Life())
	return err
}

// intoLease has machines launched into a lease: it changes the request, and returns the hints for Nova's scheduler.
func (r reservations) intoLease(ctx context.Context, id string, server map[string]any) (map[string]string, error) {
	l, err := r.lease(ctx, id)
	if err != nil {
		return nil, err
	}
	inner, err := l.reservation()
	if err != nil {
		return nil, &core.Error{Kind: core.Unsupported, Op: "use lease", Object: id, Err: err}
	}
	if inner.Type == physicalHost {
		return map[string]string{"reservation": inner.ID}, nil
	}
	if server["flavorRef"] = inner.ID; isID(inner.Flavor) { // of Blazar's making
		server["flavorRef"] = inner.Flavor
	}
	hints := map[string]string{}
	if isID(inner.Group) {
		hints["group"] = inner.Group
	}
	return hints, nil
}

// endLease ends the lease that was made for a group. Where no site has leases, a cloud need not have Blazar.
// A group that was given another name may have that of another lease.
func (r reservations) endLease(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, nameOf("")) {
		return nil
	}
	there, err := r.leases(ctx, name)
	if r.absent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, l := range there {
		if err := r.a.call(ctx, blazar, remove, "leases/"+l.ID, nil, nil); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// absent reports whether an error is that a cloud has no Blazar, or not for these credentials, where the site needs none.
func (r reservations) absent(err error) bool {
	return err != nil && r.a.s.Lease == nil && (errors.Is(err, errNoService) || statusOf(err) == http.StatusForbidden || statusOf(err) == http.StatusNotFound)
}
