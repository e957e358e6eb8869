package spec

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// report collects all that is wrong with a file, each at its place there.
type report struct {
	file     string
	lines    []string
	problems []Problem
	places   map[string]*token.Token // of keys and elements by path, for checks that come later; that of "" is set of a document among several
	values   map[string]*token.Token // where the values of keys begin
	failed   map[string]bool         // paths whose values could not be read
	flags    map[string]string       // what gave a path's value in place of the file
}

// newReport begins the report of a file.
func newReport(file string, data []byte) *report {
	r := &report{file: file, lines: strings.Split(string(unmarked(data)), "\n")}
	return r.fresh()
}

// fresh returns an empty report about the same document.
func (r *report) fresh() *report {
	next := &report{file: r.file, lines: r.lines, places: map[string]*token.Token{}, values: map[string]*token.Token{}, failed: map[string]bool{}, flags: map[string]string{}}
	if begin, is := r.places[""]; is {
		next.places[""] = begin
	}
	return next
}

// problem adds a problem at a place of the file; nil: at its beginning.
func (r *report) problem(at *token.Token, hint, format string, args ...any) {
	p := Problem{File: r.file, Line: 1, Column: 1, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at != nil && at.Position != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	if p.Line >= 1 && p.Line <= len(r.lines) {
		p.Source = strings.TrimRight(r.lines[p.Line-1], "\r")
	}
	r.problems = append(r.problems, p)
}

// at adds a problem at the value of a path such as "outputs[0].from", unless that value could
// not be read, which is reported already.
func (r *report) at(path, hint, format string, args ...any) {
	if t, ok := r.values[path]; ok && r.wasRead(path) && r.flags[path] == "" {
		r.problem(t, hint, format, args...)
		return
	}
	r.atKey(path, hint, format, args...)
}

// atKey is at for what is wrong with a key whatever its value is, such as that it
// cannot be beside another.
func (r *report) atKey(path, hint, format string, args ...any) {
	if !r.wasRead(path) {
		return
	}
	for p := path; ; p = parent(p) {
		if flag, ok := r.flags[p]; ok {
			r.problems = append(r.problems, Problem{File: flag, Message: fmt.Sprintf(format, args...), Hint: hint})
			return
		}
		if t, ok := r.places[p]; ok {
			r.problem(t, hint, format, args...)
			return
		}
		if p == "" {
			r.problem(nil, hint, format, args...)
			return
		}
	}
}

// place notes where a key and its value are.
func (r *report) place(f *ast.MappingValueNode, path string) {
	r.places[path], r.values[path] = f.Key.GetToken(), begins(f.Value)
}
