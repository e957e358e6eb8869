package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// A sentence of BEE's is asserted in a golden file alone: elsewhere, nobody could edit it
// without the tests that quote it. A test quotes one if a text that it compares something with
// has three words in a row that also stand so in a text of the program. Commands, which begin
// with bee, are data. So are texts between backquotes, as keys and commands are written.

// quotable are texts that tests may compare with although the program prints three of their
// words as well, each with its reason.
var quotable = map[string]string{
	"panic: site says: out of memory": "of the Go runtime",
	"Is the docker daemon running?":   "of docker",
	"This account is not available.":  "of nologin(8)",
	"sent by its user to lab":         "of a database of an earlier version",
	"by the site itself":              "the log of a controller has no fields",
}

var (
	aVerb      = regexp.MustCompile(`%[-+# 0]*(\[\d+\])?[\d.*]*[a-zA-Z]`)
	aQuotation = regexp.MustCompile("`[^`]*`")
	wordRun    = regexp.MustCompile(`[\pL][\pL'-]*(?: [\pL][\pL'-]*){2,}`)
)

// triples returns all three words of a text that follow each other.
func triples(text string) (all []string) {
	if strings.Count(text, " ") < 2 {
		return nil
	}
	text = aQuotation.ReplaceAllString(aVerb.ReplaceAllString(text, "\x00"), "\x00")
	for _, run := range wordRun.FindAllString(text, -1) {
		words := strings.Split(run, " ")
		for i := 0; i+3 <= len(words) && words[0] != "bee"; i++ {
			all = append(all, strings.Join(words[i:i+3], " "))
		}
	}
	return all
}

// literal returns the text of a string literal, or of a sum with one.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return literal(e.X)
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		x, one := literal(e.X)
		y, other := literal(e.Y)
		if e.Op == token.ADD && (one || other) {
			return x + "\x00" + y, true
		}
	}
	return "", false
}

// comparing are the functions whose arguments, but the first, are what something is compared with.
var comparing = map[string][]string{
	"strings": {"Contains", "HasPrefix", "HasSuffix", "Index", "LastIndex", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold"},
	"bytes":   {"Contains", "HasPrefix", "HasSuffix", "Index", "Count", "Equal"},
	"slices":  {"Contains", "Index", "Equal"},
}

// comparisons are what one function of a test compares with: literals, and the names of
// variables and of fields.
type comparisons struct {
	literals      []string
	names, fields map[string]bool
}

// add notes an operand, and what it consists of.
func (c *comparisons) add(e ast.Expr) {
	if text, is := literal(e); is {
		c.literals = append(c.literals, text)
	}
	switch e := e.(type) {
	case *ast.ParenExpr:
		c.add(e.X)
	case *ast.BinaryExpr:
		c.add(e.X)
		c.add(e.Y)
	case *ast.IndexExpr:
		c.add(e.X)
	case *ast.Ident:
		c.names[e.Name] = true
	case *ast.SelectorExpr:
		c.fields[e.Sel.Name] = true
	case *ast.CallExpr: // fmt.Sprintf, for one
		for _, a := range e.Args {
			c.add(a)
		}
	}
}

// all notes every literal below a node.
func (c *comparisons) all(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		e, is := n.(ast.Expr)
		if !is {
			return true
		}
		text, is := literal(e)
		if is {
			c.literals = append(c.literals, text)
		}
		return !is
	})
}

// find notes the operands of the comparisons in a function.
func (c *comparisons) find(d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, is := n.Fun.(*ast.SelectorExpr); is && len(n.Args) > 1 {
				if p, is := f.X.(*ast.Ident); is && slices.Contains(comparing[p.Name], f.Sel.Name) {
					for _, a := range n.Args[1:] {
						c.add(a)
					}
				}
			}
		case *ast.BinaryExpr:
			if _, is := n.Y.(*ast.Ident); n.Op == token.EQL || n.Op == token.NEQ {
				if c.add(n.Y); !is { // a variable on the left is what a test got
					c.literals = append(c.literals, literalOf(n.X))
				}
			}
		}
		return true
	})
}

func literalOf(e ast.Expr) string { text, _ := literal(e); return text }

// resolve notes the literals that variables and fields of a function can have: those that are
// assigned to them, and those of the tables that it goes through.
func (c *comparisons) resolve(d ast.Decl) {
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if id, is := l.(*ast.Ident); is && c.names[id.Name] && len(n.Rhs) == len(n.Lhs) {
					c.assigned(n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i, id := range n.Names {
				if c.names[id.Name] && i < len(n.Values) {
					c.assigned(n.Values[i])
				}
			}
		case *ast.RangeStmt:
			key, value := c.has(n.Key), c.has(n.Value)
			if list, is := n.X.(*ast.CompositeLit); is {
				for _, e := range list.Elts {
					if kv, is := e.(*ast.KeyValueExpr); is && key {
						c.all(kv.Key)
					} else if value && !is {
						c.all(e)
					} else if value {
						c.all(kv.Value)
					}
				}
			} else if id, is := n.X.(*ast.Ident); is && (key || value) {
				c.names[id.Name] = true
			} else if f, is := n.X.(*ast.SelectorExpr); is && value {
				c.fields[f.Sel.Name] = true
			}
		case *ast.CompositeLit:
			c.table(n)
		}
		return true
	})
}

// assigned notes what a variable gets.
func (c *comparisons) assigned(e ast.Expr) {
	if _, is := e.(*ast.CompositeLit); is {
		c.all(e)
	} else {
		c.add(e)
	}
}

func (c *comparisons) has(e ast.Expr) bool {
	id, is := e.(*ast.Ident)
	return is && c.names[id.Name]
}

// table notes the fields of a table of cases.
func (c *comparisons) table(list *ast.CompositeLit) {
	var fields *ast.StructType
	switch t := list.Type.(type) {
	case *ast.ArrayType:
		fields, _ = t.Elt.(*ast.StructType)
	case *ast.MapType:
		fields, _ = t.Value.(*ast.StructType)
	}
	if fields == nil {
		return
	}
	var names []string
	for _, f := range fields.Fields.List {
		for _, id := range f.Names {
			names = append(names, id.Name)
		}
	}
	for _, e := range list.Elts {
		if kv, is := e.(*ast.KeyValueExpr); is {
			e = kv.Value
		}
		one, is := e.(*ast.CompositeLit)
		for i := 0; is && i < len(one.Elts); i++ {
			value, name := one.Elts[i], ""
			if kv, keyed := value.(*ast.KeyValueExpr); keyed {
				if id, is := kv.Key.(*ast.Ident); is {
					value, name = kv.Value, id.Name
				}
			} else if i < len(names) {
				name = names[i]
			}
			if name != "name" && c.fields[name] { // that of a case only says which one it is
				c.all(value)
			}
		}
	}
}

// compared returns the texts that the functions of a file compare with.
func compared(f *ast.File) (all []string) {
	for _, d := range f.Decls {
		c := comparisons{names: map[string]bool{}, fields: map[string]bool{}}
		c.find(d)
		delete(c.names, "err")
		for range 3 { // a variable may come from another
			c.resolve(d)
		}
		all = append(all, c.literals...)
	}
	return all
}

// TestCompared finds the texts of a test wherever they stand.
func TestCompared(t *testing.T) {
	for body, want := range map[string]bool{
		`strings.Contains(got, "it is wrong")`:                                                                                                   true,
		`strings.Contains(got, "run " + id + "it is wrong")`:                                                                                     true,
		`strings.Contains(got, fmt.Sprintf("it is wrong", 1))`:                                                                                   true,
		`_ = got == "it is wrong"`:                                                                                                               true,
		`if want := "it is wrong"; strings.HasPrefix(got, want) {}`:                                                                              true,
		`const want = "it is wrong"; _ = got != want`:                                                                                            true,
		`for _, want := range []string{"it is wrong"} { strings.Count(got, want) }`:                                                              true,
		`for want := range map[string]int{"it is wrong": 1} { strings.Index(got, want) }`:                                                        true,
		`list := []string{"it is wrong"}; for _, want := range list { strings.Cut(got, want) }`:                                                  true,
		`for _, c := range []struct{ says string }{{"it is wrong"}} { strings.HasSuffix(got, c.says) }`:                                          true,
		`for _, c := range map[string]struct{ a, says string }{"x": {says: "it is wrong"}} { _ = got == c.says }`:                                true,
		`for _, c := range []struct{ says []string }{{[]string{"it is wrong"}}} { for _, want := range c.says { strings.Contains(got, want) } }`: true,
		`strings.Contains("it is wrong", got)`:                                                                                                   false,
		`t.Errorf("it is wrong")`:                                                                                                                false,
		`got = "it is wrong"`:                                                                                                                    false,
		`for _, c := range []struct{ name, says string }{{"it is wrong", "x"}} { _ = c.name; _ = got == c.says }`:                                false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() {\n"+body+"\n}\n", parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		found := slices.ContainsFunc(compared(f), func(text string) bool { return strings.Contains(text, "it is wrong") })
		if found != want {
			t.Errorf("%s: found %v", body, found)
		}
	}
}

// TestTriples: commands, quotations and verbs are no words of a sentence.
func TestTriples(t *testing.T) {
	for text, want := range map[string][]string{
		"it is wrong":                    {"it is wrong"},
		"run %s is over already (%d)":    {"is over already"},
		"`bee show pi` shows what it is": {"shows what it", "what it is"},
		"bee show pi":                    nil,
		"it is: wrong":                   nil,
	} {
		if got := triples(text); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestSentencesAreInGoldenFiles: no test compares with a sentence of the program.
func TestSentencesAreInGoldenFiles(t *testing.T) {
	printed := map[string]bool{}
	files := goFiles(t)
	for file, f := range files {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/") || strings.HasPrefix(file, "internal/testkit/") || strings.HasSuffix(dir, "test") {
			continue // a test, or what only tests use
		}
		var texts comparisons
		texts.all(f)
		for _, text := range texts.literals {
			for _, words := range triples(text) {
				printed[words] = true
			}
		}
	}
	used := map[string]bool{} // of quotable
	for file, f := range files {
		if !strings.HasSuffix(file, "_test.go") || strings.HasPrefix(file, "test/docs/") {
			continue
		}
		quoted := map[string]string{}
		for _, text := range compared(f) {
			for _, words := range triples(text) {
				if printed[words] {
					quoted[text] = words
				}
			}
		}
		for text, words := range quoted {
			if used[text] = quotable[text] != ""; !used[text] {
				t.Errorf("%s compares with %q, of which the program prints %q: assert a kind, a code or a field, or call testkit.Wording", file, text, words)
			}
		}
	}
	for text := range quotable {
		if !used[text] {
			t.Errorf("no test compares with %q any more, or the program prints no words of it: remove it", text)
		}
	}
}

// TestWordingIsOfTests: an entry of a golden file whose test is gone goes as well.
func TestWordingIsOfTests(t *testing.T) {
	found := 0
	tests := map[string]bool{} // by folder and name
	folders := map[string]bool{}
	for file, f := range goFiles(t) {
		folders[path.Dir(file)] = true
		for _, d := range f.Decls {
			if d, is := d.(*ast.FuncDecl); is {
				tests[path.Dir(file)+" "+d.Name.Name] = true
			}
		}
	}
	for folder := range folders {
		raw, err := os.ReadFile(filepath.Join("../..", folder, testkit.WordingFile))
		if err != nil {
			continue
		}
		for entry := range testkit.WordingEntries(string(raw)) {
			found++
			if name := regexp.MustCompile(`^\w+`).FindString(entry); !tests[folder+" "+name] {
				t.Errorf("%s: %s: there is no such test in %s", testkit.WordingFile, entry, folder)
			}
		}
	}
	if found == 0 {
		t.Error("no entry was found")
	}
}
