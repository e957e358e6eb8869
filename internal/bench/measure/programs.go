package measure

import (
	"maps"

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

// complete notes the digests of what computed in a guest, and adds those that are known of
// files without one.
func (c *contents) complete(of measured, image string, found *fair.Found) {
	if c.digests == nil {
		c.digests, c.whole = map[content]string{}, map[measured]bool{}
	}
	programs := maps.Clone(found.Programs)
	if programs == nil {
		programs = map[string]string{}
	}
	whole := len(found.Files) > 0
	for path, identity := range found.Files {
		at := content{image, path, identity}
		if sum := programs[path]; sum != "" {
			c.digests[at] = sum
		} else if programs[path] = c.digests[at]; programs[path] == "" {
			delete(programs, path)
			whole = false
		}
	}
	found.Programs, c.whole[of] = programs, whole
}
