package spec

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// decoder turns YAML into our types. All that is wrong with it is reported, instead of the
// first alone.
type decoder struct {
	report   *report
	anchors  map[string][]anchor
	repeated int // how many of the problems are keys given again, whose first values can be read
	merges   int // how many mappings were merged into others

	variables map[string]string // what ${NAME} stands for; nil: nothing is replaced
	used      map[string]bool   // the variables that were replaced
	dir       string            // where paths start; "": the file names no other one
	casesFile string            // the file that the cases of its array are in; "": none
	ofCase    Case              // what ${case.NAME} stands for; nil: nothing is replaced
	// caseNumber is the number of that case, scripts are the texts for shells of its array, and
	// shellValues the values of variables that they need.
	caseNumber  int
	scripts     caseScripts
	shellValues map[string]string
	cases       *countedCases // those of its array, once they were read; nil: they were not
	left        *int          // how many cases the arrays of the file may still have; nil: it is of one job
}

func newDecoder(file string, data []byte) *decoder {
	return &decoder{report: newReport(file, data), anchors: map[string][]anchor{}}
}

// plain takes anchors, aliases and tags away.
func (d *decoder) plain(n ast.Node) ast.Node {
	for range 100 {
		switch x := n.(type) {
		case *ast.AnchorNode:
			n = x.Value
		case *ast.AliasNode:
			target, ok := d.target(x)
			if !ok {
				d.report.problem(x.GetToken(), "", "no anchor has this name")
				return nil
			}
			n = target
		case *ast.TagNode:
			n = x.Value
		default:
			return d.replaced(n)
		}
	}
	d.report.problem(begins(n), "", "aliases that go round in a circle")
	return nil
}

// fields gives a mapping's keys and values in order, or nil with a problem.
func (d *decoder) fields(n ast.Node, path string) []*ast.MappingValueNode {
	switch x := d.plain(n).(type) {
	case *ast.MappingNode:
		return d.merged(x.Values, path)
	case *ast.MappingValueNode:
		return d.merged([]*ast.MappingValueNode{x}, path)
	case nil, *ast.NullNode:
		return nil
	default:
		d.report.problem(begins(n), mappingHint(path), "%sa mapping of keys is wanted here, this is %s", prefix(path), kindOf(x))
		return nil
	}
}

// mappingHint shows a mapping where people tend to write something shorter.
func mappingHint(path string) string {
	switch key, _, _ := strings.Cut(path, "["); key {
	case "inputs":
		return "such as {from: ./input, to: /work}"
	case "mounts":
		return "such as {from: /project/era5, to: /data}"
	case "outputs":
		return "such as {from: /work/*.dat, to: ./results}"
	case "env":
		return "such as {KEY: value}"
	case arrayKey:
		return "such as {cases: {i: {from: 1, to: 10}}}, with ${case.i} in `run:`"
	}
	return ""
}

func prefix(path string) string {
	if path == "" {
		return ""
	}
	return path + ": "
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.BoolNode:
		return "true or false"
	case *ast.NullNode, nil:
		return "nothing"
	}
	return "text"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// decode fills v from n, and notes what of it could not be read.
func (d *decoder) decode(n ast.Node, v reflect.Value, path string) {
	problems, failed := len(d.report.problems)-d.repeated, len(d.report.failed)
	d.value(n, v, path)
	if len(d.report.problems)-d.repeated > problems && len(d.report.failed) == failed {
		d.report.fails(path)
	}
}

func (d *decoder) value(n ast.Node, v reflect.Value, path string) {
	n = d.plain(n)
	if n == nil {
		return
	}
	n = d.inCase(n, path)
	if _, null := n.(*ast.NullNode); null {
		d.report.problem(begins(n), "", "%sa value is missing", prefix(path))
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if own, ok := v.Addr().Interface().(decodable); ok {
		own.decode(d, n, path)
		return
	}
	if own, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if s, ok := d.text(n, path); ok {
			if err := own.UnmarshalText([]byte(s)); err != nil {
				d.report.problem(begins(n), "", "%s%v", prefix(path), err)
			}
		}
		return
	}
	switch v.Interface().(type) {
	case time.Duration:
		if s, ok := d.text(n, path); ok {
			t, hint, err := ParseDuration(s)
			if err != nil {
				d.report.problem(begins(n), hint, "%s%v", prefix(path), err)
			}
			v.SetInt(int64(t))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			v.SetString(s)
		}
	case reflect.Int, reflect.Int64:
		d.integer(n, v, path)
	case reflect.Float64:
		d.float(n, v, path)
	case reflect.Bool:
		b, ok := n.(*ast.BoolNode)
		if !ok {
			d.report.problem(begins(n), "", "%strue or false is wanted, this is %s", prefix(path), kindOf(n))
			return
		}
		v.SetBool(b.Value)
	}
}

// integer reads a whole number.
func (d *decoder) integer(n ast.Node, v reflect.Value, path string) {
	if _, ok := n.(*ast.IntegerNode); !ok && !hugeNumber(n) {
		d.report.problem(begins(n), "", "%sa whole number is wanted, this is %s", prefix(path), kindOf(n))
		return
	}
	digits := strings.ReplaceAll(n.GetToken().Value, "_", "")
	x, err := strconv.ParseInt(digits, 0, 64)
	switch {
	case err == nil && leadingZero(digits):
		d.report.problem(begins(n), fmt.Sprintf("write %s, or %d", strings.TrimLeft(digits, "+-0"), x), "%s%s means %d to some programs and %s to others", prefix(path), n.GetToken().Value, x, strings.TrimLeft(digits, "+-0"))
	case errors.Is(err, strconv.ErrRange):
		d.report.problem(begins(n), "", "%s%s is too large", prefix(path), n.GetToken().Value)
	case err != nil:
		d.report.problem(begins(n), "", "%s%s is no number that can be", prefix(path), n.GetToken().Value)
	}
	v.SetInt(x)
}

// float reads a number.
func (d *decoder) float(n ast.Node, v reflect.Value, path string) {
	var x float64
	switch n := n.(type) {
	case *ast.FloatNode:
		x = n.Value
	case *ast.IntegerNode:
		var err error
		if x, err = strconv.ParseFloat(n.GetToken().Value, 64); err != nil {
			d.report.problem(begins(n), "", "%s%s is no number that can be", prefix(path), n.GetToken().Value)
		}
	case *ast.NanNode, *ast.InfinityNode:
		d.report.problem(begins(n), "", "%s%s is no number that can be", prefix(path), n.GetToken().Value)
		return
	default:
		if hugeNumber(n) {
			d.report.problem(begins(n), "", "%s%s is too large", prefix(path), n.GetToken().Value)
			return
		}
		d.report.problem(begins(n), "", "%sa number is wanted, this is %s", prefix(path), kindOf(n))
	}
	v.SetFloat(x)
}

// leadingZero reports whether a number is octal in YAML 1.1 and decimal in YAML 1.2.
func leadingZero(digits string) bool {
	digits = strings.TrimLeft(digits, "+-")
	return len(digits) > 1 && digits[0] == '0' && strings.Trim(digits, "01234567") == ""
}

// hugeNumber reports whether what the parser took for text is a number that is
// too large for it.
func hugeNumber(n ast.Node) bool {
	t := n.GetToken()
	if _, text := n.(*ast.StringNode); !text || t.Type != token.StringType {
		return false // quoted text is text
	}
	digits := strings.TrimLeft(t.Value, "+-")
	return len(digits) > 18 && strings.Trim(digits, "0123456789_") == ""
}

// decodable is a type with a form of its own in YAML.
type decodable interface {
	decode(d *decoder, n ast.Node, path string)
}

// text gives a scalar as text: `1`, `true` and `1.5` are texts where one is wanted.
// None holds a NUL, which neither an argument, a variable nor a path can.
func (d *decoder) text(n ast.Node, path string) (string, bool) {
	var text string
	switch x := n.(type) {
	case *ast.StringNode:
		text = x.Value
	case *ast.LiteralNode:
		text = x.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		text = n.GetToken().Value
	default:
		d.report.problem(begins(n), "", "%stext is wanted, this is %s", prefix(path), kindOf(n))
		return "", false
	}
	if strings.Contains(text, "\x00") {
		d.report.problem(begins(n), "", "%sa text cannot hold a NUL", prefix(path))
		return "", false
	}
	return text, true
}

// extension begins the top-level keys that are the user's own, such as one that
// holds anchors; compose files have them, too.
const extension = "x-"

func (d *decoder) object(n ast.Node, v reflect.Value, path string) {
	index := fieldIndex(v.Type())
	inline, keys := inlineOf(v), keysOf(v.Type())
	seen := map[string]bool{}
	var meant []string
	for _, f := range d.fields(n, path) {
		key := f.Key.GetToken().Value
		i, known := index[key]
		if path == "" && strings.HasPrefix(key, extension) {
			continue
		}
		if !known && inline != nil && slices.Contains(keys, key) {
			d.report.place(f, join(path, key))
			inline.fields = append(inline.fields, f)
			continue
		}
		if !known {
			hint := foreignHint(v.Type(), key)
			if near := nearest(key, keys); hint == "" && near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
				meant = append(meant, near)
			}
			d.report.problem(f.Key.GetToken(), hint, "unknown key %q", join(path, key))
			d.report.fails(join(path, key))
			continue
		}
		seen[key] = true
		d.report.place(f, join(path, key))
		d.decode(f.Value, v.Field(i), join(path, key))
	}
	for _, key := range meant {
		if !seen[key] {
			d.report.fails(join(path, key))
		}
	}
}

// begins gives the first token of a node: the parser's own for a mapping of several
// lines is the colon behind its first key.
func begins(n ast.Node) *token.Token {
	switch x := n.(type) {
	case *ast.MappingNode:
		if !x.IsFlowStyle && len(x.Values) > 0 {
			return x.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		return x.Key.GetToken()
	}
	return n.GetToken()
}

func (d *decoder) list(n ast.Node, v reflect.Value, path string) {
	s, ok := n.(*ast.SequenceNode)
	if !ok {
		d.report.problem(begins(n), "write [a, b], or one per line with a dash", "%sa list is wanted, this is %s", prefix(path), kindOf(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(s.Values), len(s.Values)))
	for i, element := range s.Values {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.report.places[p] = begins(element)
		d.decode(element, v.Index(i), p)
	}
}

func (d *decoder) mapping(n ast.Node, v reflect.Value, path string) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, f := range d.fields(n, path) {
		key := f.Key.GetToken().Value
		d.report.place(f, join(path, key))
		value := reflect.New(v.Type().Elem()).Elem()
		d.decode(f.Value, value, join(path, key))
		v.SetMapIndex(reflect.ValueOf(key), value)
	}
}
