package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// net is a network in an answer.
type net struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	External bool   `json:"router:external"`
}

func (a *account) nets(ctx context.Context) ([]net, error) {
	type page struct {
		Networks []net
		Links    []link `json:"networks_links"`
	}
	return list(ctx, a.client, network, "networks", nil, func(p page) ([]net, bool) { return p.Networks, hasNext(p.Links) }, func(n net) string { return n.ID })
}

// network returns the network of the machines.
func (a *account) network(ctx context.Context) (net, error) {
	return a.choose(ctx, "network: {name", a.s.Network, "network", func(n net) bool { return !n.External })
}

// pool returns the network that floating addresses are of.
func (a *account) pool(ctx context.Context) (net, error) {
	return a.choose(ctx, "network: {pool", a.s.Pool, "external network", func(n net) bool { return n.External })
}

// choose returns the network with a name or an id; of no name, the only one that is usable.
func (a *account) choose(ctx context.Context, key, name, kind string, usable func(net) bool) (net, error) {
	all, err := a.nets(ctx)
	if err != nil {
		return net{}, err
	}
	var found []net
	var names []string
	for _, n := range all {
		if name != "" && (n.Name == name || n.ID == name) || name == "" && usable(n) {
			found = append(found, n)
		}
		if usable(n) {
			names = append(names, n.Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return net{}, a.unknown(key, name, kind, names)
	case name == "":
		return net{}, a.invalid(key, name, fmt.Errorf("the project has more than one %s: name one of %s", kind, strings.Join(cloud.Nearest("", names), ", ")))
	}
	return net{}, a.invalid(key, name, fmt.Errorf("%d networks have that name: use the id of one", len(found)))
}

// Beginnings of descriptions: they have the owner of what has no tags when it is made.
const (
	ofInstallation = "bee:installation="
	ofRun          = " bee:run="
	ofAttempt      = " bee:attempt="
)

// describe returns the description of what an owner has.
func describe(o core.Owner) string {
	return ofInstallation + o.User + ofRun + o.Run + ofAttempt + strconv.Itoa(o.Attempt)
}

// ownerOf returns the owner in a description, or none.
func ownerOf(description string) (core.Owner, bool) {
	rest, is := strings.CutPrefix(description, ofInstallation)
	user, rest, hasRun := strings.Cut(rest, ofRun)
	run, attempt, hasAttempt := strings.Cut(rest, ofAttempt)
	n, err := strconv.Atoi(attempt)
	return core.Owner{User: user, Run: run, Attempt: n}, is && hasRun && hasAttempt && err == nil
}

// securityGroup is a security group in an answer.
type securityGroup struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	Created     string `json:"created_at"`
}

// securityGroups are the groups that shield machines.
type securityGroups struct{ a *account }

// list returns the groups of the project.
func (s securityGroups) list(ctx context.Context, query url.Values) ([]securityGroup, error) {
	session, err := s.a.login(ctx)
	if err != nil {
		return nil, err
	}
	if session.project != "" { // administrators see those of all projects
		query.Set("project_id", session.project)
	}
	type page struct {
		Groups []securityGroup `json:"security_groups"`
		Links  []link          `json:"security_groups_links"`
	}
	query["fields"] = []string{"id", "name", "description", "created_at"}
	return list(ctx, s.a.client, network, "security-groups", query, func(p page) ([]securityGroup, bool) { return p.Groups, hasNext(p.Links) }, func(g securityGroup) string { return g.ID })
}

// Groups implements cloud.API.
func (a *account) Groups(ctx context.Context, q core.Owner) ([]cloud.Group, error) {
	all, err := securityGroups{a}.list(ctx, url.Values{})
	var owned []cloud.Group
	for _, g := range all {
		if o, is := ownerOf(g.Description); is && o.Matches(q) && isID(g.ID) {
			owned = append(owned, cloud.Group{ID: g.ID, Name: g.Name, Owner: o, Made: timeOf(g.Created)})
		}
	}
	return owned, err
}

// MakeGroup implements cloud.API. What places the machines is made after the group, whose name it has: so nothing is left
// that no list by owner finds.
func (a *account) MakeGroup(ctx context.Context, g cloud.Group) (cloud.Group, error) {
	var err error
	if g.ID, err = (securityGroups{a}).make(ctx, g); err != nil || g.Placement.Kind == "" {
		return g, err
	}
	g.PlacementGroup, err = (serverGroups{a}).make(ctx, g)
	return g, err
}

// make makes a group, or returns the one that there is: Neutron takes a name twice.
func (s securityGroups) make(ctx context.Context, g cloud.Group) (string, error) {
	a := s.a
	id, err := s.named(ctx, g)
	if err != nil {
		return "", err
	}
	if id == "" {
		var made struct {
			Group securityGroup `json:"security_group"`
		}
		body := map[string]any{"security_group": map[string]any{"name": g.Name, "description": describe(g.Owner)}}
		err := a.call(ctx, network, post, "security-groups", body, &made)
		if id = made.Group.ID; core.IsKind(err, core.Transient) { // it may have been made
			if id, err = s.named(ctx, g); err == nil && id == "" {
				err = a.call(ctx, network, post, "security-groups", body, &made)
				id = made.Group.ID
			}
		}
		if err != nil {
			return "", err
		}
	}
	if !isID(id) {
		return "", &core.Error{Kind: core.Permanent, Op: "make security group", Object: g.Name, Err: fmt.Errorf("its id is %q", core.Printable(id, 80)), Remedy: "The cloud answers with ids of another form: report that to its operators."}
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		if err := s.admit(ctx, id, map[string]any{"ethertype": family, "remote_group_id": id}); err != nil {
			return "", err
		}
	}
	return id, a.Admit(ctx, id, g.From)
}

// named returns the id of the group with a name and an owner, or "".
func (s securityGroups) named(ctx context.Context, g cloud.Group) (string, error) {
	found, err := s.list(ctx, url.Values{"name": {g.Name}})
	for _, f := range found {
		if f.Name == g.Name && f.Description == describe(g.Owner) {
			return f.ID, err
		}
	}
	return "", err
}

// Admit implements cloud.API.
func (a *account) Admit(ctx context.Context, group string, from []string) error {
	for _, f := range from {
		family := "IPv4"
		if strings.Contains(f, ":") {
			family = "IPv6"
		}
		rule := map[string]any{"ethertype": family, "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": f}
		if err := (securityGroups{a}).admit(ctx, group, rule); err != nil {
			return err
		}
	}
	return nil
}

// admit adds a rule to a group, which may have it. A repeated call is one with no effect.
func (s securityGroups) admit(ctx context.Context, group string, rule map[string]any) error {
	rule["direction"], rule["security_group_id"] = "ingress", group
	pause := pauses()
	for try := 1; ; try++ {
		err := s.a.call(ctx, network, post, "security-group-rules", map[string]any{"security_group_rule": rule}, nil)
		switch {
		case err == nil, isDuplicate(err):
			return nil
		case try == tries, !core.IsKind(err, core.Transient):
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// EndGroup implements cloud.API. Floating addresses, a server group and a lease belong to a group, and go before it.
func (a *account) EndGroup(ctx context.Context, g cloud.Group) error {
	id := g.ID
	if err := checkID("remove security group", id); err != nil {
		return err
	}
	var answer struct {
		Group securityGroup `json:"security_group"`
	}
	err := a.call(ctx, network, get, "security-groups/"+id, nil, &answer)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, is := ownerOf(answer.Group.Description); is {
		addresses, err := a.floating(ctx, answer.Group.Description, answer.Group.Name)
		if err != nil {
			return err
		}
		for _, f := range addresses {
			if err := a.call(ctx, network, remove, "floatingips/"+f.ID, nil, nil); err != nil && !isGone(err) {
				return err
			}
		}
		if err := (serverGroups{a}).end(ctx, answer.Group.Name); err != nil {
			return err
		}
		if err := (reservations{a}).endLease(ctx, answer.Group.Name); err != nil {
			return err
		}
	}
	if err := a.call(ctx, network, remove, "security-groups/"+id, nil, nil); err != nil && !isGone(err) {
		return err
	}
	return nil
}

// floatingAddress is a floating address in an answer.
type floatingAddress struct {
	ID          string `json:"id"`
	Address     string `json:"floating_ip_address"`
	Fixed       string `json:"fixed_ip_address"`
	Port        string `json:"port_id"`
	Description string `json:"description"`
	Status      string `json:"status"`
	Created     string `json:"created_at"`
}

// ofGroup returns the description of the floating addresses of a group.
func ofGroup(description, name string) string { return description + " " + name }

// floating returns the floating addresses of a group, in the order of their ids.
func (a *account) floating(ctx context.Context, description, name string) ([]floatingAddress, error) {
	type page struct {
		Addresses []floatingAddress `json:"floatingips"`
		Links     []link            `json:"floatingips_links"`
	}
	wanted := ofGroup(description, name)
	all, err := list(ctx, a.client, network, "floatingips", url.Values{"description": {wanted}}, func(p page) ([]floatingAddress, bool) { return p.Addresses, hasNext(p.Links) }, func(f floatingAddress) string { return f.ID })
	if statusOf(err) == http.StatusNotFound { // a cloud without them
		return nil, nil
	}
	all = slices.DeleteFunc(all, func(f floatingAddress) bool { return f.Description != wanted || !isID(f.ID) })
	slices.SortFunc(all, func(x, y floatingAddress) int { return strings.Compare(x.ID, y.ID) })
	return all, err
}

// reserve makes the floating addresses of a request, as far as they are not there.
func (a *account) reserve(ctx context.Context, o cloud.Order) error {
	wanted := a.floatingOf(o.Nodes)
	if wanted == 0 {
		return nil
	}
	pool, err := a.pool(ctx)
	if err != nil {
		return err
	}
	there, err := a.floating(ctx, describe(o.Owner), nameOf(o.Token))
	if err != nil {
		return err
	}
	for range wanted - len(there) {
		body := map[string]any{"floatingip": map[string]any{"floating_network_id": pool.ID, "description": ofGroup(describe(o.Owner), nameOf(o.Token))}}
		if err := a.call(ctx, network, post, "floatingips", body, nil); err != nil {
			return err
		}
	}
	return nil
}

// floatingOf returns how many of a number of machines have a floating address.
func (a *account) floatingOf(nodes int) int {
	switch a.s.Floating {
	case FloatingAll:
		return nodes
	case FloatingNone:
		return 0
	}
	return 1
}

// attach gives floating addresses to machines that lack one.
func (a *account) attach(ctx context.Context, o cloud.Order, machines []cloud.Machine) error {
	wanted := a.floatingOf(o.Nodes)
	if wanted == 0 {
		return nil
	}
	addresses, err := a.floating(ctx, describe(o.Owner), nameOf(o.Token))
	if err != nil {
		return err
	}
	for _, m := range machines[:min(wanted, len(machines))] {
		var answer struct {
			Ports []struct {
				ID string `json:"id"`
			}
		}
		if err := a.call(ctx, network, get, "ports?device_id="+m.ID, nil, &answer); err != nil {
			return err
		}
		if len(answer.Ports) == 0 || !isID(answer.Ports[0].ID) {
			return &core.Error{Kind: core.Transient, Op: "find the port of machine", Object: m.ID, Err: errors.New("none is listed"), Remedy: core.RemedyAgain}
		}
		port := answer.Ports[0].ID
		if slices.ContainsFunc(addresses, func(f floatingAddress) bool { return f.Port == port }) {
			continue
		}
		free := slices.IndexFunc(addresses, func(f floatingAddress) bool { return f.Port == "" })
		if free < 0 {
			return &core.Error{Kind: core.Transient, Op: "attach an address to machine", Object: m.ID, Err: errors.New("none of its run is free"), Remedy: core.RemedyAgain}
		}
		body := map[string]any{"floatingip": map[string]any{"port_id": port}}
		if err := a.call(ctx, network, put, "floatingips/"+addresses[free].ID, body, nil); err != nil {
			return err
		}
		addresses[free].Port = port
	}
	return nil
}

// reached returns machines with the addresses by which ssh reaches them. Where only the head has a floating
// address, the others, and the head itself, are reached through that.
func (a *account) reached(machines []cloud.Machine, addresses []floatingAddress) []cloud.Machine {
	public := map[string]string{}
	for _, f := range addresses {
		if address := checked(f.Address); address != "" && f.Fixed != "" {
			public[f.Fixed] = address
		}
	}
	switch a.s.Floating {
	case FloatingNone:
	case FloatingAll:
		for i := range machines {
			machines[i].Address = public[machines[i].Address]
		}
	default:
		for i := range machines {
			if machines[i].Index == 0 {
				jump := public[machines[i].Address]
				for j := range machines {
					if machines[j].Jump = jump; jump == "" {
						machines[j].Address = ""
					}
				}
				break
			}
		}
	}
	return machines
}

// checked returns an address, or "" where it is none: it becomes part of a command line.
func checked(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Zone() != "" {
		return ""
	}
	return ip.String()
}
