package aws_test

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
)

// TestNetworks: where machines are, and whether they have public addresses, by what the site says of its network.
func TestNetworks(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	for name, c := range map[string]struct {
		change         func(*aws.Settings)
		subnet, public string
	}{
		"the default":          {func(c *aws.Settings) { c.Zones = []string{ec2server.ZoneA} }, "subnet-a", "true"},
		"a VPC":                {func(c *aws.Settings) { c.VPC = ec2server.OtherVPC }, ec2server.OtherPublic, "true"},
		"a subnet":             {func(c *aws.Settings) { c.Subnets = []string{ec2server.OtherPrivate} }, ec2server.OtherPrivate, "true"},
		"a VPC, to be private": {func(c *aws.Settings) { c.VPC, c.Public = ec2server.OtherVPC, aws.PublicNo }, ec2server.OtherPrivate, "false"},
		"a VPC, to be public":  {func(c *aws.Settings) { c.VPC, c.Public = ec2server.PrivateVPC, aws.PublicYes }, "subnet-3", "true"},
		"both": {func(c *aws.Settings) {
			c.VPC, c.Subnets = ec2server.OtherVPC, []string{ec2server.OtherPublic, ec2server.OtherPrivate}
		}, ec2server.OtherPublic, "true"},
		"behind a bastion":      {func(c *aws.Settings) { c.VPC, c.Cloud.Bastion = ec2server.PrivateVPC, "me@gate" }, "subnet-3", "false"},
		"the default, as words": {func(c *aws.Settings) { c.Zones, c.Public = []string{ec2server.ZoneA}, aws.PublicAuto }, "subnet-a", "true"},
	} {
		if f, err := site(t, s, t.TempDir(), c.change).Probe(t.Context()); err != nil || !f.Usable {
			t.Errorf("%s: %+v, %v", name, f, err)
			continue
		}
		tried := s.Params("RunInstances")
		last := tried[len(tried)-1]
		subnet, public := last.Get("NetworkInterface.1.SubnetId"), last.Get("NetworkInterface.1.AssociatePublicIpAddress")
		if subnet != c.subnet || public != c.public {
			t.Errorf("%s: machines would be in %s, public %s; expected %s, %s", name, subnet, public, c.subnet, c.public)
		}
	}
	wantNothingLeft(t, s)
}

// TestPrivateMachines are reached by their private addresses from a machine that is in their network.
func TestPrivateMachines(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *aws.Settings) { c.VPC, c.Public = ec2server.PrivateVPC, aws.PublicNo })
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner("private"), Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if st, err := l.Status(t.Context()); err != nil || !st.Live || len(l.Hosts()) != 2 {
		t.Errorf("it has %+v, %v", st, err)
	}
	if list, err := p.List(t.Context(), core.Owner{User: "u"}); err != nil || len(list) != 1 {
		t.Errorf("listed are %v, %v", list, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	wantNothingLeft(t, s)
}

// TestTypes are listed by patterns, with their zones and prices.
func TestTypes(t *testing.T) {
	s := ec2server.Start(t)
	s.Use(t)
	p := site(t, s, t.TempDir(), func(c *aws.Settings) { c.Cloud.Priced = true })
	for pattern, want := range map[string]string{"": ec2server.Small, "t9.*": ec2server.Small + " " + ec2server.Large, "h9.*": ec2server.ZoneBound, "none.*": ""} {
		var patterns, names []string
		if pattern != "" {
			patterns = []string{pattern}
		}
		list, err := p.Inventory().Types(t.Context(), patterns)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			names = append(names, m.Name)
			zones, spot := 2, ec2server.SpotPrice
			if m.Name == ec2server.ZoneBound {
				zones, spot = 1, 0
			}
			if m.Price == nil || m.Price.Amount != ec2server.ListPrice(m.Cores) || len(m.Zones) != zones || (m.Spot == nil) != (spot == 0) || m.Spot != nil && m.Spot.Amount != spot || m.Arch != "amd64" {
				t.Errorf("%s is %+v", m.Name, m)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: got %q, expected %q", pattern, got, want)
		}
	}
}
