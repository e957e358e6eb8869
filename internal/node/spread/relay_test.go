package spread

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
)

func TestRelayPassesOnWhatComesIn(t *testing.T) {
	r, err := newRelay(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	var wg sync.WaitGroup
	got := make([]bytes.Buffer, 3)
	for i := range got {
		wg.Go(func() {
			if err := r.sendTo(context.Background(), &got[i]); err != nil {
				t.Error(err)
			}
		})
	}
	for piece := want; len(piece) > 0; piece = piece[min(len(piece), 7777):] {
		if _, err := r.Write(piece[:min(len(piece), 7777)]); err != nil {
			t.Fatal(err)
		}
	}
	r.finish(nil)
	wg.Wait()
	for i := range got {
		if !bytes.Equal(got[i].Bytes(), want) {
			t.Errorf("reader %d got %d of %d bytes", i, got[i].Len(), len(want))
		}
	}
	broken := errors.New("it broke")
	r.finish(broken)
	if err := r.sendTo(context.Background(), io.Discard); !errors.Is(err, broken) {
		t.Errorf("a broken stream ends with %v", err)
	}
}
