package burst

import (
	"context"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// TestFetchedFileIsWhole: what is here of a file that is being fetched does not go before the rest comes, and
// the rest comes after a crash.
func TestFetchedFileIsWhole(t *testing.T) {
	b := start(t, Options{segmentSize: 4 << 10, Rate: 8 << 20})
	text := strings.Repeat("0123456789abcdef", 1<<17) + "end" // three reads, with pauses
	b.foreign("f", text)
	f, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	for crash := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		fetched := make(chan error, 1)
		go func() { fetched <- b.fetch(ctx, f.Ino, 0) }()
		for part := false; !part; {
			b.journal.mu.Lock()
			n := b.journal.state.Node(f.Ino)
			part = n.Local || len(n.Extents) > 0
			b.journal.mu.Unlock()
		}
		b.must(b.room.reclaim(1 << 40))
		if crash == 1 {
			cancel()
			<-fetched //nolint:errcheck // it was cut off
			b.crash()
		} else {
			b.must(<-fetched)
		}
		cancel()
		if got := b.sees("f"); got != text {
			t.Fatalf("the file has %d bytes, and %d zeros", len(got), strings.Count(got, "\x00"))
		}
		b.journal.mu.Lock()
		files := len(b.journal.files)
		if b.journal.state.Node(f.Ino).Local {
			_, err = b.journal.change(meta.Change{Do: meta.DoEvict, Ino: f.Ino})
		}
		b.journal.mu.Unlock()
		b.must(err)
		if crash == 0 && files > 0 {
			t.Errorf("%d files stay open after the fetch", files)
		}
	}
}
