package guest

import (
	"fmt"
	"math"
	"testing"
)

func TestExchangedIDs(t *testing.T) {
	const last = math.MaxUint32 - 1
	for name, c := range map[string]struct {
		of   [2]int
		want string // inside, outside, how many
	}{
		"two":     {[2]int{1234, 1000}, "[{0 0 1000} {1000 1234 1} {1001 1001 233} {1234 1000 1} {1235 1235 4294966060}]"},
		"root":    {[2]int{33, 0}, "[{0 33 1} {1 1 32} {33 0 1} {34 34 4294967261}]"},
		"next":    {[2]int{5, 6}, "[{0 0 5} {5 6 1} {6 5 1} {7 7 4294967288}]"},
		"largest": {[2]int{0, last}, "[{0 4294967294 1} {1 1 4294967293} {4294967294 0 1}]"},
		"one":     {[2]int{7, 7}, "[{0 0 4294967295}]"},
	} {
		if got := fmt.Sprint(exchanged(c.of)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
