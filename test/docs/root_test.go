package docs

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// TestSkipsForRootAreRequireRoot: a test that only root can run, and that an ordinary user
// skips in another way than by testkit.RequireRoot, would run for neither.
func TestSkipsForRootAreRequireRoot(t *testing.T) {
	found := 0
	for file, f := range goFiles(t) {
		if !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(file, "internal/driver/drivertest/") {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			branch, is := n.(*ast.IfStmt)
			if !is || !asksForUser(branch.Cond, token.NEQ) {
				if is && asksForUser(branch.Cond, token.EQL) {
					found++
				}
				return true
			}
			ast.Inspect(branch.Body, func(n ast.Node) bool {
				if call, is := n.(*ast.SelectorExpr); is && strings.HasPrefix(call.Sel.Name, "Skip") {
					t.Errorf("%s skips what needs root: call testkit.RequireRoot", file)
				}
				return true
			})
			return true
		})
	}
	if found == 0 {
		t.Error("no test asks whether root runs it")
	}
}

// asksForUser reports whether a condition compares this process's user with root.
func asksForUser(cond ast.Expr, op token.Token) bool {
	asks := false
	ast.Inspect(cond, func(n ast.Node) bool {
		if b, is := n.(*ast.BinaryExpr); is && b.Op == op {
			call, is := b.X.(*ast.CallExpr)
			if !is {
				return true
			}
			if f, is := call.Fun.(*ast.SelectorExpr); is && (f.Sel.Name == "Geteuid" || f.Sel.Name == "Getuid") {
				asks = true
			}
		}
		return true
	})
	return asks
}
