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
