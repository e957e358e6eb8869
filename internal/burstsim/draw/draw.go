// Package draw draws figures as SVG and PNG. The same figure gives the same bytes.
package draw

import (
	"math"
	"strconv"

	"github.com/bee-hpc/bee/internal/burstsim"
)

// Sizes are in pixels.
const (
	width, height            = 900, 540
	left, right, top, bottom = 80.0, 230.0, 50.0, 60.0
	charWidth, markRadius    = 7.0, 3.0
	thin, thick              = 1.0, 2.0
)

type colour struct{ r, g, b uint8 }

var (
	ink  = colour{0x22, 0x22, 0x22}
	grid = colour{0xdd, 0xdd, 0xdd}
	// lines are colours that people with colour blindness distinguish (Okabe and Ito).
	lines = []colour{
		{0x00, 0x00, 0x00}, {0x00, 0x72, 0xb2}, {0xd5, 0x5e, 0x00}, {0x00, 0x9e, 0x73}, {0xcc, 0x79, 0xa7}, {0xe6, 0x9f, 0x00}, {0x56, 0xb4, 0xe9},
	}
)

type anchor int

const (
	start anchor = iota
	middle
	end
)

type point struct{ x, y float64 }

// canvas is what a figure is drawn on. y grows downwards; a text's y is its base line.
type canvas interface {
	line(points []point, c colour, wide float64)
	mark(p point, c colour)
	text(p point, text string, a anchor)
}

// figure draws f.
func figure(f *burstsim.Figure, c canvas) {
	mostX, mostY := 1.0, 0.0
	for _, s := range f.Series {
		for i := range s.X {
			mostX = math.Max(mostX, s.X[i])
			if !math.IsNaN(s.Y[i]) {
				mostY = math.Max(mostY, s.Y[i])
			}
		}
	}
	stepX, stepY := step(mostX), step(mostY)
	if mostX <= 20 && stepX < 1 {
		stepX = 1
	}
	mostX, mostY = math.Ceil(mostX/stepX-1e-9)*stepX, math.Max(stepY, math.Ceil(mostY/stepY-1e-9)*stepY)
	at := func(x, y float64) point {
		return point{left + x/mostX*(width-left-right), height - bottom - y/mostY*(height-top-bottom)}
	}
	for i := 0; float64(i)*stepY <= mostY*(1+1e-9); i++ {
		y := float64(i) * stepY
		c.line([]point{at(0, y), at(mostX, y)}, grid, thin)
		p := at(0, y)
		c.text(point{p.x - 8, p.y + 4}, label(y, stepY), end)
	}
	for i := 0; float64(i)*stepX <= mostX*(1+1e-9); i++ {
		p := at(float64(i)*stepX, 0)
		c.line([]point{p, {p.x, p.y + 5}}, ink, thin)
		c.text(point{p.x, p.y + 20}, label(float64(i)*stepX, stepX), middle)
	}
	c.line([]point{at(0, mostY), at(0, 0), at(mostX, 0)}, ink, thin)
	c.text(point{left, 20}, f.Title, start)
	c.text(point{left - 60, 40}, f.Y, start)
	c.text(point{(left + width - right) / 2, height - 16}, f.X, middle)
	for n, s := range f.Series {
		colour := lines[n%len(lines)]
		var open []point
		flush := func() {
			if len(open) > 1 {
				c.line(open, colour, thick)
			}
			open = nil
		}
		for i := range s.X {
			if math.IsNaN(s.Y[i]) {
				flush()
				continue
			}
			p := at(s.X[i], s.Y[i])
			open = append(open, p)
			if len(s.X) <= 50 {
				c.mark(p, colour)
			}
		}
		flush()
		y := top + 20*float64(n)
		if y < height-bottom {
			x := float64(width) - right + 20
			c.line([]point{{x, y}, {x + 24, y}}, colour, thick)
			c.mark(point{x + 12, y}, colour)
			c.text(point{x + 32, y + 4}, s.Label, start)
		}
	}
}

// step is the distance of about six ticks: 1, 2 or 5 times a power of ten.
func step(most float64) float64 {
	if most <= 0 {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(most/6)))
	for _, f := range []float64{1, 2, 5} {
		if f*power >= most/6*(1-1e-9) {
			return f * power
		}
	}
	return 10 * power
}

// label prints a tick with the digits that its step needs.
func label(v, step float64) string {
	return strconv.FormatFloat(v, 'f', int(math.Max(0, math.Ceil(-math.Log10(step)-1e-9))), 64)
}
