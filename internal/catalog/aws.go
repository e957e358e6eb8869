package catalog

import (
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/aws"
	"github.com/bee-hpc/bee/internal/provider/cloud"
	"github.com/bee-hpc/bee/internal/spec"
)

// awsSite returns the provider of a site whose machines are rented from EC2.
func awsSite(s spec.Site, o Options) (driver.Provider, error) {
	a := s.AWS
	if a == nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use site", Object: s.Name, Err: errors.New("it has no `aws:`"), Remedy: "Add `aws: {types: […], image: …}` to the site."}
	}
	rented := rentedBy(s, o, a.Network.Bastion, a.Boot, a.Keep)
	rented.Placement = placementOf(a.Placement, cloud.Cluster)
	rented.Priced, rented.Capped = a.AskPrice, a.AskPrice && s.MaxCost > 0
	return aws.New(aws.Settings{
		Market: a.Market, MaxPrice: a.MaxPrice, Profile: a.Profile, Region: a.Region, Types: a.Types, Zones: a.Zones, Image: a.Image, User: a.User,
		VPC: a.Network.VPC, Subnets: a.Network.Subnets, Public: aws.Public(a.Network.Public), SSHFrom: a.Network.SSHFrom, Disk: int64(a.Disk), Tags: a.Tags,
		Cloud: rented,
	})
}

// Policy returns the least policy of AWS for sites of provider aws, which is written as JSON.
func Policy() any { return aws.LeastPolicy() }
