package outputs

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// output is one that is collected, into a directory that the job names.
type output struct {
	index        int    // in the job's outputs
	path, remote string // as it was matched, and as it is fetched
	to, name     string
	bytes        int64  // 0: not known
	replace      bool   // as in spec.Output
	within, seen string // as in driver.Transfer
	partial      bool   // a lost attempt has left it
}

func (o output) local() string { return filepath.Join(o.to, o.name) }

// placed returns the outputs with their places on the submitting machine: below `to:` under
// their own names. Those
// that would have the same place have the directories before their names as well. What
// the job did not ask for is refused: whatever the site reports, each match has to match
// its glob.
func placed(job *spec.Job, matches []protocol.OutputMatch) (list []output, refused []string) {
	inside := protocol.Plan{Volume: job.Volume.Path, Binds: inputs.Binds(job)}
	sharing, seen := map[string]int{}, map[protocol.OutputMatch]bool{}
	for _, m := range matches {
		key := protocol.OutputMatch{Index: m.Index, Path: m.Path}
		if !asked(inside, job.Outputs, m) || seen[key] {
			refused = append(refused, fmt.Sprintf("%.200q", m.Path))
			continue
		}
		seen[key] = true
		o := job.Outputs[m.Index]
		name := path.Base(m.Path)
		if _, pattern := splitGlob(o.From); pattern == "" { // the volume itself has another name outside
			name = path.Base(o.From)
		}
		list = append(list, output{index: m.Index, path: m.Path, remote: cmp.Or(m.From, m.Path), to: o.To, name: name, bytes: max(m.Bytes, 0), replace: o.Replace})
		sharing[list[len(list)-1].local()]++
	}
	for i, o := range list {
		if _, below, _ := strings.Cut(o.path, "/"); sharing[o.local()] > 1 && below != "" {
			list[i].name = below // the volume, or the inputs
		}
	}
	return list, refused
}

// asked reports whether a match is one of its glob.
func asked(inside protocol.Plan, outputs []spec.Output, m protocol.OutputMatch) bool {
	if m.Index < 0 || m.Index >= len(outputs) || path.Clean(m.Path) != m.Path || !filepath.IsLocal(m.Path) || m.From != "" && !filepath.IsLocal(m.From) {
		return false
	}
	root, pattern := inside.OnHost("", outputs[m.Index].From)
	if pattern == "" {
		return m.Path == root
	}
	name, is := inputs.Below(root, m.Path)
	if !is || root == "" {
		return false
	}
	is, err := fsutil.Match(path.Clean(pattern), name)
	return is && err == nil
}

// unused returns a name for an output in a directory that no other output there has: its own
// one, or else the longer one.
func unused(taken map[string]bool, to, name, longer string) string {
	if taken[path.Join(to, name)] && longer != "" {
		name = longer
	}
	taken[path.Join(to, name)] = true
	return name
}

// splitGlob parts a path before the first element that holds a wildcard.
func splitGlob(p string) (fixed, pattern string) {
	elements := strings.Split(p, "/")
	for i, e := range elements {
		if strings.ContainsAny(e, `*?[\`) {
			return strings.Join(elements[:i], "/"), strings.Join(elements[i:], "/")
		}
	}
	return p, ""
}
