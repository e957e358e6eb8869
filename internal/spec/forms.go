package spec

import (
	"fmt"
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
		if len(c.Argv) > 0 && !strings.HasPrefix(c.Argv[0], "/") && strings.ContainsAny(strings.TrimSpace(c.Argv[0]), " \t\n") {
			d.report.problem(begins(n), "for several commands, write each on a line below `"+path+": |`", "%sa list is one command with its arguments, and no program is called %q", prefix(path), c.Argv[0])
		}
	} else if s, ok := d.text(n, path); ok {
		c.Shell, empty = s, strings.TrimSpace(s) == ""
		if empty && (path == "entrypoint" || path == "build.entrypoint") { // as GitLab CI writes none
			c.Shell, c.Argv, empty = "", []string{}, false
		}
	}
	if empty {
		d.report.problem(begins(n), "leave it out, or give a command", "%sthe command is empty", prefix(path))
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
	var err error
	if *g, err = ParseGPUs(s); err != nil {
		d.report.problem(begins(n), "", "%s%v", prefix(path), err)
	}
}

// ParseGPUs reads a number, or all.
func ParseGPUs(text string) (GPUs, error) {
	if text == "all" {
		return AllGPUs, nil
	}
	x, err := strconv.Atoi(text)
	if err != nil || x < 0 {
		return 0, fmt.Errorf("%q is neither a number nor `all`", text)
	}
	return GPUs(x), nil
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
	rate, is := ParseRate(s)
	if !is {
		d.report.problem(begins(n), "such as 100mbit or 10gbit", "%s%q is no rate", prefix(path), s)
		return
	}
	*r = rate
}

// ParseRate reads a rate such as 100mbit or 10gbit; false: it is none.
func ParseRate(s string) (BitRate, bool) {
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
		return 0, false
	}
	return BitRate(x * factor), true
}

// decimal reads digits and a point, and nothing else that is a number to Go, such
// as nan and 1e30.
func decimal(s string) (float64, bool) {
	x, err := strconv.ParseFloat(s, 64)
	return x, err == nil && strings.Trim(s, "0123456789.") == ""
}
