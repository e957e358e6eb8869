package pid1

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestShare(t *testing.T) {
	var all unix.CPUSet
	for _, c := range []int{1, 3, 5, 7} {
		all.Set(c)
	}
	for _, c := range []struct {
		n, rank int
		want    []int
	}{{1, 0, []int{1}}, {1, 3, []int{7}}, {2, 1, []int{5, 7}}, {4, 0, []int{1, 3, 5, 7}}, {9, 2, []int{1, 3, 5, 7}}, {2, 2, []int{1, 3}}} {
		var got []int
		set := share(&all, c.n, c.rank)
		for i := range 10 {
			if set.IsSet(i) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d cores of rank %d are %v, expected %v", c.n, c.rank, got, c.want)
		}
	}
}

// TestNamed: cores that the node has chosen, and others where the process may not use those.
func TestNamed(t *testing.T) {
	var all unix.CPUSet
	for _, c := range []int{1, 3, 5} {
		all.Set(c)
	}
	for list, right := range map[string]bool{"1,5": true, "3,1": true, "1": false, "1,2": false, "1,1": false, "": false, "1,x": false, "1,3,5": false, "1,-1": false, "1,99999999": false} {
		if set := named(&all, 2, list); (set != nil) != right {
			t.Errorf("%q: %v", list, set)
		}
	}
}
