package page

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/measure"
)

// Curve is a number over time.
type Curve struct {
	Name   string
	Points []measure.Point
	// Begins are the places of points, in their order, that begin a line of their own, such as
	// those of a further attempt.
	Begins []int
}

// Plot are curves of one number in one scale, such as those of several nodes.
type Plot struct {
	Name string
	// Text is a value as it is shown.
	Text   func(value float64) string
	Curves []Curve
}

// bounds are the least and the largest value.
func (c Curve) bounds() (least, largest float64) {
	least, largest = c.Points[0].Value, c.Points[0].Value
	for _, p := range c.Points {
		least, largest = min(least, p.Value), max(largest, p.Value)
	}
	return least, largest
}

func plainText(value float64) string { return fmt.Sprintf("%.6g", value) }

// curves draws the numbers of the job over the time of the run, each in its own scale.
func (p *Page) curves(b *strings.Builder) {
	for _, c := range p.Curves {
		if len(c.Points) > 0 {
			least, largest := c.bounds()
			p.curve(b, "h2", c, plainText, least, largest)
		}
	}
}

// plots draws what the nodes have used. Each curve has a picture of its own, so that none needs
// a colour.
func (p *Page) plots(b *strings.Builder) {
	for _, plot := range p.Plots {
		curves := slices.DeleteFunc(slices.Clone(plot.Curves), func(c Curve) bool { return len(c.Points) == 0 })
		if len(curves) == 0 || p.Ended.Sub(p.Began) <= 0 {
			continue
		}
		largest := 0.0
		for _, c := range curves {
			_, l := c.bounds()
			largest = max(largest, l)
		}
		fmt.Fprintf(b, "<h2>%s</h2>\n<p>From 0 to %s.</p>\n", e(plot.Name), e(plot.Text(largest)))
		for _, c := range curves {
			p.curve(b, "h3", c, plot.Text, 0, largest)
		}
	}
}

// curve draws one curve. Its values are text as well, for who sees none.
func (p *Page) curve(b *strings.Builder, heading string, c Curve, text func(float64) string, least, largest float64) {
	span := p.Ended.Sub(p.Began).Seconds()
	if span <= 0 {
		return
	}
	first, newest := c.Points[0].Value, c.Points[len(c.Points)-1].Value
	lowest, highest := c.bounds()
	fmt.Fprintf(b, "<%s><bdi>%s</bdi></%s>\n<p>Newest %s, least %s, largest %s, of %d points.</p>\n", heading, e(c.Name), heading, e(text(newest)), e(text(lowest)), e(text(highest)), len(c.Points))
	if len(c.Points) == 1 { // that is no curve
		return
	}
	fmt.Fprintf(b, "<svg class=\"curve\" role=\"img\" aria-label=\"%s over time, from %s to %s\" viewBox=\"0 0 1000 100\" preserveAspectRatio=\"none\"><polyline points=\"", e(c.Name), e(text(first)), e(text(newest)))
	height := largest/2 - least/2 // halves, as the difference of huge values is infinite
	begins := c.Begins
	for i, point := range c.Points {
		x, y := 1000*min(max(point.Time.Sub(p.Began).Seconds()/span, 0), 1), 50.0
		if height > 0 {
			y = 96 - 92*((point.Value/2-least/2)/height)
		}
		for len(begins) > 0 && begins[0] < i {
			begins = begins[1:]
		}
		switch {
		case i > 0 && len(begins) > 0 && begins[0] == i:
			b.WriteString("\"/><polyline points=\"")
		case i > 0:
			b.WriteString(" ")
		}
		fmt.Fprintf(b, "%.1f,%.1f", x, y)
	}
	b.WriteString("\"/></svg>\n")
}
