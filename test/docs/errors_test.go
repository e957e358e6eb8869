package docs

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// An ownError is an error of BEE's own as the code makes it: a core.Error with an operation. What
// is known only when it is made is an ellipsis.
type ownError struct {
	file   string
	kind   string // as in code, such as NotFound; "": decided when it is made
	op     string
	reason string // "": the error of another program, of a library or of the system
	remedy string // "…": decided when it is made; "": none
}

// errorsOf finds the errors of BEE's own in a file. Constants are those of its package, and of core.
func errorsOf(file string, f *ast.File, constants map[string]string) (all []ownError) {
	for _, d := range f.Decls {
		later := remediesSetLater(d)
		ast.Inspect(d, func(n ast.Node) bool {
			lit, is := n.(*ast.CompositeLit)
			if !is || !isCoreError(file, lit.Type) {
				return true
			}
			e := ownError{file: file, kind: "Permanent"}
			for _, field := range lit.Elts {
				kv, is := field.(*ast.KeyValueExpr)
				if !is {
					continue
				}
				switch key := kv.Key.(*ast.Ident).Name; key {
				case "Kind":
					e.kind = ""
					if s, is := kv.Value.(*ast.SelectorExpr); is {
						e.kind = s.Sel.Name
					}
				case "Op":
					e.op = shownText(kv.Value, constants)
				case "Err":
					e.reason = ownReason(kv.Value, constants)
				case "Remedy":
					e.remedy = shownText(kv.Value, constants)
				}
			}
			if e.remedy == "" && later[lit] {
				e.remedy = "…"
			}
			if e.op != "" {
				all = append(all, e)
			}
			return true
		})
	}
	return all
}

func isCoreError(file string, t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.SelectorExpr:
		p, is := t.X.(*ast.Ident)
		return is && p.Name == "core" && t.Sel.Name == "Error"
	case *ast.Ident:
		return t.Name == "Error" && path.Dir(file) == "internal/core"
	}
	return false
}

// remediesSetLater are the literals in a declaration that a variable has whose Remedy is set.
func remediesSetLater(d ast.Decl) map[*ast.CompositeLit]bool {
	set := map[string]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		if a, is := n.(*ast.AssignStmt); is {
			for _, l := range a.Lhs {
				if s, is := l.(*ast.SelectorExpr); is && s.Sel.Name == "Remedy" {
					if x, is := s.X.(*ast.Ident); is {
						set[x.Name] = true
					}
				}
			}
		}
		return true
	})
	later := map[*ast.CompositeLit]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		a, is := n.(*ast.AssignStmt)
		for i := 0; is && i < len(a.Lhs) && i < len(a.Rhs); i++ {
			x, named := a.Lhs[i].(*ast.Ident)
			u, pointer := a.Rhs[i].(*ast.UnaryExpr)
			if named && pointer && set[x.Name] {
				if lit, is := u.X.(*ast.CompositeLit); is {
					later[lit] = true
				}
			}
		}
		return true
	})
	return later
}

// shownText is a text as far as the code has it.
func shownText(e ast.Expr, constants map[string]string) string {
	switch e := e.(type) {
	case *ast.ParenExpr:
		return shownText(e.X, constants)
	case *ast.BasicLit:
		return literalOf(e)
	case *ast.Ident:
		return cmp.Or(constants[e.Name], "…")
	case *ast.SelectorExpr:
		if x, is := e.X.(*ast.Ident); is {
			return cmp.Or(constants[x.Name+"."+e.Sel.Name], "…")
		}
	case *ast.BinaryExpr:
		return shownText(e.X, constants) + shownText(e.Y, constants)
	case *ast.CallExpr:
		if called(e) == "fmt.Sprintf" && len(e.Args) > 0 {
			return withoutVerbs(shownText(e.Args[0], constants))
		}
		if called(e) == "cmp.Or" && len(e.Args) > 0 { // the text where nobody knows a better one
			return shownText(e.Args[len(e.Args)-1], constants)
		}
	}
	return "…"
}

// ownReason is the cause of an error if BEE has worded it.
func ownReason(e ast.Expr, constants map[string]string) string {
	call, is := e.(*ast.CallExpr)
	if !is || len(call.Args) == 0 {
		return ""
	}
	text := shownText(call.Args[0], constants)
	switch called(call) {
	case "errors.New":
		return text
	case "fmt.Errorf":
		if !strings.Contains(text, "%w") {
			return withoutVerbs(text)
		}
	}
	return ""
}

func called(c *ast.CallExpr) string {
	if f, is := c.Fun.(*ast.SelectorExpr); is {
		if p, is := f.X.(*ast.Ident); is {
			return p.Name + "." + f.Sel.Name
		}
	}
	return ""
}

func withoutVerbs(format string) string {
	return strings.ReplaceAll(aVerb.ReplaceAllString(strings.ReplaceAll(format, "%%", "\x00"), "…"), "\x00", "%")
}

// constantsOf are the texts of constants, by package and name.
func constantsOf(files map[string]*ast.File) map[string]map[string]string {
	all := map[string]map[string]string{}
	for file, f := range files {
		dir := path.Dir(file)
		if all[dir] == nil {
			all[dir] = map[string]string{}
		}
		for _, d := range f.Decls {
			g, is := d.(*ast.GenDecl)
			if !is || g.Tok != token.CONST {
				continue
			}
			for _, s := range g.Specs {
				v := s.(*ast.ValueSpec)
				for i, name := range v.Names {
					if i < len(v.Values) {
						if text, is := literal(v.Values[i]); is {
							all[dir][name.Name] = text
						}
					}
				}
			}
		}
	}
	for dir, names := range all {
		if dir == "internal/core" {
			continue
		}
		for name, text := range all["internal/core"] {
			names["core."+name] = text
		}
	}
	return all
}

// ownErrors returns all of the program, in a fixed order.
func ownErrors(t *testing.T) (all []ownError) {
	t.Helper()
	files := goFiles(t)
	constants := constantsOf(files)
	for file, f := range files {
		if strings.HasPrefix(file, "internal/") && !strings.HasSuffix(file, "_test.go") && !testOnly.MatchString(file) {
			all = append(all, errorsOf(file, f, constants[path.Dir(file)])...)
		}
	}
	slices.SortFunc(all, func(a, b ownError) int {
		return cmp.Or(cmp.Compare(a.op, b.op), cmp.Compare(a.reason, b.reason), cmp.Compare(a.remedy, b.remedy), cmp.Compare(a.kind, b.kind), cmp.Compare(a.file, b.file))
	})
	return all
}

// ofJobs are errors that need no remedy of BEE's.
var ofJobs = map[string]string{"the job's `…` command": "what a job that ends with a code has printed is shown, and is its own"}

// TestErrorsHaveRemedies: each error whose cause BEE has worded names the next step.
func TestErrorsHaveRemedies(t *testing.T) {
	found := 0
	for _, e := range ownErrors(t) {
		if e.reason == "" {
			continue
		}
		if found++; e.remedy == "" && ofJobs[e.op] == "" {
			t.Errorf("%s: %q: %q has no remedy: what does its reader do next?", e.file, e.op, e.reason)
		}
		if e.remedy != "" && e.remedy != "…" && !regexp.MustCompile("^[\\pLu`…].*[.?…]$").MatchString(e.remedy) {
			t.Errorf("%s: %q: the remedy is no sentence: %q", e.file, e.op, e.remedy)
		}
	}
	if found < 300 {
		t.Errorf("only %d errors were found", found)
	}
}

// subjects are the sections of the page of errors, each with the rooms whose errors it has. The
// first that matches counts.
var subjects = []struct{ title, rooms string }{
	{"Beefiles and sites files", `spec|scaffold|energy`},
	{"Commands and their arguments", `cli/(usage|console|output|setupcmd|workspace|recordcmd|stopcmd|runcmd|nodecmd|imagecmd)|notify|web|input|tarcopy|shell`},
	{"Studies and predictions", `cli/benchcmd|bench|burstsim`},
	{"Images", `image`},
	{"Runs, arrays and tickets", `control|state|supervisor|plan|measure|report`},
	{"Sites of ssh", `provider/ssh|sshlink`},
	{"Sites of Slurm", `provider/slurm`},
	{"Rented machines", `provider/(aws|openstack|cloud)|catalog/(aws|openstack)|cli/cloudcmd`},
	{"This machine and emulated hosts", `provider/local|emulate|provider/leasedir|reservation|cgroup`},
	{"Guests of VirtualBox", `provider/virtualbox|catalog/virtualbox`},
	{"Containers", `runtime|hostdir|mountns|inside|devices|catalog`},
	{"Virtual machines", `vm|guest`},
	{"MPI, networks and RDMA devices", `mpi|fabric|rdma`},
	{"Nodes", `node`},
	{"Volumes and burst buffers", `volume|cli/volumecmd|remote`},
	{"Stores of checkpoints", `store|s3client`},
	{"Files and connections", `fsutil|treesync|wire|rpc|core|procid|driver|chunk|crashes`},
}

func subjectOf(t *testing.T, file string) string {
	for _, s := range subjects {
		if regexp.MustCompile(`^internal/(` + s.rooms + `)(/|\.go)`).MatchString(file) {
			return s.title
		}
	}
	t.Errorf("the page of errors has no section for those of %s: add its room to one", file)
	return ""
}

const errorsPage = "docs/reference/errors.md"

// TestErrorsPage holds the page of errors against the code. BEE_TEST_WRITE=1 writes it.
func TestErrorsPage(t *testing.T) {
	sections := map[string][]string{}
	for _, e := range ownErrors(t) {
		reason := e.reason
		if reason == "" && strings.Trim(e.remedy, "…. ") == "" {
			continue // all of it is another's text
		}
		code := "as printed"
		for k := core.Permanent; k <= core.Stopped; k++ {
			if strings.EqualFold(strings.ReplaceAll(k.String(), " ", ""), cmp.Or(e.kind, "-")) {
				code = fmt.Sprint(console.CodeOfKind(k))
			}
		}
		row := fmt.Sprintf("| %s | %s | %s | %s |\n", cell(e.op), cell(cmp.Or(reason, "…")), cell(cmp.Or(e.remedy, "…")), code)
		if title := subjectOf(t, e.file); !slices.Contains(sections[title], row) {
			sections[title] = append(sections[title], row)
		}
	}
	var b strings.Builder
	b.WriteString(`# Errors

Every error of BEE's own, by its first words. [Troubleshooting](../how-to/troubleshooting.md) has the symptoms that have no error.

An error prints what was tried and on what, the reason, and on the next line what to do.
Here, … stands for what is known only then, such as a name, or what another program has printed.
The [exit code](exit-codes.md) is that of a command that ends with the error; "as printed" is that of the cause.
`)
	for _, s := range subjects {
		if len(sections[s.title]) > 0 {
			b.WriteString("\n## " + s.title + "\n\n<!-- generated: errors -->\n\n| error | reason | what to do | code |\n|---|---|---|---|\n" + strings.Join(sections[s.title], "") + "\n<!-- generated: end -->\n")
		}
	}
	file := filepath.Join(testkit.Root(t), errorsPage)
	if os.Getenv(testkit.WriteGolden) != "" {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != b.String() {
		t.Errorf("%s is not what the code has (%v): run `BEE_TEST_WRITE=1 go test -run ErrorsPage ./test/docs`", errorsPage, err)
	}
}

// cell is a text in a table of Markdown. Code in it stays as it is.
func cell(text string) string {
	parts := strings.Split(strings.NewReplacer("|", `\|`, "\n", " ").Replace(text), "`")
	for i := 0; i < len(parts); i += 2 {
		parts[i] = strings.NewReplacer("*", `\*`, "<", `\<`, "_", `\_`, "[", `\[`).Replace(parts[i])
	}
	return strings.ReplaceAll(strings.Join(parts, "`"), "……", "…")
}
