package client

import (
	"bytes"
	"io"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

func TestReceiveExec(t *testing.T) {
	for _, c := range []struct {
		name   string
		frames func(w io.Writer)
		code   int
		kind   core.Kind
		fails  bool
	}{
		{"an exit code", func(w io.Writer) { nodecall.WriteFrame(w, nodecall.FrameExit, []byte(`{"exit":{"code":7}}`)) }, 7, 0, false},
		{"no start", func(w io.Writer) {
			nodecall.WriteFrame(w, nodecall.FrameExit, []byte(`{"exit":{"code":127},"failed":{"message":"no such program","kind":"not found"}}`))
		}, 127, core.NotFound, true},
		{"a node that goes away", func(w io.Writer) { nodecall.WriteFrame(w, nodecall.FrameStdout, []byte("hi")) }, 0, core.Lost, true},
		{"more credit than taken", func(w io.Writer) {
			for range 50 {
				nodecall.WriteFrame(w, nodecall.FrameCredit, nil)
			}
			nodecall.WriteFrame(w, nodecall.FrameExit, []byte(`{"exit":{"code":0}}`))
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
	f.Add([]byte{nodecall.FrameStdout, 0, 0, 0, 1, 'x', nodecall.FrameExit, 0, 0, 0, 2, '{', '}'})
	f.Add([]byte{nodecall.FrameExit, 255, 255, 255, 255})
	f.Fuzz(func(_ *testing.T, raw []byte) {
		receiveExec(bytes.NewReader(raw), io.Discard, io.Discard, nil) //nolint:errcheck // it must end, no more
	})
}
