package catalog

import (
	"cmp"
	"errors"

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
	return openstack.New(openstack.Settings{
		Name: a.Cloud, Region: a.Region, Types: a.Types, Zones: a.Zones, Image: a.Image, User: a.User,
		Network: a.Network.Name, Floating: cmp.Or(a.Network.Floating, openstack.FloatingHead), Pool: a.Network.Pool, SSHFrom: a.Network.SSHFrom,
		Tags: a.Tags, Cloud: rentedBy(s, o, a.Boot, a.Keep),
	})
}
