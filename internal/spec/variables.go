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
	text := writtenText(n)
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
	return inPlaceOf(n, out, whole)
}

// writtenText is the text of a scalar in which something may be replaced; "": it has none.
func writtenText(n ast.Node) string {
	switch x := n.(type) {
	case *ast.StringNode:
		return x.Value
	case *ast.LiteralNode:
		return x.Value.Value
	}
	return ""
}

// inPlaceOf is the scalar with a text in place of that of n. whole: it is nothing but the
// value of a variable, which may be a number or a boolean.
func inPlaceOf(n ast.Node, text string, whole bool) ast.Node {
	at := *begins(n)
	at.Value, at.Type = text, token.DoubleQuoteType // a text, whatever it is like
	if whole {
		return scalar(&at, text)
	}
	return &ast.StringNode{BaseNode: &ast.BaseNode{}, Token: &at, Value: text}
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
