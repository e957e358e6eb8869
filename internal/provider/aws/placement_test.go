package aws_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
)

// placedAs has a site place its machines.
func placedAs(kind cloud.PlacementKind, required bool) func(*aws.Settings) {
	return func(c *aws.Settings) { c.Cloud.Placement = cloud.Placement{Kind: kind, Required: required} }
}

// text is the parameters of a call as golden files have them.
func text(action string, params url.Values) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", action)
	for _, key := range slices.Sorted(maps.Keys(params)) {
		value := params.Get(key)
		switch {
		case key == "UserData", key == "ClientToken":
			value = "…"
		case regexp.MustCompile(`^20[0-9-]+T[0-9:]+Z$`).MatchString(value):
			value = "TIME"
		}
		fmt.Fprintf(&b, "  %s=%s\n", key, regexp.MustCompile(`^bee-[a-z0-9]{20,}$`).ReplaceAllString(value, "bee-TOKEN"))
	}
	return b.String()
}

// TestPlacementGroup is made with tags before the machines that are in it, and gone after them, though answers are lost and
// its record, too.
func TestPlacementGroup(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	s.Drop("CreatePlacementGroup", true)                                                  // the next call finds it
	s.Fail("RunInstances", "InvalidPlacementGroup.Unknown", http.StatusBadRequest, false) // it is new
	l, err := site(t, s, t.TempDir(), func(c *aws.Settings) {
		placedAs(cloud.Cluster, false)(c)
		c.Zones, c.Tags = []string{ec2server.ZoneA}, map[string]string{"project": "cfd"}
	}).Acquire(t.Context(), driver.Request{Owner: owner("placed"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if left := s.Left(); len(left) != 4 || !strings.HasPrefix(left[2], "placement cluster bee-") {
		t.Errorf("rented were %v", left)
	}
	for _, h := range l.Hosts() {
		if h.Placement != "cluster" {
			t.Errorf("host %+v", h)
		}
	}
	made, rented := s.Params("CreatePlacementGroup"), s.Params("RunInstances")
	testkit.Golden(t, "placement", text("CreatePlacementGroup", made[len(made)-1])+text("RunInstances", rented[len(rented)-1])+text("CreateSecurityGroup", s.Params("CreateSecurityGroup")[0]))
	fresh := site(t, s, t.TempDir(), nil) // without the record, and the site has changed
	s.Fail("DeletePlacementGroup", "InvalidPlacementGroup.InUse", http.StatusBadRequest, false)
	s.Drop("DeletePlacementGroup", true)
	if err := driver.ReleaseOwned(t.Context(), fresh, core.Owner{User: "u"}, "u"); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
}

// TestNoPlacement has machines rented without where they cannot be placed, unless that is required. An answer names the right
// that is missing.
func TestNoPlacement(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	for _, zone := range []string{ec2server.ZoneA, ec2server.ZoneB} {
		s.Full("cluster "+ec2server.Small, zone)
	}
	get := func(change func(*aws.Settings), nodes int) (driver.Lease, error) {
		return site(t, s, t.TempDir(), change).Acquire(t.Context(), driver.Request{Owner: owner("none"), Nodes: nodes})
	}
	if _, err := get(placedAs(cloud.Cluster, true), 2); !core.IsKind(err, core.Busy) || !errorsName(err, "as cluster", ec2server.ZoneA, ec2server.ZoneB) {
		t.Errorf("without capacity: %v", err)
	}
	arm := func(c *aws.Settings) {
		placedAs(cloud.Cluster, true)(c)
		c.Types, c.Image = []string{ec2server.Arm}, ec2server.ImageArm
	}
	if _, err := get(arm, 2); !core.IsKind(err, core.Unsupported) || !errorsName(err, ec2server.Arm) || core.Remedy(err) == "" {
		t.Errorf("a type that cannot: %v", err)
	}
	if _, err := get(placedAs(cloud.Spread, true), 8); !core.IsKind(err, core.Unsupported) || !errorsName(err, "at most 7") {
		t.Errorf("too many: %v", err)
	}
	s.Fail("CreatePlacementGroup", "PlacementGroupLimitExceeded", http.StatusBadRequest, false)
	if _, err := get(placedAs(cloud.Spread, true), 2); !core.IsKind(err, core.Busy) || core.Remedy(err) == "" {
		t.Errorf("beyond the quota: %v", err)
	}
	wantNothingLeft(t, s)
	for _, action := range []string{"CreatePlacementGroup", "DeletePlacementGroup"} {
		s.Deny(action)
		f, err := site(t, s, t.TempDir(), placedAs(cloud.Spread, true)).Probe(t.Context())
		if reported := errors.New(f.Reason + f.Remedy); err != nil || f.Usable || !errorsName(reported, "ec2:"+action) {
			t.Errorf("without the right to %s: %+v, %v", action, f, err)
		}
		s.Allow(action)
	}
	s.Deny("DeletePlacementGroup") // no placement group is made that could not be removed
	l, err := get(placedAs(cloud.Cluster, false), 2)
	if err != nil {
		t.Fatal(err)
	}
	if left := s.Left(); len(left) != 3 || l.Hosts()[0].Placement != "none" {
		t.Errorf("rented were %v: %+v", left, l.Hosts())
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
}
