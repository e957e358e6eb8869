package openstack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// flavor is a type of machines in an answer. Disk is in GiB; 0: as large as the image.
type flavor struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Cores    int    `json:"vcpus"`
	Memory   int64  `json:"ram"`
	Disk     int64  `json:"disk"`
	Disabled bool   `json:"OS-FLV-DISABLED:disabled"`
}

// Offers implements cloud.API: flavors in their order, each in all zones of the site.
func (a *account) Offers(ctx context.Context) ([]cloud.Offer, error) {
	flavors, err := a.flavors(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := a.zones(ctx)
	if err != nil {
		return nil, err
	}
	net, err := a.network(ctx)
	if err != nil {
		return nil, err
	}
	if a.s.Floating != FloatingNone {
		if _, err := a.pool(ctx); err != nil {
			return nil, err
		}
	}
	i, err := a.image(ctx)
	if err != nil {
		return nil, err
	}
	if err := (reservations{a}).checkLease(ctx); err != nil {
		return nil, err
	}
	var offers []cloud.Offer
	for _, f := range flavors {
		if err := i.fits(f); err != nil {
			return nil, a.invalid("types", f.Name, err)
		}
		for _, zone := range zones {
			offers = append(offers, cloud.Offer{
				Type: f.Name, Flavor: f.ID, Zone: zone, Image: i.ID, User: i.user, Foreign: i.foreign, Arch: i.arch, Cores: f.Cores, Memory: f.Memory << 20, Storage: f.Disk, Network: net.ID,
				Together: math.MaxInt, Apart: math.MaxInt,
			})
		}
	}
	return offers, nil
}

// invalid is the error of a setting that the cloud does not know.
func (a *account) invalid(key, value string, err error) error {
	return &core.Error{Kind: core.Unsupported, Op: "use", Object: fmt.Sprintf("%s %q of site %s", key, value, a.s.Cloud.Name), Err: err, Remedy: "Check `openstack: {" + key + ": …}` at the site."}
}

// unknown is the error of a name that the cloud does not have; it lists the nearest that it has.
func (a *account) unknown(key, value, kind string, names []string) error {
	if len(names) == 0 {
		return a.invalid(key, value, errors.New("the project has no "+kind))
	}
	return a.invalid(key, value, fmt.Errorf("the project has no such %s; it has %s", kind, strings.Join(cloud.Nearest(value, names), ", ")))
}

// allFlavors returns those that the project may use.
func allFlavors(ctx context.Context, a *account) ([]flavor, error) {
	type page struct {
		Flavors []flavor
		Links   []link `json:"flavors_links"`
	}
	return list(ctx, a.client, compute, "flavors/detail", nil, func(p page) ([]flavor, bool) { return p.Flavors, hasNext(p.Links) }, func(f flavor) string { return f.ID })
}

// Types implements cloud.API: flavors are in all zones. Nova does not describe their architecture and GPUs.
func (a *account) Types(ctx context.Context, patterns []string) ([]cloud.Offer, error) {
	if len(patterns) == 0 {
		patterns = a.s.Types
	}
	all, err := allFlavors(ctx, a)
	var offers []cloud.Offer
	for _, f := range all {
		matches := slices.ContainsFunc(patterns, func(p string) bool {
			is, err := path.Match(strings.NewReplacer("[", `\[`, `\`, `\\`).Replace(p), f.Name)
			return is && err == nil || p == f.ID
		})
		if matches && !f.Disabled && !strings.Contains(f.Name, "/") {
			offers = append(offers, cloud.Offer{Type: f.Name, Flavor: f.ID, Cores: f.Cores, Memory: f.Memory << 20, Storage: f.Disk})
		}
	}
	return offers, err
}

// flavors returns those of the site, in its order.
func (a *account) flavors(ctx context.Context) ([]flavor, error) {
	all, err := allFlavors(ctx, a)
	if err != nil {
		return nil, err
	}
	var wanted []flavor
	for _, name := range a.s.Types {
		i := slices.IndexFunc(all, func(f flavor) bool { return f.Name == name && !f.Disabled })
		if i < 0 {
			i = slices.IndexFunc(all, func(f flavor) bool { return f.ID == name && !f.Disabled })
		}
		if i < 0 {
			var names []string
			for _, f := range all {
				names = append(names, f.Name)
			}
			return nil, a.unknown("types", name, "flavor", names)
		}
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

// zones returns those of the site; "" leaves the choice to Nova.
func (a *account) zones(ctx context.Context) ([]string, error) {
	if len(a.s.Zones) == 0 {
		return []string{""}, nil
	}
	var answer struct {
		Zones []struct {
			Name  string `json:"zoneName"`
			State struct {
				Available bool `json:"available"`
			} `json:"zoneState"`
		} `json:"availabilityZoneInfo"`
	}
	if err := a.call(ctx, compute, get, "os-availability-zone", nil, &answer); err != nil {
		return nil, err
	}
	var names []string
	for _, z := range answer.Zones {
		if z.State.Available {
			names = append(names, z.Name)
		}
	}
	for _, zone := range a.s.Zones {
		if !slices.Contains(names, zone) {
			return nil, a.unknown("zones", zone, "availability zone", names)
		}
	}
	return a.s.Zones, nil
}

// Prices implements cloud.API: OpenStack has no price list.
func (*client) Prices(context.Context, []cloud.Offer) (map[string]driver.Price, error) {
	return nil, nil
}

// Check implements cloud.API: Nova's quotas, for one machine.
func (a *account) Check(ctx context.Context, o cloud.Offer) error {
	var answer struct {
		Limits struct {
			Absolute struct {
				MaxInstances int   `json:"maxTotalInstances"`
				Instances    int   `json:"totalInstancesUsed"`
				MaxCores     int   `json:"maxTotalCores"`
				Cores        int   `json:"totalCoresUsed"`
				MaxRAM       int64 `json:"maxTotalRAMSize"`
				RAM          int64 `json:"totalRAMUsed"`
			}
		}
	}
	if err := a.call(ctx, compute, get, "limits", nil, &answer); err != nil {
		return err
	}
	l := answer.Limits.Absolute
	for _, q := range []struct {
		of                string
		most, used, wants int64
	}{
		{"machines", int64(l.MaxInstances), int64(l.Instances), 1},
		{"cores", int64(l.MaxCores), int64(l.Cores), int64(o.Cores)},
		{"MiB of memory", l.MaxRAM, l.RAM, o.Memory >> 20},
	} {
		if q.most < 0 || q.used+q.wants <= q.most { // below 0: no limit
			continue
		}
		e := &core.Error{
			Kind: core.Busy, Op: "rent", Object: o.String(), Err: fmt.Errorf("the project's quota is %d %s, of which %d are used, and one machine needs %d", q.most, q.of, q.used, q.wants),
			Remedy: "Wait until other machines of the project end, or ask the cloud's operators for a larger quota.",
		}
		if q.wants > q.most {
			e.Kind, e.Remedy = core.Unsupported, "Use a smaller flavor in `types:` at the site, or ask the cloud's operators for a larger quota."
		}
		return e
	}
	return nil
}
