package draw

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"

	"github.com/bee-hpc/bee/internal/burstsim"
	"golang.org/x/image/font"
	"golang.org/x/image/font/basicfont"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

type raster struct {
	picture *image.RGBA
	shape   *vector.Rasterizer
}

// PNG draws a figure.
func PNG(f *burstsim.Figure) ([]byte, error) {
	c := &raster{image.NewRGBA(image.Rect(0, 0, width, height)), vector.NewRasterizer(0, 0)}
	draw.Draw(c.picture, c.picture.Bounds(), image.White, image.Point{}, draw.Src)
	figure(f, c)
	var b bytes.Buffer
	err := png.Encode(&b, c.picture)
	return b.Bytes(), err
}

// fill fills an outline. The rasteriser's cost is that of its area, so it has the
// outline's only.
func (c *raster) fill(outline []point, col colour) {
	low, high := outline[0], outline[0]
	for _, p := range outline {
		low = point{math.Min(low.x, p.x), math.Min(low.y, p.y)}
		high = point{math.Max(high.x, p.x), math.Max(high.y, p.y)}
	}
	area := image.Rect(int(math.Floor(low.x)), int(math.Floor(low.y)), int(math.Ceil(high.x))+1, int(math.Ceil(high.y))+1)
	c.shape.Reset(area.Dx(), area.Dy())
	for i, p := range outline {
		x, y := float32(p.x-float64(area.Min.X)), float32(p.y-float64(area.Min.Y))
		if i == 0 {
			c.shape.MoveTo(x, y)
		} else {
			c.shape.LineTo(x, y)
		}
	}
	c.shape.ClosePath()
	c.shape.Draw(c.picture, area, image.NewUniform(color.RGBA{col.r, col.g, col.b, 0xff}), image.Point{})
}

func (c *raster) line(points []point, col colour, wide float64) {
	for i := 1; i < len(points); i++ {
		p, q := points[i-1], points[i]
		long := math.Hypot(q.x-p.x, q.y-p.y)
		if long == 0 {
			continue
		}
		x, y := -(q.y-p.y)/long*wide/2, (q.x-p.x)/long*wide/2
		c.fill([]point{{p.x + x, p.y + y}, {q.x + x, q.y + y}, {q.x - x, q.y - y}, {p.x - x, p.y - y}}, col)
		if i > 1 {
			c.disc(p, wide/2, col)
		}
	}
}

func (c *raster) mark(p point, col colour) { c.disc(p, markRadius, col) }

func (c *raster) disc(p point, radius float64, col colour) {
	const corners = 16
	var outline []point
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		outline = append(outline, point{p.x + radius*cos, p.y + radius*sin})
	}
	c.fill(outline, col)
}

func (c *raster) text(p point, text string, a anchor) {
	wide := charWidth * float64(len([]rune(text)))
	switch a {
	case middle:
		p.x -= wide / 2
	case end:
		p.x -= wide
	}
	d := font.Drawer{Dst: c.picture, Src: image.NewUniform(color.RGBA{ink.r, ink.g, ink.b, 0xff}), Face: basicfont.Face7x13, Dot: fixed.P(int(math.Round(p.x)), int(math.Round(p.y)))}
	d.DrawString(text)
}
