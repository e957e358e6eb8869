package cloud

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestPlacement has machines placed as the site wants, or, where that is not required, as the cloud likes.
func TestPlacement(t *testing.T) {
	testkit.RequireTool(t, "ssh-keygen")
	noRight := &core.Error{Kind: core.Unsupported, Op: "make placement group", Err: errors.New("no right")}
	for name, c := range map[string]struct {
		placement Placement
		nodes     int
		scattered bool
		refusal   error
		placed    string
		orders    int
		kind      core.Kind // of the error, where no machines are rented
		word      string    // of its message
	}{
		"in a cluster":              {Placement{Kind: Cluster}, 3, false, nil, "cluster", 1, 0, ""},
		"spread":                    {Placement{Kind: Spread}, 2, false, nil, "spread", 1, 0, ""},
		"required":                  {Placement{Kind: Cluster, Required: true}, 3, false, nil, "cluster", 1, 0, ""},
		"as the cloud likes":        {Placement{}, 3, false, nil, "", 1, 0, ""},
		"one machine":               {Placement{Kind: Cluster, Required: true}, 1, true, nil, "", 1, 0, ""},
		"no room":                   {Placement{Kind: Cluster}, 3, true, nil, "none", 2, 0, ""},
		"no room, required":         {Placement{Kind: Cluster, Required: true}, 3, true, nil, "", 1, core.Busy, "small in z as cluster: "},
		"refused":                   {Placement{Kind: Cluster}, 3, false, noRight, "none", 1, 0, ""},
		"refused, required":         {Placement{Kind: Cluster, Required: true}, 3, false, noRight, "", 0, core.Unsupported, "no right"},
		"too many to spread":        {Placement{Kind: Spread}, 3, false, nil, "none", 1, 0, ""},
		"too many to be so, needed": {Placement{Kind: Spread, Required: true}, 3, false, nil, "", 0, core.Unsupported, "at most 2"},
	} {
		a := newAccount()
		a.placement, a.scattered, a.noPlaces = c.placement, c.scattered, c.refusal
		r := request
		r.Nodes = c.nodes
		p := newProvider(t, a, t.TempDir(), time.Minute)
		l, err := p.Acquire(t.Context(), r)
		if len(a.orders) != c.orders {
			t.Errorf("%s: %d requests for machines, expected %d", name, len(a.orders), c.orders)
		}
		if c.word != "" {
			if !core.IsKind(err, c.kind) || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%s: got %v", name, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			places := 0
			if c.placed != "" && c.placed != unplaced {
				places = 1
			}
			if got := l.Hosts()[0].Placement; got != c.placed || len(a.groups) != 1 || len(a.places) != places || (a.orders[len(a.orders)-1].PlacementGroup == "") != (places == 0) {
				t.Errorf("%s: placed as %q, expected %q, by %v", name, got, c.placed, a.places)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if machines, groups := a.live(); machines != 0 || groups != 0 {
			t.Errorf("%s: %d machines and %d groups are left", name, machines, groups)
		}
	}
}
