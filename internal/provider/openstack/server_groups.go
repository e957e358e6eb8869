package openstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// computeSoft is Nova with the version from which on it has policies that are not required.
const computeSoft = compute + " 2.15"

// serverGroups are the groups by which Nova places machines. They have neither tags nor a description.
type serverGroups struct{ a *account }

// serverGroup is a server group in an answer.
type serverGroup struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// policyOf returns Nova's policy for a placement, and the service with the version that has it.
func policyOf(p cloud.Placement) (policy, service string) {
	policy = "affinity"
	if p.Kind == cloud.Spread {
		policy = "anti-affinity"
	}
	if p.Required {
		return policy, compute
	}
	return "soft-" + policy, computeSoft
}

// named returns the server groups of the project with a name. Its quota, ten by default, is far below a page.
func (s serverGroups) named(ctx context.Context, name string) (found []serverGroup, err error) {
	var answer struct {
		Groups []serverGroup `json:"server_groups"`
	}
	err = s.a.call(ctx, compute, get, "os-server-groups", nil, &answer)
	for _, g := range answer.Groups {
		if g.Name == name && isID(g.ID) {
			found = append(found, g)
		}
	}
	return found, err
}

// make makes the server group of a group, or returns the one that there is: Nova takes a name twice.
func (s serverGroups) make(ctx context.Context, g cloud.Group) (id string, err error) {
	policy, service := policyOf(g.Placement)
	body := map[string]any{"server_group": map[string]any{"name": g.Name, "policies": []string{policy}}}
	there, err := s.named(ctx, g.Name)
	for try := 1; err == nil && len(there) == 0; try++ {
		var made struct {
			Group serverGroup `json:"server_group"`
		}
		err = s.a.call(ctx, service, post, "os-server-groups", body, &made)
		if core.IsKind(err, core.Transient) && try == 1 { // it may have been made
			there, err = s.named(ctx, g.Name)
			continue
		}
		there = []serverGroup{made.Group}
	}
	switch {
	case err == nil && !isID(there[0].ID):
		return "", &core.Error{Kind: core.Permanent, Op: "make server group", Object: g.Name, Err: fmt.Errorf("its id is %q", core.Printable(there[0].ID, 80)), Remedy: "Set `placement: none` at the site."}
	case err == nil:
		return there[0].ID, nil
	case isForbidden(err), statusOf(err) == http.StatusBadRequest, statusOf(err) == http.StatusNotAcceptable: // of older versions
		return "", g.Placement.Refused(err)
	}
	return "", err
}

// end removes the server group that was made for a group. Where Nova shows none to this user, none was made.
func (s serverGroups) end(ctx context.Context, name string) error {
	if !strings.HasPrefix(name, nameOf("")) {
		return nil
	}
	there, err := s.named(ctx, name)
	if isForbidden(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range there {
		if err := s.a.call(ctx, compute, remove, "os-server-groups/"+g.ID, nil, nil); err != nil && !isGone(err) {
			return err
		}
	}
	return nil
}

// isForbidden reports whether a user who may use Nova may not use its server groups: by a role, by the rules of an application
// credential (status 401), or as there are none.
func isForbidden(err error) bool {
	status := statusOf(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound
}

// isFullGroup reports whether Nova refuses machines as a server group has no room for as many, by the project's quota.
func isFullGroup(err error) bool {
	e, is := errors.AsType[*serviceError](err)
	return is && isQuota(e) && strings.Contains(e.message, "servers in group")
}
