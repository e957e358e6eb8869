package ec2server

import (
	"net/url"
	"slices"
)

// Strategies of placement groups.
const (
	cluster = "cluster"
	spread  = "spread"
)

// mostSpread is how many machines of a zone a spread placement group has at most.
const mostSpread = 7

// place is a placement group.
type place struct{ strategy string }

// places answers the calls for placement groups.
type places struct{ s *Server }

func (c places) create(params url.Values) (any, error) {
	name, strategy := params.Get("GroupName"), params.Get("Strategy")
	switch {
	case name == "":
		return nil, fail("MissingParameter", "The request must contain the parameter groupName")
	case !slices.Contains([]string{cluster, spread}, strategy):
		return nil, fail("InvalidParameterValue", "Value (%s) for parameter strategy is invalid.", strategy)
	case c.s.places[name] != nil:
		return nil, fail("InvalidPlacementGroup.Duplicate", "The placement group '%s' already exists.", name)
	}
	if err := dryRun(params); err != nil {
		return nil, err
	}
	c.s.places[name] = &place{strategy}
	return struct {
		bare
		Name     string `xml:"placementGroup>groupName"`
		State    string `xml:"placementGroup>state"`
		Strategy string `xml:"placementGroup>strategy"`
	}{Name: name, State: "available", Strategy: strategy}, nil
}

func (c places) delete(params url.Values) (any, error) {
	name := params.Get("GroupName")
	if err := dryRun(params); err != nil {
		return nil, err
	}
	if c.s.places[name] == nil {
		return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", name)
	}
	for _, i := range c.s.instances {
		if i.place == name && i.state != terminated {
			return nil, fail("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", name)
		}
	}
	delete(c.s.places, name)
	return done(), nil
}

// of returns the placement group that a call rents a number of machines in; nil: in none.
func (c places) of(params url.Values, t typeItem, count int) (*place, error) {
	name := params.Get("Placement.GroupName")
	if name == "" {
		return nil, nil
	}
	p := c.s.places[name]
	switch {
	case p == nil:
		return nil, fail("InvalidPlacementGroup.Unknown", "The placement group '%s' is unknown.", name)
	case !slices.Contains(t.Strategies, p.strategy):
		return nil, fail("InvalidParameterCombination", "%s placement groups are not supported by the '%s' instance type.", p.strategy, t.Name)
	case p.strategy == spread && count > mostSpread:
		return nil, fail("InstanceLimitExceeded", "a spread placement group has at most %d machines in a zone", mostSpread)
	}
	return p, nil
}
