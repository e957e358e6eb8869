package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// madeName is the form of names of what a request makes.
var madeName = regexp.MustCompile(`^bee-[a-z2-7]{26}$`)

// Others implements cloud.API: floating addresses, and leases of Blazar. A lease has the name of its group, and no owner
// once neither that group nor an address of it is there.
func (a *account) Others(ctx context.Context, q core.Owner) ([]driver.Rented, error) {
	addresses, owners, aerr := ownings{a}.floating(ctx)
	leases, lerr := ownings{a}.leases(ctx)
	var gerr error
	if len(leases) > 0 {
		var groups []securityGroup
		groups, gerr = securityGroups{a}.list(ctx, url.Values{})
		for _, g := range groups {
			if o, is := ownerOf(g.Description); is {
				owners[g.Name] = o
			}
		}
	}
	var all []driver.Rented
	for _, l := range leases {
		owner, known := owners[l.Name]
		l.Owner = owner
		if known && owner.Matches(q) || !known && aerr == nil && gerr == nil && q.Run == "" { // of a part of the groups, the owner may be in the other
			all = append(all, l)
		}
	}
	for _, f := range addresses {
		if f.Owner.Matches(q) {
			all = append(all, f)
		}
	}
	return all, errors.Join(aerr, lerr, gerr)
}

// ownings are what bee has made in the project.
type ownings struct{ a *account }

// floating returns the project's floating addresses that bee has made, and the owners of the groups that they are of.
func (m ownings) floating(ctx context.Context) ([]driver.Rented, map[string]core.Owner, error) {
	owners := map[string]core.Owner{}
	session, err := m.a.login(ctx)
	if err != nil {
		return nil, owners, err
	}
	query := url.Values{}
	if session.project != "" { // administrators see those of all projects
		query.Set("project_id", session.project)
	}
	type page struct {
		Addresses []floatingAddress `json:"floatingips"`
		Links     []link            `json:"floatingips_links"`
	}
	found, err := list(ctx, m.a.client, network, "floatingips", query, func(p page) ([]floatingAddress, bool) { return p.Addresses, hasNext(p.Links) }, func(f floatingAddress) string { return f.ID })
	if statusOf(err) == http.StatusNotFound { // a cloud without them
		return nil, owners, nil
	}
	var all []driver.Rented
	for _, f := range found {
		at := strings.LastIndex(f.Description, " ")
		if at < 0 || !isID(f.ID) {
			continue
		}
		name := f.Description[at+1:]
		owner, is := ownerOf(f.Description[:at])
		if !is || !madeName.MatchString(name) {
			continue
		}
		owners[name] = owner
		all = append(all, driver.Rented{
			Kind: driver.RentedAddress, ID: f.ID, Name: name, Owner: owner, Type: checked(f.Address), State: core.Printable(strings.ToLower(f.Status), 40), Since: timeOf(f.Created),
		})
	}
	return all, owners, err
}

// leases returns the leases of Blazar that were made for a request, without their owners.
func (m ownings) leases(ctx context.Context) ([]driver.Rented, error) {
	session, err := m.a.login(ctx)
	if err != nil {
		return nil, err
	}
	found, err := reservations(m).all(ctx)
	if reservations(m).absent(err) {
		return nil, nil
	}
	var all []driver.Rented
	for _, l := range found {
		foreign := session.project != "" && l.Project != "" && l.Project != session.project // administrators see those of all projects
		if foreign || !madeName.MatchString(l.Name) || !isID(l.ID) || l.Status == "TERMINATED" {
			continue
		}
		r := driver.Rented{Kind: driver.RentedReservation, ID: l.ID, Name: l.Name, State: core.Printable(strings.ToLower(l.Status), 40)}
		if inner, err := l.reservation(); err == nil {
			r.Hosts = inner.hosts()
			r.Type = fmt.Sprintf("%d machines", r.Hosts)
		}
		granted, err := l.translate()
		if err != nil { // it is there nevertheless
			all = append(all, r)
			continue
		}
		r.Since, r.Ends, r.Free = granted.Start, granted.End, granted.Start.After(time.Now())
		all = append(all, r)
	}
	return all, err
}

// EndOther implements cloud.API. A lease is in use as long as its group is there, with which it goes.
func (a *account) EndOther(ctx context.Context, o driver.Rented) error {
	path := map[driver.RentedKind][2]string{driver.RentedAddress: {network, "floatingips/"}, driver.RentedReservation: {blazar, "leases/"}}[o.Kind]
	if path[0] == "" {
		return nil
	}
	if err := checkID("end "+string(o.Kind), o.ID); err != nil {
		return err
	}
	if err := a.call(ctx, path[0], remove, path[1]+o.ID, nil, nil); err != nil && !isGone(err) {
		return err
	}
	return nil
}
