package spec

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPlacesAreIndexed: an index finds a collision where a look at each pair of places does.
func TestPlacesAreIndexed(t *testing.T) {
	elements := []string{"a", "b", "c*", "*", "?b", `x\*`, "x*"}
	random := rand.New(rand.NewPCG(1, 2))
	place := func() Places {
		o := outputPlace{to: "/to"}
		for range 1 + random.IntN(3) {
			o.elements = append(o.elements, elements[random.IntN(len(elements))])
		}
		return Places{o}
	}
	found := 0
	for range 2000 {
		var index PlaceIndex
		var all []Places
		for i := range random.IntN(4) {
			all = append(all, place())
			index.Add(all[i], i)
		}
		own := place()
		job, to := index.Find(own)
		if (to != "") != slices.ContainsFunc(all, func(p Places) bool { return own.Collision(p) != "" }) {
			t.Fatalf("%v among %v: %q", own, all, to)
		}
		if to != "" && all[job].Collision(own) == "" {
			t.Fatalf("%v does not collide with %v", own, all[job])
		}
		if to != "" {
			found++
		}
	}
	if found < 100 || found > 1900 {
		t.Errorf("%d of 2000 collide", found)
	}
}
