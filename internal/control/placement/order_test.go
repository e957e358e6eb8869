package placement

import (
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestOrder(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	sites := []spec.Site{{Name: "a", Price: spec.Price{Amount: 2}}, {Name: "b", Price: spec.Price{Amount: 1}}, {Name: "c", Price: spec.Price{Amount: 1}}}
	starts := []Start{{}, now.Add(time.Hour), now.Add(time.Second)} // the first cannot say
	for name, c := range map[string]struct {
		order  string
		starts []Start
		want   []int
	}{
		"as listed":                       {"", nil, []int{0, 1, 2}},
		"the cheapest, then as listed":    {spec.OrderCheapest, nil, []int{1, 2, 0}},
		"the soonest, the unknown last":   {spec.OrderSoonest, starts, []int{2, 1, 0}},
		"starts within seconds are alike": {spec.OrderSoonest, []Start{now.Add(9 * time.Second), now, now.Add(-time.Hour)}, []int{0, 1, 2}},
	} {
		if got := Order(c.order, sites, c.starts, now); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, expected %v", name, got, c.want)
		}
	}
}
