package aws

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// machineType is a type of machines in an answer.
type machineType struct {
	Name   string   `xml:"instanceType"`
	Cores  int      `xml:"vCpuInfo>defaultVCpus"`
	Memory int64    `xml:"memoryInfo>sizeInMiB"`
	Arch   []string `xml:"processorInfo>supportedArchitectures>item"`
	GPUs   []struct {
		Count int `xml:"count"`
	} `xml:"gpuInfo>gpus>item"`
	Strategies []string `xml:"placementGroupInfo>supportedStrategies>item"`
}

// arch returns the GOARCH of a type, or "".
func (t machineType) arch() string {
	for _, a := range t.Arch {
		switch a {
		case "x86_64":
			return "amd64"
		case "arm64":
			return "arm64"
		}
	}
	return ""
}

func (t machineType) gpus() (n int) {
	for _, g := range t.GPUs {
		n += g.Count
	}
	return n
}

// Offers implements cloud.API: by market, then by type, in their order, each in all zones.
func (a *account) Offers(ctx context.Context) ([]cloud.Offer, error) {
	types, err := a.types(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := a.zonesOf(ctx)
	if err != nil {
		return nil, err
	}
	subnets, err := a.subnets(ctx)
	if err != nil {
		return nil, err
	}
	var offers []cloud.Offer
	images := map[string]image{}
	for _, t := range types {
		arch := t.arch()
		if arch == "" {
			return nil, a.invalid("types", t.Name, fmt.Errorf("its processors are %s, and bee runs on x86_64 and arm64", strings.Join(t.Arch, ", ")))
		}
		if _, known := images[arch]; !known {
			if images[arch], err = a.image(ctx, arch); err != nil {
				return nil, err
			}
		}
		i := images[arch]
		for _, s := range subnets {
			if !slices.Contains(zones[t.Name], s.Zone) {
				continue
			}
			offers = append(offers, cloud.Offer{
				Type: t.Name, Zone: s.Zone, Image: i.ID, User: i.user, Arch: arch, Cores: t.Cores, Memory: t.Memory << 20, GPUs: t.gpus(),
				Network: s.VPC, Subnet: s.ID, Disk: i.Disk, Others: i.others(), Together: t.most(cloud.Cluster), Apart: t.most(cloud.Spread),
			})
		}
	}
	return a.inMarkets(offers), nil
}

// inMarkets returns the offers of each market of the site, in its order; of none, they are on demand.
func (a *account) inMarkets(offers []cloud.Offer) []cloud.Offer {
	if len(a.s.Market) == 0 {
		return offers
	}
	var all []cloud.Offer
	for _, market := range a.s.Market {
		for _, o := range offers {
			o.Spot = market == spot
			all = append(all, o)
		}
	}
	return all
}

// invalid is the error of a setting that EC2 does not know.
func (a *account) invalid(key, value string, err error) error {
	return &core.Error{Kind: core.Unsupported, Op: "use", Object: fmt.Sprintf("%s %q of site %s", key, value, a.s.Cloud.Name), Err: err, Remedy: "Check `aws: {" + key + ": …}` at the site."}
}

// types returns the types of the site, in its order.
func (a *account) types(ctx context.Context) ([]machineType, error) {
	var answer struct {
		Types []machineType `xml:"instanceTypeSet>item"`
	}
	if err := a.call(ctx, "DescribeInstanceTypes", filtered(url.Values{}, filter{"instance-type", a.s.Types}), &answer); err != nil {
		return nil, err
	}
	var types []machineType
	for _, name := range a.s.Types {
		i := slices.IndexFunc(answer.Types, func(t machineType) bool { return t.Name == name })
		if i < 0 {
			return nil, a.invalid("types", name, a.like(ctx, name))
		}
		types = append(types, answer.Types[i])
	}
	return types, nil
}

// like is an error that names the types of the same family.
func (a *account) like(ctx context.Context, name string) error {
	family, _, _ := strings.Cut(name, ".")
	var answer struct {
		Types []machineType `xml:"instanceTypeSet>item"`
	}
	if err := a.call(ctx, "DescribeInstanceTypes", filtered(url.Values{}, filter{"instance-type", []string{family + ".*"}}), &answer); err != nil {
		return err
	}
	var names []string
	for _, t := range answer.Types {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return fmt.Errorf("the region has no type of the family %q", core.Printable(family, 40))
	}
	slices.Sort(names)
	return fmt.Errorf("the region has no such type; it has %s", strings.Join(names[:min(len(names), 20)], ", "))
}

// zonesOf returns the zones that offer each type of the site.
func (a *account) zonesOf(ctx context.Context) (map[string][]string, error) {
	var answer struct {
		Offered []struct {
			Type string `xml:"instanceType"`
			Zone string `xml:"location"`
		} `xml:"instanceTypeOfferingSet>item"`
	}
	if err := a.call(ctx, "DescribeInstanceTypeOfferings", filtered(url.Values{"LocationType": {"availability-zone"}}, filter{"instance-type", a.s.Types}), &answer); err != nil {
		return nil, err
	}
	zones := map[string][]string{}
	for _, o := range answer.Offered {
		zones[o.Type] = append(zones[o.Type], o.Zone)
	}
	return zones, nil
}

// subnet is a subnet in an answer.
type subnet struct {
	ID   string `xml:"subnetId"`
	VPC  string `xml:"vpcId"`
	Zone string `xml:"availabilityZone"`
}

// subnets returns those to use, in the order of the site's zones.
func (a *account) subnets(ctx context.Context) ([]subnet, error) {
	chosen := filter{"default-for-az", []string{"true"}}
	if len(a.s.Subnets) > 0 {
		chosen = filter{"subnet-id", a.s.Subnets}
	}
	var answer struct {
		Subnets []subnet `xml:"subnetSet>item"`
	}
	if err := a.call(ctx, "DescribeSubnets", filtered(url.Values{}, chosen, filter{"availability-zone", a.s.Zones}), &answer); err != nil {
		return nil, err
	}
	if len(answer.Subnets) == 0 && len(a.s.Subnets) == 0 && len(a.s.Zones) == 0 {
		return nil, a.invalid("network", "", errors.New("the account has no default network in the region; name `subnets`"))
	}
	for _, id := range a.s.Subnets {
		if !slices.ContainsFunc(answer.Subnets, func(s subnet) bool { return s.ID == id }) {
			return nil, a.invalid("network", id, errors.New("the region has no such subnet in the site's zones"))
		}
	}
	slices.SortStableFunc(answer.Subnets, func(x, y subnet) int {
		if d := rank(a.s.Zones, x.Zone) - rank(a.s.Zones, y.Zone); d != 0 {
			return d
		}
		if d := rank(a.s.Subnets, x.ID) - rank(a.s.Subnets, y.ID); d != 0 {
			return d
		}
		return strings.Compare(x.Zone, y.Zone)
	})
	for _, zone := range a.s.Zones {
		if !slices.ContainsFunc(answer.Subnets, func(s subnet) bool { return s.Zone == zone }) {
			return nil, a.invalid("zones", zone, errors.New("the account has no subnet there"))
		}
	}
	return answer.Subnets, nil
}

// rank returns the place of a word in a list; of one that is not there, the place behind it.
func rank(list []string, word string) int {
	if i := slices.Index(list, word); i >= 0 {
		return i
	}
	return len(list)
}
