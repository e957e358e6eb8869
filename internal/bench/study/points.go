package study

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Point is one combination of the values of variables.
type Point struct {
	Values map[string]Value
	// Environments in which the combination is measured, in the order of the file.
	Environments []string
}

// ID names the point, such as "ranks=2,case=small.cfg", with its variables in an order.
func (p *Point) ID(variables []string) string {
	parts := make([]string, 0, len(variables))
	for _, v := range variables {
		parts = append(parts, v+"="+string(p.Values[v]))
	}
	return strings.Join(parts, ",")
}

// Points expands a size, or the values of `vary` for "". Combinations that `when` leaves
// out are missing.
func (s *Study) Points(ctx context.Context, size string) ([]Point, error) {
	values, err := s.combinations(size)
	if err != nil {
		return nil, err
	}
	var points []Point
	for _, v := range values {
		p := Point{Values: v}
		for _, name := range s.EnvironmentNames {
			keep, err := s.keeps(ctx, v, name)
			if err != nil {
				return nil, err
			}
			if keep {
				p.Environments = append(p.Environments, name)
			}
		}
		if len(p.Environments) > 0 {
			points = append(points, p)
		}
	}
	return points, nil
}

// CopiesAt is the number of instances of the job that run together at a point.
func (s *Study) CopiesAt(p *Point) (int, error) {
	n, err := p.count(s.Copies.Count)
	if err != nil {
		return 0, fmt.Errorf("copies.count: %w", err)
	}
	return n, nil
}

// CoresAt is the number of cores that an environment may use at a point; 0: all.
func (s *Study) CoresAt(p *Point, environment string) (int, error) {
	v := s.Environments[environment].Limit.Cores
	if v == "" {
		return 0, nil
	}
	n, err := p.count(v)
	if err != nil {
		return 0, fmt.Errorf("environments.%s.limit.cores: %w", environment, err)
	}
	return n, nil
}

// count is a number, or that of a variable.
func (p *Point) count(v Value) (int, error) {
	text := string(v)
	if name, is := v.variable(); is {
		text = string(p.Values[name])
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostCount {
		return 0, fmt.Errorf("%q is no number from 1 to %d", text, mostCount)
	}
	return n, nil
}

// variable is the name of the variable that a value is.
func (v Value) variable() (string, bool) {
	name, is := strings.CutPrefix(string(v), "${")
	name, closed := strings.CutSuffix(name, "}")
	return name, is && closed
}

// mostCount bounds copies and cores.
const mostCount = 4096

// axis is variables whose values go together, one by one.
type axis struct {
	names  []string
	length int
}

func (s *Study) combinations(size string) ([]map[string]Value, error) {
	list := func(name string) []Value {
		if own, is := s.Sizes[size][name]; is {
			return own
		}
		return s.Vary[name]
	}
	var axes []axis
	for _, name := range s.Variables {
		i := slices.IndexFunc(s.Zip, func(names []string) bool { return slices.Contains(names, name) })
		switch {
		case i < 0:
			axes = append(axes, axis{[]string{name}, len(list(name))})
		case s.Zip[i][0] == name:
			for _, other := range s.Zip[i] {
				if len(list(other)) != len(list(name)) {
					return nil, fmt.Errorf("zip: %s has %d values and %s has %d", name, len(list(name)), other, len(list(other)))
				}
			}
			axes = append(axes, axis{s.Zip[i], len(list(name))})
		}
	}
	out := []map[string]Value{{}}
	for _, a := range axes {
		if len(out)*a.length > maxPoints {
			return nil, fmt.Errorf("a study has at most %d points", maxPoints)
		}
		var next []map[string]Value
		for _, before := range out {
			for i := range a.length {
				v := map[string]Value{}
				for k, value := range before {
					v[k] = value
				}
				for _, name := range a.names {
					v[name] = list(name)[i]
				}
				next = append(next, v)
			}
		}
		out = next
	}
	return out, nil
}

// keeps reports whether `when` is true.
func (s *Study) keeps(ctx context.Context, values map[string]Value, environment string) (bool, error) {
	if s.When == "" {
		return true, nil
	}
	q, err := gojq.Parse(s.When)
	if err != nil {
		return false, fmt.Errorf("jq %q: %w", s.When, err)
	}
	input := map[string]any{EnvironmentVariable: environment}
	for name, v := range values {
		input[name] = v.any()
	}
	v, err := run(ctx, q, s.When, input)
	if err != nil {
		return false, err
	}
	keep, is := v.(bool)
	if !is {
		return false, fmt.Errorf("jq %q: the result is %s, want true or false", s.When, typeOf(v))
	}
	return keep, nil
}
