package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// subnet is a subnet in an answer.
type subnet struct {
	ID   string `xml:"subnetId"`
	VPC  string `xml:"vpcId"`
	Zone string `xml:"availabilityZone"`
	// Public means that machines get public addresses there by themselves.
	Public bool `xml:"mapPublicIpOnLaunch"`
}

// networks finds where machines are.
type networks struct{ a *account }

// describe returns the subnets of the region that pass filters.
func (n networks) describe(ctx context.Context, filters ...filter) ([]subnet, error) {
	type page struct {
		Subnets []subnet `xml:"subnetSet>item"`
		Next    string   `xml:"nextToken"`
	}
	return list(ctx, n.a, "DescribeSubnets", filters, func(p page) ([]subnet, string) { return p.Subnets, p.Next })
}

// subnets returns those to use, in the order of the site's zones.
func (n networks) subnets(ctx context.Context) ([]subnet, error) {
	found, err := n.chosen(ctx)
	if err != nil {
		return nil, err
	}
	s := n.a.s
	for _, zone := range s.Zones {
		if !slices.ContainsFunc(found, func(s subnet) bool { return s.Zone == zone }) {
			return nil, n.a.invalid("zones", zone, fmt.Errorf("no subnet of the site's network is there; it has some in %s", strings.Join(cloud.Nearest(zone, values(found, subnet.zone)), ", ")))
		}
	}
	if len(s.Zones) > 0 {
		found = slices.DeleteFunc(found, func(f subnet) bool { return !slices.Contains(s.Zones, f.Zone) })
	}
	for _, id := range s.Subnets {
		if !slices.ContainsFunc(found, func(f subnet) bool { return f.ID == id }) {
			return nil, n.a.invalid("network", id, errors.New("this subnet is in none of the site's zones"))
		}
	}
	slices.SortStableFunc(found, func(x, y subnet) int {
		return cmp.Or(rank(s.Zones, x.Zone)-rank(s.Zones, y.Zone), rank(s.Subnets, x.ID)-rank(s.Subnets, y.ID), strings.Compare(x.Zone, y.Zone), strings.Compare(x.ID, y.ID))
	})
	return found, nil
}

// chosen returns the subnets of the site in all zones.
func (n networks) chosen(ctx context.Context) ([]subnet, error) {
	s := n.a.s
	switch {
	case len(s.Subnets) > 0:
		return n.named(ctx)
	case s.VPC != "":
		return n.ofVPC(ctx)
	}
	found, err := n.describe(ctx, filter{"default-for-az", []string{"true"}})
	if err == nil && len(found) == 0 {
		err = n.a.invalid("network", "", errors.New("the account has no default network in the region; name `vpc` or `subnets`"))
	}
	return found, err
}

// named returns the subnets that the site names.
func (n networks) named(ctx context.Context) ([]subnet, error) {
	s := n.a.s
	found, err := n.describe(ctx, filter{"subnet-id", s.Subnets})
	if err != nil {
		return nil, err
	}
	for _, id := range s.Subnets {
		switch at := slices.IndexFunc(found, func(f subnet) bool { return f.ID == id }); {
		case at < 0:
			there, err := n.describe(ctx, filter{"vpc-id", listOf(s.VPC)})
			if err != nil {
				return nil, err
			}
			return nil, n.a.unknown("network", id, "subnet", values(there, subnet.id))
		case s.VPC != "" && found[at].VPC != s.VPC:
			return nil, n.a.invalid("network", id, fmt.Errorf("this subnet is in %s, and `vpc` is %s", found[at].VPC, s.VPC))
		}
	}
	return found, nil
}

// ofVPC returns the subnets of the site's network: where machines are to have public addresses without a word of the user, those
// that give them by themselves, as the others may have no way to the internet.
func (n networks) ofVPC(ctx context.Context) ([]subnet, error) {
	s := n.a.s
	found, err := n.describe(ctx, filter{"vpc-id", []string{s.VPC}})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		there, err := n.describe(ctx)
		if err != nil {
			return nil, err
		}
		return nil, n.a.unknown("network", s.VPC, "VPC with subnets", values(there, subnet.vpc))
	}
	if n.a.private() || s.Public == PublicYes {
		return found, nil
	}
	public := slices.DeleteFunc(slices.Clone(found), func(f subnet) bool { return !f.Public })
	if len(public) == 0 {
		return nil, n.a.invalid("network", s.VPC, fmt.Errorf(
			"none of its subnets gives public addresses by itself (%s): write `public: true` if they have a way to the internet, or a `bastion`, or `public: false`", strings.Join(cloud.Nearest("", values(found, subnet.id)), ", "),
		))
	}
	return public, nil
}

func (s subnet) id() string   { return s.ID }
func (s subnet) vpc() string  { return s.VPC }
func (s subnet) zone() string { return s.Zone }

// values returns a value of each subnet.
func values(subnets []subnet, value func(subnet) string) (all []string) {
	for _, s := range subnets {
		all = append(all, value(s))
	}
	return all
}

// listOf returns a word as a list; of "", an empty one.
func listOf(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

// rank returns the place of a word in a list; of one that is not there, the place behind it.
func rank(list []string, word string) int {
	if i := slices.Index(list, word); i >= 0 {
		return i
	}
	return len(list)
}
