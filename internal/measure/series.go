package measure

import "time"

// MaxPoints bounds the points of a metric.
const MaxPoints = 2000

// Point is a value of a metric.
type Point struct {
	Time  time.Time `json:"time"`
	Value float64   `json:"value"`
}

// join returns the point that stands for both: the newer one.
func (Point) join(newer Point) Point { return newer }

func (Point) most() int { return MaxPoints }

// Series is a metric over time.
type Series = Thinned[Point]

// joined is what Thinned thins: a point that can stand for itself and for the one after it.
// Most bounds their number.
type joined[P any] interface {
	join(newer P) P
	most() int
}

// Thinned are points over time, of which there are so many at most: when it is full, two
// become one, and later ones become one at the new distance. The first and the newest are
// always there.
type Thinned[P joined[P]] struct {
	Points []P `json:"points"`
	// Every is how many values a point stands for, and Since how many the newest does.
	Every int `json:"every"`
	Since int `json:"since"`
}

// Add adds the newest point.
func (s *Thinned[P]) Add(p P) {
	s.Every = max(s.Every, 1)
	if n := len(s.Points); n > 0 && s.Since > 0 && s.Since < s.Every {
		s.Points[n-1] = s.Points[n-1].join(p)
		s.Since++
		return
	}
	if n := len(s.Points); n > 0 && n >= p.most() {
		s.halve()
		s.Add(p)
		return
	}
	s.Points = append(s.Points, p)
	s.Since = 1
}

// halve joins each two points but the first. The newest is without another then, where there
// are an even number.
func (s *Thinned[P]) halve() {
	kept := s.Points[:1]
	for i := 1; i < len(s.Points); i += 2 {
		p := s.Points[i]
		s.Since = s.Every
		if i+1 < len(s.Points) {
			p = p.join(s.Points[i+1])
			s.Since = 2 * s.Every
		}
		kept = append(kept, p)
	}
	s.Points, s.Every = kept, 2*s.Every
}
