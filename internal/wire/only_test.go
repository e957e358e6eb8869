package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyTheGateAccepts: what accepts connections by itself has the faults again that
// Gate has not.
func TestOnlyTheGateAccepts(t *testing.T) {
	files := token.NewFileSet()
	for _, top := range []string{"../../internal", "../../cmd"} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, of := range []string{"internal/wire/", "internal/testkit/", "internal/driver/drivertest/"} {
				if strings.Contains(path, of) {
					return nil
				}
			}
			f, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, is := n.(*ast.CallExpr)
				if !is || len(call.Args) > 0 {
					return true
				}
				if s, is := call.Fun.(*ast.SelectorExpr); is && (s.Sel.Name == "Accept" || s.Sel.Name == "AcceptUnix" || s.Sel.Name == "AcceptTCP") {
					t.Errorf("%s: use wire.Gate", files.Position(n.Pos()))
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
