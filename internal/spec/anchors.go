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

// once gives each key of a mapping once, with its first value.
func (d *decoder) once(own []*ast.MappingValueNode, path string) []*ast.MappingValueNode {
	var out []*ast.MappingValueNode
	given := map[string]bool{}
	for _, f := range own {
		key := f.Key.GetToken().Value
		if given[key] {
			d.report.problem(f.Key.GetToken(), "", "key %q is given twice", join(path, key))
			d.repeated++
			continue
		}
		given[key], out = true, append(out, f)
	}
	return out
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
				d.report.problem(f.Key.GetToken(), "", "mappings are merged into each other more than %d times", maxMerges)
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
