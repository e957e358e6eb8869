package inputs

import (
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// disjoint splits a directory into its entries where another copy goes below it, so that no
// copy replaces what another one has sent. Of two files for one place, the later one counts.
func disjoint(copies []Copy) ([]Copy, error) {
	for {
		places := make([]string, len(copies))
		for i, c := range copies {
			places[i] = c.Remote
		}
		i, j, found := overlap(places)
		if !found {
			return copies, nil
		}
		outer, inner := copies[i], copies[j]
		entries, err := os.ReadDir(outer.Local)
		switch {
		case err == nil:
			opened := make([]Copy, len(entries))
			for k, e := range entries {
				opened[k] = Copy{Local: filepath.Join(outer.Local, e.Name()), Remote: path.Join(outer.Remote, e.Name()), Input: outer.Input}
			}
			copies = slices.Replace(copies, i, i+1, opened...)
		case outer.Remote == inner.Remote:
			copies = slices.Delete(copies, min(i, j), min(i, j)+1)
		default:
			return nil, &core.Error{
				Kind: core.Invalid, Op: "plan input", Object: outer.Local,
				Err:    errors.New("it is a file, and another input goes below its target"),
				Remedy: "Give one of the two another `to:`.",
			}
		}
	}
}

// overlap finds two places of which the inner is the outer, or is below it.
func overlap(places []string) (outer, inner int, found bool) {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	// The places below a place come right behind it.
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(places[i]+"/", places[j]+"/") })
	for at := range len(order) - 1 {
		if outer, inner = order[at], order[at+1]; strings.HasPrefix(places[inner]+"/", places[outer]+"/") {
			return outer, inner, true
		}
	}
	return 0, 0, false
}
