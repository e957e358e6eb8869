package nodecall

import (
	"bytes"
	"strings"
	"testing"
)

func TestFramesComeBack(t *testing.T) {
	var b bytes.Buffer
	for _, data := range []string{"", "x", strings.Repeat("y", 100000)} {
		if err := WriteFrame(&b, FrameStdout, []byte(data)); err != nil {
			t.Fatal(err)
		}
		kind, got, err := ReadFrame(&b)
		if err != nil || kind != FrameStdout || string(got) != data {
			t.Fatalf("got %c with %d bytes, %v", kind, len(got), err)
		}
	}
}
