package outputs

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// mostLinked is how many links that lead elsewhere in the volume are fetched for one output.
const mostLinked = 1000

// fetchLinked fetches the targets of matches that are links out of their directory, as these
// may be elsewhere in the volume, of which only that directory was fetched. A link to nothing
// in the volume is left; any other error may pass. fetch is nil where all of the volume was
// fetched.
func fetchLinked(found []match, lost []unresolved, fetch func(name, as string) error) (all []match, left []string, err error) {
	for i, l := range lost {
		as := strconv.Itoa(i)
		if fetch == nil || i >= mostLinked || !l.outside {
			left = append(left, l.name)
			continue
		}
		switch err := fetch(l.name, as); {
		case err == nil:
			found = append(found, match{l.name, as, true})
		case core.IsKind(err, core.NotFound), errors.Is(err, errLeadsOut):
			left = append(left, l.name)
		default:
			return nil, nil, err
		}
	}
	return found, left, nil
}

// match is a name in a tree, and what it leads to, which is elsewhere where that lies apart.
type match struct {
	name, is  string
	elsewhere bool
}

// unresolved is a name in a tree that leads to nothing there: perhaps to what is outside.
type unresolved struct {
	name    string
	outside bool
}

// resolved follows the links in names, each thing once: by its own name, or else by the
// first one that leads to it. What leads to nothing in the tree is lost.
func resolved(tree *fsutil.Root, names []string) (found []match, lost []unresolved) {
	var linked []match
	for _, name := range names {
		is, err := tree.Resolve(name)
		switch {
		case err != nil:
			lost = append(lost, unresolved{name, errors.Is(err, fsutil.ErrOutside)})
		case is == name:
			found = append(found, match{name: name, is: is})
		default:
			linked = append(linked, match{name: name, is: is})
		}
	}
	for _, l := range linked {
		if !slices.ContainsFunc(found, func(m match) bool { return m.is == l.is || strings.HasPrefix(l.is, m.is+"/") }) {
			found = append(found, l)
		}
	}
	return found, lost
}
