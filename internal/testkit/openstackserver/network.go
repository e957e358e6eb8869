package openstackserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Networks: machines in Private are reached by floating addresses of Pool, and those in Flat by their own.
const (
	Private = "private"
	Flat    = "flat"
	Pool    = "public"
)

// Ids of networks.
const (
	private = "net-private"
	flat    = "net-flat"
	pool    = "net-public"
)

// group is a security group.
type group struct {
	id, name, description string
	rules                 []string
}

// made is when Neutron has made everything.
const made = "2026-11-27T18:00:00Z"

// address is a floating address.
type address struct{ id, address, fixed, port, description string }

// neutron answers the calls of Neutron.
type neutron struct{ s *Server }

func (neutron) listNetworks(*http.Request, map[string]any) (int, any, error) {
	net := func(id, name string, external bool) map[string]any {
		return map[string]any{"id": id, "name": name, "router:external": external, "status": "ACTIVE", "shared": true, "admin_state_up": true, "subnets": []any{}}
	}
	return http.StatusOK, map[string]any{"networks": []any{net(private, Private, false), net(flat, Flat, false), net(pool, Pool, true)}}, nil
}

func (n neutron) listPorts(r *http.Request, _ map[string]any) (int, any, error) {
	ports := []any{}
	if m := n.s.find(r.URL.Query().Get("device_id")); m != nil {
		ports = append(ports, map[string]any{"id": "port-" + m.id, "device_id": m.id, "network_id": m.network})
	}
	return http.StatusOK, map[string]any{"ports": ports}, nil
}

func (g *group) item() map[string]any {
	return map[string]any{"id": g.id, "name": g.name, "description": g.description, "project_id": projectID, "created_at": made}
}

func (n neutron) listGroups(r *http.Request, _ map[string]any) (int, any, error) {
	q := r.URL.Query()
	items := []any{(&group{id: "sg-default", name: "default", description: "Default security group"}).item()}
	for _, g := range n.s.groups {
		items = append(items, g.item())
	}
	items = slices.DeleteFunc(items, func(i any) bool { return q.Get("name") != "" && i.(map[string]any)["name"] != q.Get("name") })
	if id := q.Get("project_id"); id != projectID {
		return 0, nil, refuse(http.StatusBadRequest, "HTTPBadRequest", "groups of project %q were asked for", id)
	}
	return http.StatusOK, map[string]any{"security_groups": items}, nil
}

func (n neutron) group(id string) (*group, error) {
	for _, g := range n.s.groups {
		if g.id == id {
			return g, nil
		}
	}
	return nil, refuse(http.StatusNotFound, "SecurityGroupNotFound", "Security group %s does not exist", id)
}

func (n neutron) showGroup(r *http.Request, _ map[string]any) (int, any, error) {
	g, err := n.group(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, map[string]any{"security_group": g.item()}, nil
}

func (n neutron) makeGroup(_ *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["security_group"].(map[string]any)
	description := fmt.Sprint(q["description"])
	if len(description) > 255 {
		return 0, nil, refuse(http.StatusBadRequest, "HTTPBadRequest", "Invalid input for description.")
	}
	g := &group{id: n.s.id("sg"), name: fmt.Sprint(q["name"]), description: description}
	n.s.groups = append(n.s.groups, g)
	return http.StatusCreated, map[string]any{"security_group": g.item()}, nil
}

func (n neutron) endGroup(r *http.Request, _ map[string]any) (int, any, error) {
	g, err := n.group(r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	if slices.ContainsFunc(n.s.servers, func(m *server) bool { return m.group == g.id && m.batch != nil }) {
		return 0, nil, refuse(http.StatusConflict, "SecurityGroupInUse", "Security Group %s in use.", g.id)
	}
	n.s.groups = slices.DeleteFunc(n.s.groups, func(o *group) bool { return o == g })
	return http.StatusNoContent, nil, nil
}

func (n neutron) makeRule(_ *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["security_group_rule"].(map[string]any)
	g, err := n.group(fmt.Sprint(q["security_group_id"]))
	if err != nil {
		return 0, nil, err
	}
	var words []string
	for _, key := range []string{"direction", "ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id"} {
		if value, given := q[key]; given {
			words = append(words, fmt.Sprint(value))
		}
	}
	rule := strings.ReplaceAll(strings.Join(words, " "), g.id, "itself")
	if slices.Contains(g.rules, rule) {
		return 0, nil, refuse(http.StatusConflict, "SecurityGroupRuleExists", "Security group rule already exists. Rule id is x.")
	}
	g.rules = append(g.rules, rule)
	return http.StatusCreated, map[string]any{"security_group_rule": q}, nil
}

// Rules are those of all groups.
func (s *Server) Rules() (rules []string) {
	s.locked(func() {
		for _, g := range s.groups {
			rules = append(rules, g.rules...)
		}
	})
	slices.Sort(rules)
	return rules
}

func (a *address) item() map[string]any {
	item := map[string]any{"id": a.id, "floating_ip_address": a.address, "fixed_ip_address": nil, "port_id": nil, "description": a.description, "status": "DOWN", "created_at": made}
	if a.port != "" {
		item["port_id"], item["fixed_ip_address"], item["status"] = a.port, a.fixed, "ACTIVE"
	}
	return item
}

func (n neutron) listFloating(r *http.Request, _ map[string]any) (int, any, error) {
	items, q := []any{}, r.URL.Query()
	all := n.s.floating
	if n.s.bastion != "" {
		all = append(all[:len(all):len(all)], &address{"fip-bastion", n.s.bastion, BastionInside, "port-bastion", "the user's own"})
	}
	for _, a := range all {
		if is := func(key, value string) bool { return !q.Has(key) || q.Get(key) == value }; is("description", a.description) && is("floating_ip_address", a.address) {
			items = append(items, a.item())
		}
	}
	return http.StatusOK, map[string]any{"floatingips": items}, nil
}

func (n neutron) makeFloating(_ *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["floatingip"].(map[string]any)
	if q["floating_network_id"] != pool {
		return 0, nil, refuse(http.StatusBadRequest, "BadRequest", "Network %v is not a valid external network", q["floating_network_id"])
	}
	if n.s.pool == 0 {
		return 0, nil, refuse(http.StatusConflict, "IpAddressGenerationFailure", "No more IP addresses available on network %s.", pool)
	}
	n.s.pool--
	id := n.s.id("fip")
	a := &address{id: id, address: fmt.Sprintf("198.51.%d.%d", 100+n.s.serial/250, 1+n.s.serial%250), description: fmt.Sprint(q["description"])}
	n.s.floating = append(n.s.floating, a)
	return http.StatusCreated, map[string]any{"floatingip": a.item()}, nil
}

func (n neutron) attachFloating(r *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["floatingip"].(map[string]any)
	m := n.s.find(strings.TrimPrefix(fmt.Sprint(q["port_id"]), "port-"))
	for _, a := range n.s.floating {
		if a.id != r.PathValue("id") {
			continue
		}
		if m == nil || m.batch == nil {
			return 0, nil, refuse(http.StatusNotFound, "PortNotFound", "Port %v could not be found.", q["port_id"])
		}
		if err := m.batch.Route(a.address, m.at); err != nil {
			return 0, nil, refuse(http.StatusBadRequest, "BadRequest", "%v", err)
		}
		a.port, a.fixed = "port-"+m.id, m.batch.Address(m.at)
		return http.StatusOK, map[string]any{"floatingip": a.item()}, nil
	}
	return 0, nil, refuse(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", r.PathValue("id"))
}

func (n neutron) endFloating(r *http.Request, _ map[string]any) (int, any, error) {
	for _, a := range n.s.floating {
		if a.id == r.PathValue("id") {
			n.s.pool++
			n.s.floating = slices.DeleteFunc(n.s.floating, func(o *address) bool { return o == a })
			return http.StatusNoContent, nil, nil
		}
	}
	return 0, nil, refuse(http.StatusNotFound, "FloatingIPNotFound", "Floating IP %s could not be found", r.PathValue("id"))
}

// RemoveGroups has all groups gone, and what places machines, as after their user's own calls.
func (s *Server) RemoveGroups() {
	s.locked(func() { s.groups, s.places = nil, nil })
}
