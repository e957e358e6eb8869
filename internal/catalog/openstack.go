package catalog

import (
	"cmp"
	"errors"
	"maps"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/openstack"
	"github.com/bee-hpc/bee/internal/spec"
)

// openstackSite returns the provider of a site whose machines are rented from an OpenStack cloud.
func openstackSite(s spec.Site, o Options) (driver.Provider, error) {
	a := s.OpenStack
	if a == nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: errors.New("it has no `openstack:`"), Remedy: "Add `openstack: {cloud: …, types: […], image: …}` to the site."}
	}
	lease, err := leaseOf(a.Lease)
	if err != nil {
		return nil, err
	}
	rented := rentedBy(s, o, a.Network.Bastion, a.Boot, a.Keep)
	floating := openstack.FloatingHead
	if a.Network.Bastion != "" {
		floating = openstack.FloatingNone
	}
	rented.Placement, rented.Limited = placementOf(a.Placement, ""), s.MaxCost > 0
	return openstack.New(openstack.Settings{
		Lease: lease,
		Name:  a.Cloud, Region: a.Region, Types: a.Types, Zones: a.Zones, Image: a.Image, User: a.User,
		Network: a.Network.Name, Floating: cmp.Or(a.Network.Floating, floating), Pool: a.Network.Pool, SSHFrom: a.Network.SSHFrom,
		Tags: a.Tags, Cloud: rented,
	})
}

// leaseOf returns the lease of Blazar that a site has its machines by, or nil.
func leaseOf(l *spec.OpenStackLease) (*openstack.Lease, error) {
	if l == nil {
		return nil, nil
	}
	start, err := l.StartTime()
	if err != nil {
		return nil, err
	}
	properties := maps.Clone(l.Properties)
	if l.NodeType != "" {
		if properties == nil {
			properties = map[string]string{}
		}
		properties["node_type"] = l.NodeType
	}
	return &openstack.Lease{Name: l.Name, Kind: cmp.Or(l.Kind, openstack.LeaseHost), Properties: properties, Start: start}, nil
}
