package input

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

// TestInput reads more than is ever stored, and begins again after breaks.
func TestInput(t *testing.T) {
	all := bytes.Repeat([]byte("0123456789abcdef"), 3*Window/16)
	in := New(iotest.OneByteReader(bytes.NewReader(all[:100])))
	in.from = io.MultiReader(in.from, bytes.NewReader(all[100:]))
	var got []byte
	for turn := 0; ; turn++ {
		piece, err := in.Next(t.Context(), int64(len(got)))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || len(piece) > Piece {
			t.Fatalf("%d bytes, %v", len(piece), err)
		}
		if turn%3 == 1 { // this one was lost on its way
			continue
		}
		got = append(got, piece...)
		in.Written(int64(len(got)))
	}
	if !bytes.Equal(got, all) {
		t.Errorf("%d bytes came, not the %d that were sent", len(got), len(all))
	}
	if _, err := in.Next(t.Context(), 0); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("what has gone comes again: %v", err)
	}
	if _, err := in.Next(t.Context(), int64(len(all))+1); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("more than there is: %v", err)
	}
}

func TestInputThatBreaks(t *testing.T) {
	broken := errors.New("the terminal has gone")
	in := New(iotest.ErrReader(broken))
	if _, err := in.Next(t.Context(), 0); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if _, err := New(r).Next(ctx, 0); !errors.Is(err, broken) {
		t.Errorf("a reader that does not wait: %v", err)
	}
}
