package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/template/parse"

	"github.com/bee-hpc/bee/internal/core"
)

// Template prints values by a template in the language of Go's text/template: fields by
// their names in JSON, range, if, with, and the functions json and len. The library itself
// would keep all methods of all types in the program, which makes it larger by a quarter.
type Template struct{ root *parse.ListNode }

// ParseTemplate reads a template. Errors are Invalid.
func ParseTemplate(text string) (*Template, error) {
	text = strings.NewReplacer(`\t`, "\t", `\n`, "\n").Replace(text)
	trees, err := parse.Parse("format", text, "", "", map[string]any{"json": true, "len": true})
	if err != nil {
		return nil, wrongTemplate(strings.TrimPrefix(err.Error(), "template: "))
	}
	tree := trees["format"]
	if tree == nil || len(tree.Root.Nodes) == 0 {
		return nil, wrongTemplate("it is empty")
	}
	return &Template{tree.Root}, nil
}

func wrongTemplate(why string) error {
	return &core.Error{
		Kind: core.Invalid, Op: "read", Object: "--format", Err: errors.New(why),
		Remedy: "Write json, or a template such as '{{.id}} {{.state}}' with the fields of --json, range, if, json and len.",
	}
}

// Print writes a value, which is turned into JSON first, and a line break.
func (t *Template) Print(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(strings.NewReader(string(raw)))
	d.UseNumber()
	var data any
	if err := d.Decode(&data); err != nil {
		return err
	}
	var b strings.Builder
	if err := list(&b, t.root, data); err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, b.String())
	return err
}

func list(b *strings.Builder, l *parse.ListNode, dot any) error {
	if l == nil {
		return nil
	}
	for _, n := range l.Nodes {
		if err := node(b, n, dot); err != nil {
			return err
		}
	}
	return nil
}

func node(b *strings.Builder, n parse.Node, dot any) error {
	switch n := n.(type) {
	case *parse.TextNode:
		b.Write(n.Text)
	case *parse.CommentNode:
	case *parse.ActionNode:
		v, err := pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		b.WriteString(Printable(shown(v)))
	case *parse.IfNode:
		return branch(b, &n.BranchNode, dot, dot)
	case *parse.WithNode:
		v, err := pipe(n.Pipe, dot)
		if err != nil {
			return err
		}
		return branch(b, &n.BranchNode, dot, v)
	case *parse.RangeNode:
		return loop(b, n, dot)
	default:
		return unknown(n)
	}
	return nil
}

func branch(b *strings.Builder, n *parse.BranchNode, dot, within any) error {
	v, err := pipe(n.Pipe, dot)
	if err != nil {
		return err
	}
	if holds(v) {
		return list(b, n.List, within)
	}
	return list(b, n.ElseList, dot)
}

func loop(b *strings.Builder, n *parse.RangeNode, dot any) error {
	v, err := pipe(n.Pipe, dot)
	if err != nil {
		return err
	}
	all, is := v.([]any)
	if v != nil && !is {
		return wrongTemplate(n.Pipe.String() + " is no list")
	}
	for _, each := range all {
		if err := list(b, n.List, each); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return list(b, n.ElseList, dot)
	}
	return nil
}

func unknown(n parse.Node) error { return wrongTemplate(n.String() + " is not known here") }

// pipe returns the value of commands, each of which gets that of the one before.
func pipe(p *parse.PipeNode, dot any) (v any, err error) {
	if len(p.Decl) > 0 {
		return nil, unknown(p)
	}
	for i, c := range p.Cmds {
		args := c.Args
		name, is := args[0].(*parse.IdentifierNode)
		if !is {
			if len(args) > 1 || i > 0 {
				return nil, unknown(c)
			}
			if v, err = operand(args[0], dot); err != nil {
				return nil, err
			}
			continue
		}
		if len(args)-1 != 1-min(i, 1) {
			return nil, wrongTemplate(name.Ident + " takes one value")
		}
		if i == 0 {
			if v, err = operand(args[1], dot); err != nil {
				return nil, err
			}
		}
		if v, err = call(name.Ident, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func call(name string, v any) (any, error) {
	if name == "json" {
		raw, err := json.Marshal(v)
		return string(raw), err
	}
	switch v := v.(type) {
	case nil:
		return 0, nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	case string:
		return len(v), nil
	}
	return nil, wrongTemplate("a number has no len")
}

func operand(n parse.Node, dot any) (any, error) {
	switch n := n.(type) {
	case *parse.DotNode:
		return dot, nil
	case *parse.FieldNode:
		return field(dot, n.Ident)
	case *parse.StringNode:
		return n.Text, nil
	case *parse.NumberNode:
		return json.Number(n.Text), nil
	case *parse.PipeNode:
		return pipe(n, dot)
	}
	return nil, unknown(n)
}

// field returns what is below names; nil: it is absent, as fields may be.
func field(v any, names []string) (any, error) {
	for _, name := range names {
		if v == nil {
			return nil, nil
		}
		m, is := v.(map[string]any)
		if !is {
			return nil, wrongTemplate("." + name + " is asked of something without fields")
		}
		v = m[name]
	}
	return v, nil
}

// holds reports whether a value is true in an if.
func holds(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case int:
		return v != 0
	case json.Number:
		f, err := v.Float64()
		return err != nil || f != 0
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true
}

// shown is a value as text.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any, []any:
		raw, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(raw)
	}
	return fmt.Sprint(v)
}
