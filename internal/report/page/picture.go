package page

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image/png"
	"strings"
)

// Bounds of the pictures of a page: bytes and pixels of each, and how many there are.
const (
	MostPicture  = 4 << 20
	mostPixels   = 4 << 20
	MostPictures = 12
)

// Picture is a picture among the outputs.
type Picture struct {
	// Name is that of its file.
	Name string
	// png is BEE's own encoding of its pixels.
	png           []byte
	width, height int
}

// NewPicture returns the picture of a PNG file that a job has written. Its pixels are encoded again,
// so a page has no byte of the file.
func NewPicture(name string, file []byte) (Picture, error) {
	if len(file) > MostPicture {
		return Picture{}, fmt.Errorf("it has %d bytes, at most %d are shown", len(file), MostPicture)
	}
	config, err := png.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return Picture{}, err
	}
	if config.Width*config.Height > mostPixels || config.Width > mostPixels || config.Height > mostPixels {
		return Picture{}, fmt.Errorf("it has %d x %d pixels, at most %d are shown", config.Width, config.Height, mostPixels)
	}
	pixels, err := png.Decode(bytes.NewReader(file))
	if err != nil {
		return Picture{}, err
	}
	var b bytes.Buffer
	if err := png.Encode(&b, pixels); err != nil {
		return Picture{}, err
	}
	return Picture{Name: name, png: b.Bytes(), width: config.Width, height: config.Height}, nil
}

// pictures shows the pictures among the outputs. Each is in the page itself.
func (p *Page) pictures(b *strings.Builder) {
	for _, one := range p.Pictures {
		fmt.Fprintf(b, "<figure><img alt=\"picture %s\" width=\"%d\" height=\"%d\" src=\"data:image/png;base64,%s\"/><figcaption><bdi>%s</bdi></figcaption></figure>\n",
			e(one.Name), one.width, one.height, base64.StdEncoding.EncodeToString(one.png), e(one.Name))
	}
}
