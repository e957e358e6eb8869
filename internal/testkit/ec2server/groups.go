package ec2server

import (
	"fmt"
	"net/url"
	"slices"
	"time"
)

// groups answers the calls for security groups.
type groups struct{ s *Server }

func (c groups) create(params url.Values) (any, error) {
	s := c.s
	if !slices.ContainsFunc(subnets(), func(n subnetItem) bool { return n.VPC == params.Get("VpcId") }) {
		return nil, fail("InvalidVpcID.NotFound", "The vpc ID '%s' does not exist", params.Get("VpcId"))
	}
	for _, g := range s.groups {
		if g.name == params.Get("GroupName") && g.vpc == params.Get("VpcId") {
			return nil, fail("InvalidGroup.Duplicate", "The security group '%s' already exists", g.name)
		}
	}
	if err := dryRun(params); err != nil {
		return nil, err
	}
	g := &group{id: s.id("sg"), name: params.Get("GroupName"), vpc: params.Get("VpcId"), tags: tagsFor(params, "security-group"), made: time.Now()}
	s.groups[g.id] = g
	return struct {
		bare
		ID string `xml:"groupId"`
	}{ID: g.id}, nil
}

func (c groups) authorize(params url.Values) (any, error) {
	s := c.s
	g, known := s.groups[params.Get("GroupId")]
	if !known {
		return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", params.Get("GroupId"))
	}
	var rules []string
	for i := 1; params.Has(fmt.Sprintf("IpPermissions.%d.IpProtocol", i)); i++ {
		at := fmt.Sprintf("IpPermissions.%d.", i)
		what := params.Get(at+"IpProtocol") + " " + params.Get(at+"FromPort") + "-" + params.Get(at+"ToPort")
		for n := 1; params.Has(fmt.Sprintf("%sIpRanges.%d.CidrIp", at, n)); n++ {
			rules = append(rules, what+" "+params.Get(fmt.Sprintf("%sIpRanges.%d.CidrIp", at, n)))
		}
		for n := 1; params.Has(fmt.Sprintf("%sGroups.%d.GroupId", at, n)); n++ {
			rules = append(rules, what+" "+params.Get(fmt.Sprintf("%sGroups.%d.GroupId", at, n)))
		}
	}
	for _, r := range rules {
		if slices.Contains(g.rules, r) {
			return nil, fail("InvalidPermission.Duplicate", "the rule %q already exists", r)
		}
	}
	g.rules = append(g.rules, rules...)
	return done(), nil
}

// Rules are those of all groups, as PROTOCOL FROM-TO SOURCE.
func (s *Server) Rules() (rules []string) {
	s.locked(func() {
		for _, g := range s.groups {
			rules = append(rules, g.rules...)
		}
	})
	return rules
}

type groupItem struct {
	ID   string    `xml:"groupId"`
	Name string    `xml:"groupName"`
	VPC  string    `xml:"vpcId"`
	Tags []tagItem `xml:"tagSet>item"`
}

func (c groups) describe(params url.Values) (any, error) {
	s := c.s
	var found []groupItem
	for _, g := range s.groups {
		is, err := passes(params, map[string]string{"group-name": g.name, "vpc-id": g.vpc}, g.tags)
		if err != nil {
			return nil, err
		}
		if is && time.Since(g.made) >= s.late {
			found = append(found, groupItem{g.id, g.name, g.vpc, tagItems(g.tags)})
		}
	}
	return struct {
		bare
		Groups []groupItem `xml:"securityGroupInfo>item"`
	}{Groups: found}, nil
}

func (c groups) delete(params url.Values) (any, error) {
	s := c.s
	id := params.Get("GroupId")
	if _, known := s.groups[id]; !known {
		return nil, fail("InvalidGroup.NotFound", "The security group '%s' does not exist", id)
	}
	for _, i := range s.instances {
		if i.group == id && i.state != terminated {
			return nil, fail("DependencyViolation", "resource %s has a dependent object", id)
		}
	}
	delete(s.groups, id)
	return done(), nil
}
