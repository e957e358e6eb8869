package openstackserver

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// serverGroup is a group by which Nova places machines.
type serverGroup struct {
	id, name, policy string
	members          []string
}

func (p *serverGroup) item() map[string]any {
	return map[string]any{"id": p.id, "name": p.name, "policies": []any{p.policy}, "members": p.members, "metadata": map[string]any{}}
}

// place returns the server group with an id, or nil.
func (s *Server) place(id string) *serverGroup {
	for _, p := range s.places {
		if p.id == id {
			return p
		}
	}
	return nil
}

func (c nova) listPlaces(*http.Request, map[string]any) (int, any, error) {
	items := []any{}
	for _, p := range c.s.places {
		items = append(items, p.item())
	}
	return http.StatusOK, map[string]any{"server_groups": items}, nil
}

// makePlace makes a server group. Older versions know no policy that is not required.
func (c nova) makePlace(r *http.Request, body map[string]any) (int, any, error) {
	q, _ := body["server_group"].(map[string]any)
	policies, _ := q["policies"].([]any)
	known := []string{"affinity", "anti-affinity"}
	if r.Header.Get("OpenStack-API-Version") == "compute 2.15" {
		known = append(known, "soft-affinity", "soft-anti-affinity")
	}
	if len(policies) != 1 || !slices.Contains(known, fmt.Sprint(policies[0])) {
		return 0, nil, fail(http.StatusBadRequest, "Invalid input for field/attribute policies. Value: %v. One of %s is wanted", policies, strings.Join(known, ", "))
	}
	p := &serverGroup{id: c.s.id("place"), name: fmt.Sprint(q["name"]), policy: fmt.Sprint(policies[0])}
	c.s.places = append(c.s.places, p)
	return http.StatusOK, map[string]any{"server_group": p.item()}, nil
}

func (c nova) endPlace(r *http.Request, _ map[string]any) (int, any, error) {
	p := c.s.place(r.PathValue("id"))
	if p == nil {
		return 0, nil, fail(http.StatusNotFound, "Instance group %s could not be found.", r.PathValue("id"))
	}
	c.s.places = slices.DeleteFunc(c.s.places, func(o *serverGroup) bool { return o == p })
	return http.StatusNoContent, nil, nil
}
