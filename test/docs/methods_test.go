package docs

import (
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// mostMethods is how many methods a type may have: one with more does several things, of which
// some get types of their own.
const mostMethods = 40

// methodSets are the methods of the types of packages, and what structs embed of the same
// package, by package and name.
type methodSets struct {
	methods map[string]map[string]bool
	embeds  map[string][]string
}

// TestTypesHaveFewMethods counts the methods of each type, also in tests, and with those of
// the structs that it embeds.
func TestTypesHaveFewMethods(t *testing.T) {
	s := methodSets{map[string]map[string]bool{}, map[string][]string{}}
	for file, f := range goFiles(t) {
		s.add(file, f)
	}
	if len(s.methods) < 500 {
		t.Fatalf("%d types with methods were found", len(s.methods))
	}
	for _, name := range slices.Sorted(maps.Keys(s.methods)) {
		if n := len(s.of(name)); n > mostMethods {
			t.Errorf("%s has %d methods, more than %d: give those that belong together a type of their own", name, n, mostMethods)
		}
	}
}

// add adds the types of a file. What a test embeds is what it tests: that counts by itself.
func (s methodSets) add(file string, f *ast.File) {
	room := path.Dir(file) + ": " + f.Name.Name + "."
	for _, d := range f.Decls {
		if fn, is := d.(*ast.FuncDecl); is && fn.Recv != nil {
			name := room + typeName(fn.Recv.List[0].Type)
			if s.methods[name] == nil {
				s.methods[name] = map[string]bool{}
			}
			s.methods[name][fn.Name.Name] = true
		}
		types, is := d.(*ast.GenDecl)
		if !is || strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, spec := range types.Specs {
			declared, is := spec.(*ast.TypeSpec)
			if !is {
				continue
			}
			if fields, is := declared.Type.(*ast.StructType); is {
				for _, field := range fields.Fields.List {
					if len(field.Names) == 0 {
						s.embeds[room+declared.Name.Name] = append(s.embeds[room+declared.Name.Name], room+typeName(field.Type))
					}
				}
			}
		}
	}
}

// of returns the methods of a type, those of what it embeds included. A struct does not embed
// itself, unless by a pointer: seen are those that were counted.
func (s methodSets) of(name string, seen ...string) map[string]bool {
	all := map[string]bool{}
	maps.Copy(all, s.methods[name])
	for _, embedded := range s.embeds[name] {
		if !slices.Contains(seen, embedded) {
			maps.Copy(all, s.of(embedded, append(seen, name)...))
		}
	}
	return all
}

// typeName is the name of a type of the same package, of a receiver or an embedded field.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.IndexListExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
