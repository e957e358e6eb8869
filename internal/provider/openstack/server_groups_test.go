package openstack_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// placedAs has a site place its machines.
func placedAs(kind cloud.PlacementKind, required bool) func(*openstack.Settings) {
	return func(c *openstack.Settings) { c.Cloud.Placement = cloud.Placement{Kind: kind, Required: required} }
}

// changing are the parts of a body that no two runs have alike.
var changing = regexp.MustCompile(`bee-[a-z0-9]{20,}|"user_data": "[^"]*"|"bee:(expires|token)": "[^"]*"|sg-[0-9]{4}-[0-9a-f]+|place-[0-9]{4}-[0-9a-f]+`)

// golden is a body as golden files have it.
func golden(body string) string {
	return changing.ReplaceAllStringFunc(body, func(part string) string {
		name, _, is := strings.Cut(part, `": "`)
		if is {
			return name + `": "…"`
		}
		return part[:strings.Index(part, "-")] + "-…"
	})
}

// TestServerGroup is made before the machines that are in it, and gone after them, though answers are lost and its record,
// too.
func TestServerGroup(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	const place, rent = "POST /compute/v2.1/os-server-groups", "POST /compute/v2.1/servers"
	s.Drop(place, true)
	l, err := site(t, s, t.TempDir(), placedAs(cloud.Spread, false)).Acquire(t.Context(), driver.Request{Owner: owner("placed"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	wantLeft(t, s, "floating", "group", "placement", "server", "server")
	if h := l.Hosts()[0]; h.Placement != "spread" {
		t.Errorf("host %+v", h)
	}
	testkit.Golden(t, "server-group", "POST os-server-groups\n"+golden(s.Bodies(place)[0])+"\nPOST servers\n"+golden(s.Bodies(rent)[0])+"\n")
	s.Drop("DELETE /compute/v2.1/os-server-groups/{id}", true)
	if err := driver.ReleaseOwned(t.Context(), site(t, s, t.TempDir(), nil), core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantLeft(t, s)
}

// TestNoServerGroup has machines rented without where they cannot be placed, unless that is required.
func TestNoServerGroup(t *testing.T) {
	s := openstackserver.Start(t)
	s.Use(t)
	const place, list, rent = "POST /compute/v2.1/os-server-groups", "GET /compute/v2.1/os-server-groups", "POST /compute/v2.1/servers"
	get := func(change func(*openstack.Settings)) (driver.Lease, error) {
		return site(t, s, t.TempDir(), change).Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: 2})
	}
	s.Full("affinity "+openstackserver.Small, 1)
	if _, err := get(placedAs(cloud.Cluster, true)); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "as cluster: ") {
		t.Errorf("without room: %v", err)
	}
	s.Members(1)
	if _, err := get(placedAs(cloud.Spread, true)); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
		t.Errorf("beyond the quota: %v", err)
	}
	wantLeft(t, s)
	for name, refuse := range map[string]func(){
		"beyond the quota of machines": func() {},
		"beyond that of groups":        func() { s.Fail(place, http.StatusForbidden, false) },
		"an older cloud":               func() { s.Fail(place, http.StatusNotAcceptable, false) },
		"no right": func() {
			s.Fail(list, http.StatusForbidden, false)
			s.Fail(list, http.StatusForbidden, false)
		},
	} {
		refuse()
		s.Full(openstackserver.Small, 1) // so that none boots
		if _, err := get(placedAs(cloud.Cluster, false)); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "m1.small as cluster: ") || !strings.Contains(err.Error(), "No valid host") {
			t.Errorf("%s: %v", name, err)
		}
		if asked := s.Bodies(rent); strings.Contains(asked[len(asked)-1], "os:scheduler_hints") {
			t.Errorf("%s: asked for\n%s", name, asked[len(asked)-1])
		}
		wantLeft(t, s)
	}
}
