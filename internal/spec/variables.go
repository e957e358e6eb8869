package spec

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// placeholder matches ${NAME}, and $${NAME}, which stands for itself with one dollar.
var placeholder = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// replaced returns a scalar with its variables replaced. A scalar that is nothing but a
// variable becomes a number or a boolean, where the variable's value is one.
func (d *decoder) replaced(n ast.Node) ast.Node {
	var text string
	switch x := n.(type) {
	case *ast.StringNode:
		text = x.Value
	case *ast.LiteralNode:
		text = x.Value.Value
	}
	if d.variables == nil || !strings.Contains(text, "${") {
		return n
	}
	whole := false
	out := placeholder.ReplaceAllStringFunc(text, func(m string) string {
		if strings.HasPrefix(m, "$$") {
			return m[1:]
		}
		name := m[2 : len(m)-1]
		value, known := d.variables[name]
		if !known {
			names := make([]string, 0, len(d.variables))
			for other := range d.variables {
				names = append(names, other)
			}
			hint := "write $" + name + " for the shell's own"
			if near := nearest(name, names); near != "" {
				hint = "did you mean ${" + near + "}?"
			}
			d.report.problem(begins(n), hint, "no `vary:` has the variable %q", name)
			return m
		}
		d.used[name] = true
		whole = m == text
		return value
	})
	at := *begins(n)
	at.Value, at.Type = out, token.DoubleQuoteType // a text, whatever it is like
	if whole {
		return scalar(&at, out)
	}
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: &at, Value: out}
}

// scalar is the node of a variable's value.
func scalar(at *token.Token, value string) ast.Node {
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return &ast.IntegerNode{BaseNode: &ast.BaseNode{}, Token: at, Value: value}
	}
	if x, ok := decimal(value); ok {
		return &ast.FloatNode{BaseNode: &ast.BaseNode{}, Token: at, Value: x}
	}
	if value == "true" || value == "false" {
		return &ast.BoolNode{BaseNode: &ast.BaseNode{}, Token: at, Value: value == "true"}
	}
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: at, Value: value}
}
