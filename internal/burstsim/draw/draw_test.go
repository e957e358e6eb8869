package draw

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image/color"
	"image/png"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/burstsim"
)

func figures(t *testing.T) []*burstsim.Figure {
	t.Helper()
	s, err := burstsim.Paper().Set(nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Figures(1, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSameBytes(t *testing.T) {
	again := figures(t)
	for i, f := range figures(t) {
		one, err := PNG(f)
		two, err2 := PNG(again[i])
		if err != nil || err2 != nil || !bytes.Equal(one, two) || !bytes.Equal(SVG(f), SVG(again[i])) {
			t.Errorf("%s is drawn in two ways (%v, %v)", f.Name, err, err2)
		}
	}
}

// TestSVG reads all of a picture, and finds each line and label.
func TestSVG(t *testing.T) {
	for _, f := range figures(t) {
		f.Series[0].Label = "<&\""
		raw := SVG(f)
		d := xml.NewDecoder(bytes.NewReader(raw))
		var text strings.Builder
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			if data, is := token.(xml.CharData); is {
				text.Write(data)
			}
		}
		for _, s := range f.Series {
			if !strings.Contains(text.String(), s.Label) {
				t.Errorf("%s has no label %q", f.Name, s.Label)
			}
		}
		if bytes.Contains(raw, []byte("NaN")) || bytes.Count(raw, []byte(`stroke-width="2"`)) != 2*len(f.Series) {
			t.Errorf("%s does not have %d lines", f.Name, len(f.Series))
		}
	}
}

// TestPNG finds each line where its values are.
func TestPNG(t *testing.T) {
	f := &burstsim.Figure{Title: "t", Series: []burstsim.Series{{Label: "a", X: []float64{1, 10, 20}, Y: []float64{0, 5, 10}}, {Label: "b", X: []float64{1, 10, 20}, Y: []float64{10, math.NaN(), 0}}}}
	raw, err := PNG(f)
	if err != nil {
		t.Fatal(err)
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil || picture.Bounds().Dx() != width || picture.Bounds().Dy() != height {
		t.Fatalf("%v", err)
	}
	is := func(x, y float64, c colour) bool {
		return color.RGBAModel.Convert(picture.At(int(x), int(y))) == color.RGBA{c.r, c.g, c.b, 0xff}
	}
	wide := width - left - right
	if !is(left+wide/2, (top+height-bottom)/2, lines[0]) {
		t.Error("the first line does not cross the middle")
	}
	if !is(left+wide, height-bottom, lines[1]) || !is(left+wide/20, top, lines[1]) {
		t.Error("the second line has no ends")
	}
	if is(left+wide/4, top+(height-top-bottom)/4, lines[1]) {
		t.Error("a line is drawn across a value that there is not")
	}
}

func TestSteps(t *testing.T) {
	for most, want := range map[float64]float64{0: 1, 20: 5, 6: 1, 2700: 500, 0.17: 0.05, 1e9: 2e8} {
		if got := step(most); math.Abs(got-want) > want*1e-9 {
			t.Errorf("%v: got %v, want %v", most, got, want)
		}
	}
	if got := label(0.15, 0.05); got != "0.15" {
		t.Errorf("got %s", got)
	}
}
