package measure

import "time"

// MaxPoints bounds the points of a metric.
const MaxPoints = 2000

// Point is a value of a metric.
type Point struct {
	Time  time.Time `json:"time"`
	Value float64   `json:"value"`
}

// Series is a metric over time, thinned to MaxPoints: when it is full, every second point
// is removed, and later ones are kept at the new distance. The newest is always there.
type Series struct {
	Points []Point `json:"points"`
	// Every is how many values one kept point stands for, and Since how many came after
	// the last point but the newest.
	Every int `json:"every"`
	Since int `json:"since"`
}

// Add adds the newest point.
func (s *Series) Add(p Point) {
	s.Every = max(s.Every, 1)
	if n := len(s.Points); n > 0 && s.Since > 0 && s.Since < s.Every {
		s.Points[n-1] = p // the one before was there only as the newest
		s.Since++
		return
	}
	if len(s.Points) == MaxPoints {
		kept := s.Points[:0]
		for i, old := range s.Points {
			if i%2 == 0 {
				kept = append(kept, old)
			}
		}
		s.Points, s.Every = kept, s.Every*2
	}
	s.Points = append(s.Points, p)
	s.Since = 1
}
