package client

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
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

func TestReceiveExec(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames func(w io.Writer)
		code   int
		kind   core.Kind
		fails  bool
	}{
		{"an exit code", func(w io.Writer) { WriteFrame(w, FrameExit, []byte(`{"exit":{"code":7}}`)) }, 7, 0, false}, //nolint:errcheck // what is missing shows
		{"no start", func(w io.Writer) {
			WriteFrame(w, FrameExit, []byte(`{"exit":{"code":127},"failed":{"message":"no such program","kind":"not found"}}`)) //nolint:errcheck // what is missing shows
		}, 127, core.NotFound, true},
		{"a node that goes away", func(w io.Writer) { WriteFrame(w, FrameStdout, []byte("hi")) }, 0, core.Lost, true}, //nolint:errcheck // what is missing shows
		{"more credit than taken", func(w io.Writer) {
			for range 50 {
				WriteFrame(w, FrameCredit, nil) //nolint:errcheck // what is missing shows
			}
			WriteFrame(w, FrameExit, []byte(`{"exit":{"code":0}}`)) //nolint:errcheck // what is missing shows
		}, 0, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			c.frames(&b)
			exit, err := receiveExec(&b, io.Discard, io.Discard, make(chan struct{}, 1))
			if exit.Code != c.code || (err != nil) != c.fails || err != nil && core.KindOf(err) != c.kind {
				t.Fatalf("got %+v, %v", exit, err)
			}
		})
	}
}

func FuzzReceiveExec(f *testing.F) {
	f.Add([]byte{FrameStdout, 0, 0, 0, 1, 'x', FrameExit, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{FrameExit, 255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		receiveExec(bytes.NewReader(raw), io.Discard, io.Discard, nil) //nolint:errcheck // it must end, no more
	})
}
