package measure

import (
	"fmt"
	"maps"
	"slices"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/inside"
)

// A content is a file of an image. The image, path and identity name what the file contains.
type content struct{ image, path, identity string }

// contents are the digests of files in guests. A guest reads its files for them once, in the
// block that warms up: in each measurement, this would be part of the processor time.
type contents struct {
	digests map[content]string
	// whole are those whose files all were known at the last measurement.
	whole map[measured]bool
}

// measured is an environment at a point of a study.
type measured struct{ environment, point string }

// detail is how much a guest prints of its programs at the next measurement.
func (c *contents) detail(of measured) inside.Detail {
	if c.whole[of] {
		return inside.Names
	}
	return inside.Digests
}

// complete notes the digests of what computed in guests and on other machines, and adds those that
// are known of files without one.
func (c *contents) complete(of measured, image string, found *fair.Found) {
	if c.digests == nil {
		c.digests, c.whole = map[content]string{}, map[measured]bool{}
	}
	whole := c.digestsOf(image, found) && len(found.Files) > 0
	for i := range found.Others {
		whole = c.digestsOf(image, &found.Others[i]) && whole // those of other hosts may all be as here
	}
	c.whole[of] = whole
}

// digestsOf completes what was seen on one host, and reports whether the digests of all files are known.
func (c *contents) digestsOf(image string, found *fair.Found) bool {
	programs := maps.Clone(found.Programs)
	if programs == nil {
		programs = map[string]string{}
	}
	whole := true
	for path, identity := range found.Files {
		at := content{image, path, identity}
		if sum := programs[path]; sum != "" {
			c.digests[at] = sum
		} else if programs[path] = c.digests[at]; programs[path] == "" {
			delete(programs, path)
			whole = false
		}
	}
	found.Programs = programs
	return whole
}

// merge adds what other hosts of a run had to what the first had. The reasons are those for which the
// run is no fair measurement: hosts that computed by other files.
func merge(found *fair.Found) (reasons []string) {
	for i := range found.Others {
		o := &found.Others[i]
		for _, path := range slices.Sorted(maps.Keys(o.Programs)) {
			switch sum, is := found.Programs[path]; {
			case !is:
				if found.Programs == nil {
					found.Programs = map[string]string{}
				}
				found.Programs[path] = o.Programs[path]
			case sum != o.Programs[path] && len(reasons) < mostUnlike:
				reasons = append(reasons, fmt.Sprintf("the program %s of host %s is not the file of the first host", path, o.Host))
			}
		}
		found.Foreign, found.Misled = united(found.Foreign, o.Foreign), united(found.Misled, o.Misled)
		if found.CMA == "" {
			found.CMA = o.CMA
		}
		if found.Settings == nil {
			found.Settings = o.Settings
		}
	}
	return reasons
}

// mostUnlike bounds the files of hosts that are named each for itself.
const mostUnlike = 16

func united(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
