package docs

import (
	"go/ast"
	"strings"
	"testing"
)

// TestProgramsAreWrittenByWriteProgram: tests run beside each other, and a program that is
// written while another test forks cannot be executed for a moment.
func TestProgramsAreWrittenByWriteProgram(t *testing.T) {
	found := 0
	for file, f := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "internal/testkit/") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is || len(call.Args) != 3 {
				return true
			}
			by, name := "", ""
			switch fun := call.Fun.(type) {
			case *ast.SelectorExpr:
				name = fun.Sel.Name
				if x, is := fun.X.(*ast.Ident); is {
					by = x.Name
				}
			case *ast.Ident:
				name = fun.Name
			}
			switch mode, is := call.Args[2].(*ast.BasicLit); {
			case name == "WriteProgram":
				found++
			case by == "os" && name == "WriteFile" && is && strings.HasPrefix(mode.Value, "0o7"):
				if content, is := call.Args[1].(*ast.Ident); !is || content.Name != "nil" {
					t.Errorf("%s writes a program: call core.WriteProgram", file)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("no test writes a program")
	}
}
