package spec

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Types that YAML gives in more than one form.

// decode takes a shell string or an argument vector.
func (c *Command) decode(d *decoder, n ast.Node, path string) {
	empty := false
	if words, list := n.(*ast.SequenceNode); list {
		d.list(n, reflect.ValueOf(&c.Argv).Elem(), path)
		if c.Argv == nil {
			c.Argv = []string{}
		}
		empty = len(words.Values) == 0 && slices.Contains(wanted(), path)
	} else if s, ok := d.text(n, path); ok {
		c.Shell, empty = s, strings.TrimSpace(s) == ""
		if empty && (path == "entrypoint" || path == "build.entrypoint") { // as GitLab CI writes none
			c.Shell, c.Argv, empty = "", []string{}, false
		}
	}
	if empty {
		d.problem(begins(n), "leave it out, or give a command", "%sthe command is empty", prefix(path))
	}
}

// buildForm is Build without its own decode, so that object can fill it.
type buildForm Build

// decode takes a directory with a Dockerfile, or a mapping.
func (b *Build) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode:
		b.Context, _ = d.text(n, path)
	default:
		d.object(n, reflect.ValueOf((*buildForm)(b)).Elem(), path)
	}
}

// GPUs is a number per node, or all of them.
type GPUs int

// AllGPUs is what `gpus: all` means.
const AllGPUs GPUs = -1

func (g *GPUs) decode(d *decoder, n ast.Node, path string) {
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	if s == "all" {
		*g = AllGPUs
		return
	}
	x, err := strconv.Atoi(s)
	if err != nil || x < 0 {
		d.problem(begins(n), "", "%s%q is neither a number nor `all`", prefix(path), s)
	}
	*g = GPUs(x)
}

// Hosts is a number of emulated hosts, or a list of host names and patterns.
type Hosts struct {
	Count    int      `json:"count,omitempty"`
	Patterns []string `json:"patterns,omitempty"`
}

func (h *Hosts) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.IntegerNode:
		d.decode(n, reflect.ValueOf(&h.Count).Elem(), path)
	case *ast.StringNode:
		s, _ := d.text(n, path)
		h.Patterns = []string{s}
	default:
		d.list(n, reflect.ValueOf(&h.Patterns).Elem(), path)
	}
}

// BitRate is in bits per second.
type BitRate int64

func (r *BitRate) decode(d *decoder, n ast.Node, path string) {
	s, ok := d.text(n, path)
	if !ok {
		return
	}
	number, factor := s, 1.0
	for _, u := range []struct {
		suffix string
		factor float64
	}{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}} {
		if rest, found := strings.CutSuffix(strings.ToLower(s), u.suffix); found {
			number, factor = strings.TrimSpace(rest), u.factor
			break
		}
	}
	x, ok := decimal(number)
	if !ok || number == s || x*factor < 1 || x*factor > 1<<62 {
		d.problem(begins(n), "such as 100mbit or 10gbit", "%s%q is no rate", prefix(path), s)
		return
	}
	*r = BitRate(x * factor)
}

// decimal reads digits and a point, and nothing else that is a number to Go, such
// as nan and 1e30.
func decimal(s string) (float64, bool) {
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil && strings.Trim(s, "0123456789.") == ""
}
