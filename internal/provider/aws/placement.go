package aws

import (
	"context"
	"math"
	"net/url"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// unknownPlacement is EC2's code of a placement group that is not there, or not yet.
const unknownPlacement = "InvalidPlacementGroup.Unknown"

// mostApart is how many machines of a zone a spread placement group has at most ("maximum of seven running instances per
// Availability Zone per group").
const mostApart = 7

// most returns how many machines of a type a placement group of that strategy has at most.
func (t machineType) most(k cloud.PlacementKind) int {
	switch {
	case !slices.Contains(t.Strategies, string(k)):
		return 0
	case k == cloud.Spread:
		return mostApart
	}
	return math.MaxInt
}

// placementOf returns the placement of a security group's machines, by its tags.
func placementOf(tags []tag) cloud.Placement {
	at := slices.IndexFunc(tags, func(t tag) bool { return t.Key == tagPlacement })
	if at < 0 {
		return cloud.Placement{}
	}
	return cloud.Placement{Kind: cloud.PlacementKind(tags[at].Value)}
}

// placementGroups are the groups that place machines.
type placementGroups struct{ a *account }

// check has EC2 check that a group could be made, and removed.
func (p placementGroups) check(ctx context.Context, k cloud.PlacementKind) error {
	const none = "bee-dry-run"
	if err := p.a.tries(ctx, "CreatePlacementGroup", url.Values{"GroupName": {none}, "Strategy": {string(k)}}); err != nil {
		return err
	}
	err := p.a.tries(ctx, "DeletePlacementGroup", url.Values{"GroupName": {none}})
	if codeOf(err) == unknownPlacement {
		return nil
	}
	return err
}

// make makes the placement group of a security group, whose name is its id.
func (p placementGroups) make(ctx context.Context, g cloud.Group) (string, error) {
	params := url.Values{"GroupName": {g.Name}, "Strategy": {string(g.Placement.Kind)}}
	tags := ownerTags(g.Owner)
	tags["Name"] = "bee " + g.Owner.Run
	p.a.tagged(params, tags, "placement-group")
	err := p.a.call(ctx, "CreatePlacementGroup", params, &struct{}{})
	if err != nil && codeOf(err) != "InvalidPlacementGroup.Duplicate" { // by a call whose answer was lost
		return "", err
	}
	return g.Name, nil
}

// end removes a group. One that EC2 does not know may be new: it is gone once two looks have missed it.
func (p placementGroups) end(ctx context.Context, name string) error {
	for look := 1; ; look++ {
		err := p.a.call(ctx, "DeletePlacementGroup", url.Values{"GroupName": {name}}, &struct{}{})
		if codeOf(err) != unknownPlacement {
			return err
		}
		if look == 2 {
			return nil
		}
		if err := core.Sleep(ctx, p.a.s.Cloud.Settle); err != nil {
			return err
		}
	}
}
