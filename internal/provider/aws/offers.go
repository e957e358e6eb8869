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
	Markets    []string `xml:"supportedUsageClasses>item"`
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
	zones, err := a.zonesOf(ctx, a.s.Types)
	if err != nil {
		return nil, err
	}
	subnets, err := networks{a}.subnets(ctx)
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
				Type: t.Name, Zone: s.Zone, Image: i.ID, User: i.user, Foreign: i.foreign, Arch: arch, Cores: t.Cores, Memory: t.Memory << 20, GPUs: t.gpus(),
				Network: s.VPC, Subnet: s.ID, Disk: i.Disk, Others: i.others(), Together: t.most(cloud.Cluster), Apart: t.most(cloud.Spread),
			})
		}
	}
	if len(offers) == 0 {
		return nil, notOffered(a, zones)
	}
	return a.inMarkets(offers), nil
}

// notOffered is the error of types that no zone of the site offers, with the zones that do.
func notOffered(a *account, zones map[string][]string) error {
	var offered []string
	for _, t := range a.s.Types {
		in := "no zone"
		if len(zones[t]) > 0 {
			in = strings.Join(cloud.Nearest("", zones[t]), ", ")
		}
		offered = append(offered, fmt.Sprintf("%s in %s", t, in))
	}
	return a.invalid("zones", strings.Join(a.s.Zones, ", "), fmt.Errorf("no type of the site is offered where it has a subnet; the region offers %s", strings.Join(offered, "; ")))
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

// unknown is the error of a name that EC2 does not know; it lists the nearest that it has.
func (a *account) unknown(key, value, kind string, names []string) error {
	if len(names) == 0 {
		return a.invalid(key, value, errors.New("the region has no "+kind))
	}
	return a.invalid(key, value, fmt.Errorf("the region has no such %s; it has %s", kind, strings.Join(cloud.Nearest(value, names), ", ")))
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
	return fmt.Errorf("the region has no such type; it has %s", strings.Join(cloud.Nearest(name, names), ", "))
}

// zonesOf returns the zones that offer each type whose name matches patterns.
func (a *account) zonesOf(ctx context.Context, patterns []string) (map[string][]string, error) {
	type offered struct {
		Type string `xml:"instanceType"`
		Zone string `xml:"location"`
	}
	type page struct {
		Offered []offered `xml:"instanceTypeOfferingSet>item"`
		Next    string    `xml:"nextToken"`
	}
	params := filtered(url.Values{"LocationType": {"availability-zone"}}, filter{"instance-type", patterns})
	all, err := listBy(ctx, a, "DescribeInstanceTypeOfferings", params, func(p page) ([]offered, string) { return p.Offered, p.Next })
	zones := map[string][]string{}
	for _, o := range all {
		zones[o.Type] = append(zones[o.Type], o.Zone)
	}
	return zones, err
}

// Types implements cloud.API.
func (a *account) Types(ctx context.Context, patterns []string) ([]cloud.Offer, error) {
	if len(patterns) == 0 {
		patterns = a.s.Types
	}
	type page struct {
		Types []machineType `xml:"instanceTypeSet>item"`
		Next  string        `xml:"nextToken"`
	}
	types, err := listBy(ctx, a, "DescribeInstanceTypes", filtered(url.Values{}, filter{"instance-type", patterns}), func(p page) ([]machineType, string) { return p.Types, p.Next })
	if err != nil {
		return nil, err
	}
	zones, err := a.zonesOf(ctx, patterns)
	if err != nil {
		return nil, err
	}
	var offers []cloud.Offer
	for _, t := range types {
		if t.arch() == "" {
			continue
		}
		for _, zone := range slices.Sorted(slices.Values(zones[t.Name])) {
			o := cloud.Offer{Type: t.Name, Zone: zone, Arch: t.arch(), Cores: t.Cores, Memory: t.Memory << 20, GPUs: t.gpus()}
			offers = append(offers, o)
			if slices.Contains(t.Markets, spot) {
				o.Spot = true
				offers = append(offers, o)
			}
		}
	}
	return offers, nil
}
