package cloud

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// PlacementKind is a way to place machines among the hosts of a cloud.
type PlacementKind string

// Kinds of placements.
const (
	Cluster PlacementKind = "cluster" // close together
	Spread  PlacementKind = "spread"  // on hosts that they do not share
)

// Placement is how the machines of a job with several are placed; the zero value: as the cloud likes.
type Placement struct {
	Kind PlacementKind `json:"kind,omitempty"`
	// Required means that machines which cannot be placed so are not rented.
	Required bool `json:"required,omitempty"`
}

// ErrNoPlacement is the cause of errors of an offer whose machines cannot be placed as wanted, where that is not required:
// the same offer without a placement may do.
var ErrNoPlacement = errors.New("no such placement")

// Refused returns the error of a cloud that does not place machines so, as API has it: of ErrNoPlacement, where they need
// not be placed so, and where the same would be refused again.
func (p Placement) Refused(err error) error {
	if err == nil || p.Required || core.Interrupted(err) || core.IsKind(err, core.Transient) {
		return err
	}
	return &core.Error{Kind: core.KindOf(err), Op: "place machines as", Object: string(p.Kind), Err: fmt.Errorf("%w: %w", ErrNoPlacement, err), Remedy: core.Remedy(err)}
}

// notPlaced returns why a number of machines of an offer cannot be placed so; "": they can.
func (o Offer) notPlaced(p Placement, nodes int) string {
	most := 0
	switch p.Kind {
	case Cluster:
		most = o.Together
	case Spread:
		most = o.Apart
	default:
		return ""
	}
	switch {
	case nodes < 2 || nodes <= most:
		return ""
	case most == 0:
		return fmt.Sprintf("%s cannot be placed as `%s`", o.Type, p.Kind)
	}
	return fmt.Sprintf("at most %d machines of %s can be placed as `%s`, and the job wants %d", most, o.Type, p.Kind, nodes)
}

// placed returns offers in the order in which they are tried: with the placement, where a number of machines can have it, and
// then the same one without, unless the placement is required.
func (p Placement) placed(offers []Offer, nodes int) (all []Offer) {
	for _, o := range offers {
		if p.Kind != "" && nodes > 1 && o.notPlaced(p, nodes) == "" {
			with := o
			with.Placement = p
			all = append(all, with)
			if p.Required {
				continue
			}
		}
		all = append(all, o)
	}
	return all
}

// unplaced is how machines are placed that the cloud could not place as the site wants.
const unplaced = "none"

// of returns how the machines of a record are placed, of which the site wants this placement; "": it wants none.
func (p Placement) of(r *record) string {
	switch {
	case r.Offer.Placement.Kind != "":
		return string(r.Offer.Placement.Kind)
	case p.Kind != "" && r.Nodes > 1:
		return unplaced
	}
	return ""
}
