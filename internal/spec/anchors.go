package spec

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// anchor is a name that a value was given, from a place of the file on.
type anchor struct {
	offset int
	value  ast.Node
}

// Visit collects the anchors of a document, those below unknown keys too.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, is := n.(*ast.AnchorNode); is {
		name := a.Name.GetToken().Value
		d.anchors[name] = append(d.anchors[name], anchor{offsetOf(a.GetToken()), a.Value})
	}
	return d
}

func offsetOf(t *token.Token) int {
	if t == nil || t.Position == nil {
		return 0
	}
	return t.Position.Offset
}

// target gives what an alias stands for: the last value of its name before it.
func (d *decoder) target(x *ast.AliasNode) (ast.Node, bool) {
	var found ast.Node
	for _, a := range d.anchors[x.Value.GetToken().Value] {
		if a.offset < offsetOf(x.GetToken()) {
			found = a.value
		}
	}
	return found, found != nil
}

// once gives each key of a mapping once; where one is given several times, the one
// whose turn it is.
func (d *decoder) once(own []*ast.MappingValueNode, path string) []*ast.MappingValueNode {
	var out []*ast.MappingValueNode
	at, given := map[string]int{}, map[string]int{}
	for _, f := range own {
		key := f.Key.GetToken().Value
		given[key]++
		d.repeats = max(d.repeats, given[key])
		if given[key] == 1 {
			at[key], out = len(out), append(out, f)
			continue
		}
		d.problem(f.Key.GetToken(), "", "key %q is given twice", join(path, key))
		d.repeated++
		if given[key] <= d.turn+1 {
			out[at[key]] = f
		}
	}
	return out
}

// maxTurns bounds how often a file is read for keys that are given several times.
const maxTurns = 8

// otherTurns adds what is wrong where another counts of the keys that are given several
// times, as nobody knows which one was meant; read reads and checks the file anew.
func (d *decoder) otherTurns(read func(turn int) *decoder) {
	for turn := 1; turn < min(d.repeats, maxTurns); turn++ {
		other := read(turn)
		d.repeats = max(d.repeats, other.repeats)
		d.problems = append(d.problems, other.problems...)
	}
}

// maxMerges bounds how many mappings of a file are merged into others: they
// can be made to double at each step, or to go round in a circle.
const maxMerges = 1000

// merged gives a mapping's own keys, none of them twice, and those of the
// mappings merged into it by `<<` that it does not have: of several the first
// counts.
func (d *decoder) merged(own []*ast.MappingValueNode, path string) []*ast.MappingValueNode {
	var out, merges []*ast.MappingValueNode
	has := map[string]bool{}
	for _, f := range d.once(own, path) {
		has[f.Key.GetToken().Value] = true
		if f.Key.IsMergeKey() {
			merges = append(merges, f)
		} else {
			out = append(out, f)
		}
	}
	for _, f := range merges {
		if d.merges++; d.merges > maxMerges {
			if d.merges == maxMerges+1 {
				d.problem(f.Key.GetToken(), "", "mappings are merged into each other more than %d times", maxMerges)
			}
			return out
		}
		sources := []ast.Node{f.Value}
		if list, is := d.plain(f.Value).(*ast.SequenceNode); is {
			sources = list.Values
		}
		for _, source := range sources {
			for _, m := range d.fields(source, join(path, "<<")) {
				if key := m.Key.GetToken().Value; !has[key] {
					has[key] = true
					out = append(out, m)
				}
			}
		}
	}
	return out
}
