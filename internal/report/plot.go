package report

import (
	"math"
	"strconv"
)

// MostDots bounds the dots of a plot.
const MostDots = 2000

// Plot is a metric of cases against a parameter.
type Plot struct {
	Parameter, Metric string
	Dots              []Dot
	// All is how many cases have both numbers. Of more than MostDots, some are drawn.
	All int
	// From and To bound the parameter, Least and Largest the metric.
	From, To, Least, Largest float64
}

// Dot is a case in a plot.
type Dot struct{ X, Y float64 }

// NewPlot returns the plot of cases whose value of the parameter is a number.
func NewPlot(cases []Case, parameter, metric string) Plot {
	p := Plot{Parameter: parameter, Metric: metric}
	var dots []Dot
	for _, c := range cases {
		x, isX := number(c.Values[parameter])
		y, isY := c.Metrics[metric]
		if isX && isY && finite(y) {
			dots = append(dots, Dot{x, y})
		}
	}
	p.All = len(dots)
	for i, d := range dots {
		if i == 0 {
			p.From, p.To, p.Least, p.Largest = d.X, d.X, d.Y, d.Y
		}
		p.From, p.To, p.Least, p.Largest = min(p.From, d.X), max(p.To, d.X), min(p.Least, d.Y), max(p.Largest, d.Y)
	}
	every := max(1, (len(dots)+MostDots-1)/MostDots)
	for i := 0; i < len(dots); i += every {
		p.Dots = append(p.Dots, dots[i])
	}
	return p
}

// number returns a value of a parameter as a number, if it is a finite one.
func number(value string) (float64, bool) {
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil && finite(n)
}

func finite(n float64) bool { return !math.IsNaN(n) && !math.IsInf(n, 0) }
