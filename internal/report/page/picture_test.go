package page

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"regexp"
	"strings"
	"testing"
	"time"
)

// pictureFile is a PNG file of a job, with a text of the job behind its head.
func pictureFile(t *testing.T, width, height int, text string) []byte {
	t.Helper()
	pixels := image.NewGray(image.Rect(0, 0, width, height))
	pixels.SetGray(width-1, 0, color.Gray{Y: 200})
	var b bytes.Buffer
	if err := png.Encode(&b, pixels); err != nil {
		t.Fatal(err)
	}
	const head = 8 + 25 // signature and IHDR
	body := append([]byte("tEXt"), text...)
	chunk := binary.BigEndian.AppendUint32(nil, uint32(len(text)))
	chunk = binary.BigEndian.AppendUint32(append(chunk, body...), crc32.ChecksumIEEE(body))
	return bytes.Join([][]byte{b.Bytes()[:head], chunk, b.Bytes()[head:]}, nil)
}

// TestPicturesAreEncodedAgain: the page has the pixels of a file, and nothing else of it. Its
// policy allows pictures within it only where it has some.
func TestPicturesAreEncodedAgain(t *testing.T) {
	const text = "Comment\x00<script>evil()</script>"
	file := pictureFile(t, 3, 2, text)
	p := hostile(time.Now())
	picture, err := NewPicture(evil, file)
	if err != nil {
		t.Fatal(err)
	}
	p.Pictures = []Picture{picture}
	var b strings.Builder
	if err := p.HTML(&b); err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`src="data:image/png;base64,([^"]*)"`).FindStringSubmatch(b.String())
	if found == nil || !strings.Contains(b.String(), "img-src data:;") {
		t.Fatalf("there is no picture, or its policy does not allow it:\n%s", b.String())
	}
	raw, err := base64.StdEncoding.DecodeString(found[1])
	if err != nil {
		t.Fatal(err)
	}
	shown, err := png.Decode(bytes.NewReader(raw))
	if err != nil || shown.Bounds() != image.Rect(0, 0, 3, 2) || color.GrayModel.Convert(shown.At(2, 0)) != (color.Gray{Y: 200}) {
		t.Errorf("the picture is another one: %v, %v", shown, err)
	}
	if bytes.Contains(raw, []byte("Comment")) || strings.ContainsAny(b.String(), "\x1b\u202e") || strings.Contains(b.String(), "<script>") {
		t.Error("the text of the file, or markup of its name, is on the page")
	}
}

// TestPicturesThatAreNone: what is no picture, or is too large, is refused before it takes memory.
func TestPicturesThatAreNone(t *testing.T) {
	bomb := pictureFile(t, 1, 1, "x")
	binary.BigEndian.PutUint32(bomb[16:], 1<<20)
	binary.BigEndian.PutUint32(bomb[20:], 1<<20)
	binary.BigEndian.PutUint32(bomb[29:], crc32.ChecksumIEEE(bomb[12:29]))
	whole := pictureFile(t, 2, 2, "x")
	for name, file := range map[string][]byte{
		"nothing": nil, "a text": []byte("<svg onload=evil()>"), "many pixels": bomb, "a part": whole[:len(whole)-20], "many bytes": make([]byte, MostPicture+1),
	} {
		if _, err := NewPicture(name, file); err == nil {
			t.Errorf("%s is a picture", name)
		}
	}
}
