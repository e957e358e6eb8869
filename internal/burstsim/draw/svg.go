package draw

import (
	"fmt"
	"html"
	"strings"

	"github.com/bee-hpc/bee/internal/burstsim"
)

type svg struct{ b strings.Builder }

// SVG draws a figure.
func SVG(f *burstsim.Figure) []byte {
	c := &svg{}
	fmt.Fprintf(&c.b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", width, height, width, height, html.EscapeString(f.Title))
	figure(f, c)
	c.b.WriteString("</svg>\n")
	return []byte(c.b.String())
}

func (c colour) hex() string { return fmt.Sprintf("#%02x%02x%02x", c.r, c.g, c.b) }

func (c *svg) line(points []point, col colour, wide float64) {
	c.b.WriteString("<polyline points=\"")
	for i, p := range points {
		if i > 0 {
			c.b.WriteByte(' ')
		}
		fmt.Fprintf(&c.b, "%.1f,%.1f", p.x, p.y)
	}
	fmt.Fprintf(&c.b, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"%.0f\"/>\n", col.hex(), wide)
}

func (c *svg) mark(p point, col colour) {
	fmt.Fprintf(&c.b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.0f\" fill=\"%s\"/>\n", p.x, p.y, markRadius, col.hex())
}

func (c *svg) text(p point, text string, a anchor) {
	fmt.Fprintf(&c.b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", p.x, p.y, [...]string{"start", "middle", "end"}[a], ink.hex(), html.EscapeString(text))
}
