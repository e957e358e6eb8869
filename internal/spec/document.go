package spec

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// Document is a file of another kind than ours that is read by the same parser, such as a
// study. It may have parts of a Beefile in it.
type Document struct{ d *decoder }

// ReadDocument reads a text into a T, a struct whose fields have yaml tags, and calls check
// for what no type says. A field of type Part, tagged `yaml:",inline"`, takes the keys of a
// Beefile that the struct around it does not have. Scalars of other forms are types with
// UnmarshalText. The error, of kind Invalid, holds all that is wrong.
func ReadDocument[T any](file string, data []byte, check func(*Document, *T)) (*T, error) {
	d, into := newDecoder(file, data), new(T)
	if root := d.root(data); root != nil {
		d.decode(root, reflect.ValueOf(into).Elem(), "")
		check(&Document{d}, into)
	}
	if err := asError(d.report.problems); err != nil {
		return nil, err
	}
	return into, nil
}

// Problem adds a problem at the value of a path such as "metrics.speed.regex", unless the
// value could not be read.
func (d *Document) Problem(path, hint, format string, args ...any) {
	d.d.report.at(path, hint, format, args...)
}

// ProblemOfKey is Problem for a key that is wrong whatever its value is.
func (d *Document) ProblemOfKey(path, hint, format string, args ...any) {
	d.d.report.atKey(path, hint, format, args...)
}

// OneOf adds a problem where a value is none of some words.
func (d *Document) OneOf(path, value string, words []string) {
	if slices.Contains(words, value) {
		return
	}
	d.d.report.at(path, didYouMean(value, words), "%s: %q is not known", path, value)
}

// didYouMean is the hint for a word that is none of some others.
func didYouMean(word string, words []string) string {
	if near := nearest(word, words); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(words) == 0 {
		return ""
	}
	return "one of " + strings.Join(words, ", ")
}

// Read reports whether paths could be read with everything below them.
func (d *Document) Read(paths ...string) bool { return d.d.report.allRead(paths...) }

// Given reports whether the file has a key.
func (d *Document) Given(path string) bool {
	_, given := d.d.report.places[path]
	return given
}

// Sort sorts the keys of a mapping as the file has them.
func (d *Document) Sort(path string, keys []string) []string {
	offset := func(key string) int { return offsetOf(d.d.report.places[join(path, key)]) }
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(offset(a), offset(b)), strings.Compare(a, b))
	})
	return keys
}

// Runtimes are the runtimes that a Beefile can name.
func Runtimes() []string { return words()["runtime"] }

// Part is a mapping of Beefile keys in a document. It has no values before Job composes it.
type Part struct {
	fields  []*ast.MappingValueNode
	foreign bool // its places are those of another file
}

// Has reports whether the part gives a key.
func (p Part) Has(key string) bool {
	return slices.ContainsFunc(p.fields, func(f *ast.MappingValueNode) bool { return f.Key.GetToken().Value == key })
}

// Without is the part without some keys.
func (p Part) Without(keys ...string) Part {
	p.fields = slices.DeleteFunc(slices.Clone(p.fields), func(f *ast.MappingValueNode) bool { return slices.Contains(keys, f.Key.GetToken().Value) })
	return p
}

// PartOf is the part that a whole Beefile is. The file's own problems are the error.
func PartOf(file string, data []byte) (Part, error) {
	d := newDecoder(file, data)
	root := d.root(data)
	if root == nil {
		return Part{}, asError(d.report.problems)
	}
	p := Part{fields: d.fields(root, ""), foreign: true}
	return p, asError(d.report.problems)
}

// Job composes parts, of which later ones win key by key, replaces ${NAME} by the values of
// variables, and checks the result as a Beefile in a directory. What is wrong is added to
// the document's problems, at its place or, where it has none, at the path at. used notes
// the variables that were replaced.
func (d *Document) Job(at string, variables map[string]string, used map[string]bool, dir string, parts ...Part) *Job {
	sub := newDecoder(d.d.report.file, nil)
	sub.report.lines, sub.anchors = d.d.report.lines, d.d.anchors
	sub.variables, sub.used = variables, used
	sub.report.places[""] = d.place(at)
	root, foreign := &ast.MappingNode{BaseNode: &ast.BaseNode{}, Start: sub.report.places[""]}, false
	for _, p := range parts {
		foreign = foreign || p.foreign
		for _, f := range p.fields {
			key := f.Key.GetToken().Value
			root.Values = slices.DeleteFunc(root.Values, func(g *ast.MappingValueNode) bool { return g.Key.GetToken().Value == key })
			root.Values = append(root.Values, f)
		}
	}
	j := &Job{Dir: dir, Nodes: 1, Volume: Volume{Path: defaultVolume}}
	sub.object(root, reflect.ValueOf(j).Elem(), "")
	(&jobCheck{sub.report, j}).all()
	if foreign { // whose lines are not this file's
		for i := range sub.report.problems {
			d.d.report.problem(sub.report.places[""], sub.report.problems[i].Hint, "%s", sub.report.problems[i].Message)
		}
		return j
	}
	d.d.report.problems = append(d.d.report.problems, sub.report.problems...)
	if len(sub.report.problems) == 0 {
		j.complete(d.d.report.file)
	}
	return j
}

func (d *Document) place(path string) *token.Token {
	for p := path; p != ""; p = parent(p) {
		if t, ok := d.d.report.places[p]; ok {
			return t
		}
	}
	return &token.Token{Position: &token.Position{Line: 1, Column: 1}}
}
