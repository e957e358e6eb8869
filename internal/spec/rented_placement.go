package spec

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// Placement is how the machines of a job with several are placed among the hosts of their cloud. In a sites file it is a
// word, or a mapping of it.
type Placement struct {
	// Kind is PlacementCluster, PlacementSpread or PlacementNone; "": the provider's own choice.
	Kind string `yaml:"-" json:",omitempty"`
	// Required means that machines which cannot be placed so are not rented.
	Required bool `yaml:"-" json:",omitempty"`
}

// Words of Placement.Kind.
const (
	PlacementCluster = "cluster" // close together
	PlacementSpread  = "spread"  // on hosts that they do not share
	PlacementNone    = "none"    // as the cloud likes
)

// placementForm is Placement as a mapping, whose values are placementRequired.
type placementForm struct {
	Cluster string `yaml:"cluster"`
	Spread  string `yaml:"spread"`
}

// placementRequired is the word for a placement without which no machines are rented.
const placementRequired = "required"

func placements() []string { return []string{PlacementCluster, PlacementSpread, PlacementNone} }

func (p *Placement) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
	default:
		p.Kind, _ = d.text(n, path)
		return
	}
	var form placementForm
	d.object(n, reflect.ValueOf(&form).Elem(), path)
	given := 0
	for _, f := range []struct{ key, value string }{{PlacementCluster, form.Cluster}, {PlacementSpread, form.Spread}} {
		if _, is := d.report.places[join(path, f.key)]; is {
			d.report.oneOf(join(path, f.key), f.value)
			p.Kind, p.Required = f.key, true
			given++
		}
	}
	if given != 1 && d.report.allRead(path) {
		d.report.at(path, "`{cluster: required}` or `{spread: required}`", "%s: a mapping has one placement, this has %d", path, given)
	}
}

// placement finds placements that cannot be.
func (sc *siteCheck) placement(at string, p Placement) {
	if !p.Required {
		sc.report.oneOf(at, p.Kind)
	}
}
