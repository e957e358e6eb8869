package spec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Link is an element of a job's `after:`, or one that an input implies, that means another job of
// the same file.
type Link struct {
	// After is the element, and Job the place of the other job in the file.
	After, Job int
}

// ReadDrafts reads a Beefile of one job or, where `---` separates several, of all of them, in
// their order. The error is as for ReadDraft.
func ReadDrafts(file string) ([]*Draft, error) {
	data, dir, err := readBeefile(file)
	if err != nil {
		return nil, err
	}
	return DraftsOf(file, data, dir), nil
}

// DraftsOf is ReadDrafts of a text that is in no file. Its relative paths start at dir; file
// names it in messages.
func DraftsOf(file string, data []byte, dir string) []*Draft {
	d := newDecoder(file, data)
	d.dir = dir
	documents := d.documents(data)
	switch len(documents) {
	case 0:
		return []*Draft{newDraft(d)}
	case 1:
		return []*Draft{d.draft(documents[0])}
	}
	drafts, left := make([]*Draft, len(documents)), mostCases
	for i, root := range documents { // each has anchors of its own
		own := &decoder{report: d.report.fresh(), anchors: map[string][]anchor{}, dir: dir, left: &left}
		own.report.places[""] = begins(root)
		drafts[i] = own.draft(root)
	}
	linkJobs(drafts)
	return drafts
}

// linkJobs finds the jobs of a file that others of it wait for, and what is wrong with their
// names and circles.
func linkJobs(drafts []*Draft) {
	places := map[string]int{}
	for i, t := range drafts {
		name := t.Job.Name
		first, twice := places[name]
		switch {
		case name == "":
			t.report.atKey("name", "such as `name: mesh`", "name: each of several jobs in a file has one")
		case twice:
			t.report.at("name", "", "name: %q is that of the job in line %d, too", name, drafts[first].line())
		default:
			places[name] = i
		}
	}
	names := slices.Sorted(maps.Keys(places))
	for _, t := range drafts {
		t.beside = names
		t.Job.implyAfter()
		for k, a := range t.Job.After {
			at := t.afterPath(k)
			if other, is := places[a.Run]; is {
				t.links = append(t.links, Link{k, other})
				if a.input > 0 && drafts[other].Job.Array != nil {
					t.report.at(at, noVolumeOfArray, "%s: %q is an array, and each of its cases has a volume of its own", at, a.Run)
				}
				continue
			}
			for _, array := range drafts {
				switch {
				case array.Job.Array == nil || !isPart(a.Run, array.Job.Name):
				case a.input > 0:
					t.report.at(at, noVolumeOfArray, "%s: %q means a part of array %q of this file, whose volume no input can name", at, a.Run, array.Job.Name)
				default:
					t.report.at(at, "name the array", "%s: %q means a part of array %q of this file, of which all cases are waited for", at, a.Run, array.Job.Name)
				}
			}
		}
	}
	findCircles(drafts)
}

// noVolumeOfArray is what to write in place of an input from an array of the same file.
const noVolumeOfArray = "collect the files by `outputs:` of the array, and read them by `from:` with a path"

// afterPath is where an element of the job's `after:` is in its file.
func (t *Draft) afterPath(element int) string { return t.Job.After[element].path(element) }

// path is where the element of a number is in its file: in `after:`, or at the input that
// implies it.
func (a After) path(element int) string {
	if a.input > 0 {
		return fmt.Sprintf("inputs[%d].from.run", a.input-1)
	}
	return fmt.Sprintf("after[%d]", element)
}

// line is where the job begins in its file.
func (t *Draft) line() int {
	if at := t.report.places[""]; at != nil && at.Position != nil {
		return at.Position.Line
	}
	return 1
}

// partOfArray matches what follows the name of an array in the names of its cases and packs.
var partOfArray = regexp.MustCompile(`^\.([0-9]+|packs(\.[0-9]+)?)$`)

// isPart reports whether a name is that of a case of an array, of its packs, or of one of these.
func isPart(name, array string) bool {
	rest, begins := strings.CutPrefix(name, array)
	return begins && array != "" && partOfArray.MatchString(rest)
}

// findCircles adds a problem for each circle of jobs that wait for each other, at the element
// that closes it.
func findCircles(drafts []*Draft) {
	const (
		open = 1 + iota
		done
	)
	state, found := make([]int, len(drafts)), 0
	var path []int
	var visit func(i int)
	visit = func(i int) {
		state[i], path = open, append(path, i)
		for _, l := range drafts[i].links {
			switch {
			case state[l.Job] == 0:
				visit(l.Job)
			case state[l.Job] == open && found < mostProblems:
				found++
				circle := path[slices.Index(path, l.Job):]
				at := drafts[i].afterPath(l.After)
				drafts[i].report.at(at, "", "%s: %s", at, circleText(drafts, circle))
			}
		}
		state[i], path = done, path[:len(path)-1]
	}
	for i := range drafts {
		if state[i] == 0 {
			visit(i)
		}
	}
}

// circleText is what is wrong with jobs of which each waits for the next, and the last one for
// the first.
func circleText(drafts []*Draft, circle []int) string {
	const shown = 6
	if len(circle) == 1 {
		return "the job waits for itself"
	}
	var words []string
	for i, job := range circle[:min(len(circle), shown)] {
		words = append(words, fmt.Sprintf("%q waits for %q", drafts[job].Job.Name, drafts[circle[(i+1)%len(circle)]].Job.Name))
	}
	if len(circle) > shown {
		words = append(words, "and so on")
	}
	return "a circle: " + strings.Join(words, ", ")
}

// Links returns the elements of the job's `after:` that mean other jobs of its file.
func (t *Draft) Links() []Link { return t.links }

// RefuseAfter adds that an element of `after:` means no run that there is, with the reason.
func (t *Draft) RefuseAfter(element int, why error) {
	path, word := t.afterPath(element), t.Job.After[element].Run
	if !core.IsKind(why, core.NotFound) {
		t.report.at(path, strings.TrimSuffix(core.Remedy(why), "."), "%s: %v", path, why)
		return
	}
	hint := "`bee ps -a` lists all runs"
	if near := nearest(word, t.beside); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	t.report.at(path, hint, "%s: neither a job of this file nor a run is called %q", path, word)
}

// Problems are those that are known of the job by now, as an error of kind Invalid; nil: there
// are none.
func (t *Draft) Problems() error { return asError(t.report.problems) }
