package aws

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// settleTime bounds how long EC2 may not know a group that was just made.
const settleTime = 20 * time.Second

var errNotListed = errors.New("EC2 does not list it yet")

// settled repeats a call while EC2 does not know a group that was just made.
func settled(ctx context.Context, call func() error) error {
	pause := fsutil.Backoff{First: 200 * time.Millisecond, Longest: 2 * time.Second}
	for begun := time.Now(); ; {
		err := call()
		late := codeOf(err) == "InvalidGroup.NotFound" || codeOf(err) == unknownPlacement || errors.Is(err, errNotListed)
		if !late || time.Since(begun) > settleTime {
			return err
		}
		if werr := pause.Wait(ctx); werr != nil {
			return werr
		}
	}
}

// Reservations implements cloud.API.
func (a *account) Reservations() cloud.Reservations { return nil }

// MakeGroup implements cloud.API. What places the machines is made after the group, which has a tag for it: so nothing is
// left that no list by owner finds.
func (a *account) MakeGroup(ctx context.Context, g cloud.Group) (cloud.Group, error) {
	if g.Placement.Kind != "" {
		if err := (placementGroups{a}).check(ctx, g.Placement.Kind); err != nil {
			return g, g.Placement.Refused(err)
		}
	}
	var err error
	if g.ID, err = (securityGroups{a}).make(ctx, g); err != nil || g.Placement.Kind == "" {
		return g, err
	}
	g.PlacementGroup, err = (placementGroups{a}).make(ctx, g)
	return g, g.Placement.Refused(err)
}

// securityGroups are the groups that shield machines.
type securityGroups struct{ a *account }

// make makes a group, or returns the one that there is.
func (s securityGroups) make(ctx context.Context, g cloud.Group) (string, error) {
	params := url.Values{"GroupName": {g.Name}, "GroupDescription": {"machines of bee run " + g.Owner.Run}, "VpcId": {g.Network}}
	tags := ownerTags(g.Owner)
	tags["Name"] = "bee " + g.Owner.Run
	if g.Placement.Kind != "" {
		tags[tagPlacement] = string(g.Placement.Kind)
	}
	s.a.tagged(params, tags, "security-group")
	var made struct {
		ID string `xml:"groupId"`
	}
	err := s.a.call(ctx, "CreateSecurityGroup", params, &made)
	if codeOf(err) == "InvalidGroup.Duplicate" {
		var groups []cloud.Group
		err = settled(ctx, func() error {
			var err error
			if groups, err = s.list(ctx, filter{"group-name", []string{g.Name}}, filter{"vpc-id", []string{g.Network}}); err == nil && len(groups) != 1 {
				err = &core.Error{Kind: core.Transient, Op: "find the security group", Object: g.Name, Err: errNotListed}
			}
			return err
		})
		if err == nil {
			made.ID = groups[0].ID
		}
	}
	if err != nil {
		return "", err
	}
	among := url.Values{"IpPermissions.1.IpProtocol": {"-1"}, "IpPermissions.1.Groups.1.GroupId": {made.ID}}
	if err := s.admit(ctx, made.ID, among); err != nil {
		return "", err
	}
	return made.ID, s.a.Admit(ctx, made.ID, g.From)
}

// Admit implements cloud.API by a call for each range: EC2 refuses all of a call of which it has one.
func (a *account) Admit(ctx context.Context, group string, from []string) error {
	for _, f := range from {
		kind := "IpPermissions.1.IpRanges.1.CidrIp"
		if strings.Contains(f, ":") {
			kind = "IpPermissions.1.Ipv6Ranges.1.CidrIpv6"
		}
		err := (securityGroups{a}).admit(ctx, group, url.Values{
			"IpPermissions.1.IpProtocol": {"tcp"}, "IpPermissions.1.FromPort": {"22"}, "IpPermissions.1.ToPort": {"22"}, kind: {f},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// admit adds a rule to a group, which may have it.
func (s securityGroups) admit(ctx context.Context, group string, rule url.Values) error {
	rule.Set("GroupId", group)
	err := settled(ctx, func() error { return s.a.call(ctx, "AuthorizeSecurityGroupIngress", rule, &struct{}{}) })
	if codeOf(err) == "InvalidPermission.Duplicate" {
		return nil
	}
	return err
}

// Groups implements cloud.API.
func (a *account) Groups(ctx context.Context, q core.Owner) ([]cloud.Group, error) {
	return securityGroups{a}.list(ctx, ownedBy(q)...)
}

func (s securityGroups) list(ctx context.Context, filters ...filter) ([]cloud.Group, error) {
	type page struct {
		Groups []struct {
			ID   string `xml:"groupId"`
			Name string `xml:"groupName"`
			Tags []tag  `xml:"tagSet>item"`
		} `xml:"securityGroupInfo>item"`
		Next string `xml:"nextToken"`
	}
	return list(ctx, s.a, "DescribeSecurityGroups", filters, func(p page) (groups []cloud.Group, next string) {
		for _, g := range p.Groups {
			groups = append(groups, cloud.Group{ID: g.ID, Name: g.Name, Owner: ownerOf(g.Tags), Placement: placementOf(g.Tags)})
		}
		return groups, p.Next
	})
}

// EndGroup implements cloud.API.
func (a *account) EndGroup(ctx context.Context, g cloud.Group) error {
	if g.Placement.Kind != "" {
		if err := (placementGroups{a}).end(ctx, g.Name); err != nil {
			return err
		}
	}
	err := a.call(ctx, "DeleteSecurityGroup", url.Values{"GroupId": {g.ID}}, &struct{}{})
	if isGone(err) {
		return nil
	}
	return err
}
