package study

import "slices"

// Along returns the pairs of points that a contrast along a variable compares: each with the
// one that has the contrast's value, and else the same values. Those of variables that go
// together with it may differ.
func (s *Study) Along(points []Point, c Contrast) [][2]*Point {
	free := []string{c.Vary}
	for _, names := range s.Zip {
		if slices.Contains(names, c.Vary) {
			free = names
		}
	}
	var pairs [][2]*Point
	for i := range points {
		p := &points[i]
		if p.Values[c.Vary] == c.Against {
			continue
		}
		j := slices.IndexFunc(points, func(o Point) bool {
			return o.Values[c.Vary] == c.Against && !slices.ContainsFunc(s.Variables, func(v string) bool {
				return !slices.Contains(free, v) && o.Values[v] != p.Values[v]
			})
		})
		if j >= 0 {
			pairs = append(pairs, [2]*Point{p, &points[j]})
		}
	}
	return pairs
}
