package burst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestReclaimFetch frees what an interrupted fetch has left in the journal.
func TestReclaimFetch(t *testing.T) {
	b := start(t, Options{})
	b.foreign("f", "before")
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	r := buffer.Record{Kind: buffer.Data, Flag: meta.FetchedData, Ino: a.Ino, Payload: []byte("bef")}
	b.journal.mu.Lock()
	n := b.journal.state.Node(a.Ino)
	_, err = b.journal.change(meta.Change{Do: meta.DoFetch, Ino: a.Ino})
	if err == nil {
		err = b.journal.log.Append(&r)
	}
	b.journal.state.Data(n, r)
	b.journal.mu.Unlock()
	b.must(err)
	b.must(b.room.reclaim(1))
	b.journal.mu.Lock()
	defer b.journal.mu.Unlock()
	if len(n.Extents) > 0 || len(b.room.used()) > 0 {
		t.Errorf("left: %v", n.Extents)
	}
}

// TestRoom writes more than the room: writers wait for the drain, or get ENOSPC where that
// does not help, and what is undrained stays.
func TestRoom(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for i := range 24 {
		b.file(fmt.Sprint(i), string(block)+fmt.Sprint(i))
	}
	b.drained()
	for i := range 24 {
		got, err := os.ReadFile(filepath.Join(b.far, fmt.Sprint(i)))
		if err != nil || string(got) != string(block)+fmt.Sprint(i) {
			t.Errorf("file %d has %d bytes, %v", i, len(got), err)
		}
	}
	if s := b.Status(); s.Buffer > s.Room {
		t.Errorf("the buffer has %d bytes of %d", s.Buffer, s.Room)
	}
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "large", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	for off := int64(0); err == nil && off < 16<<20; off += int64(len(block)) {
		err = b.Write(t.Context(), a.Ino, off, block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file larger than the room: %v", err)
	}
}

// TestLineCut writes while the remote cannot be reached: nothing fails, a full buffer
// waits, and all of it arrives once the line is back.
func TestLineCut(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	b.gate.set(syscall.EIO)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 6 {
		b.file(fmt.Sprint(i), string(block))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 6 {
			b.file(fmt.Sprint("more", i), string(block))
		}
	}()
	for b.Status().Waits == "" {
		select {
		case <-done:
			t.Fatal("more was written than there is room for")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if s := b.Status(); s.Undrained < 6<<20 || s.Drained || s.Oldest == nil {
		t.Errorf("%+v", s)
	}
	b.gate.set(nil)
	<-done
	b.drained()
	if got := tree(t, b.far); len(got) != 12 {
		t.Errorf("the remote has %d files", len(got))
	}
}

// TestLargeWriteWaitsInItsTurn: writers that come later, and need less, do not pass one that waits for room. All
// of them together are as fast as the drain.
func TestLargeWriteWaitsInItsTurn(t *testing.T) {
	b := start(t, Options{Room: 16 << 20})
	b.gate.set(errors.New("the line is cut"))
	block := strings.Repeat("x", 1<<20)
	for i := 0; b.journal.log.Size() < b.room.size/100*full-(2<<20); i++ {
		b.file(fmt.Sprint("fill", i), block)
	}
	large := make(chan error, 1)
	go func() { large <- b.room.wait(t.Context(), 4<<20) }()
	testkit.Eventually(t, 10*time.Second, func() error {
		if len(b.room.turn) == 0 {
			return errors.New("the large write does not wait")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := b.room.wait(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a small write passes: %v", err)
	}
	b.gate.set(nil)
	b.must(<-large)
	if s := b.Status(); s.Buffer > s.Room {
		t.Errorf("the buffer has %d bytes of %d", s.Buffer, s.Room)
	}
}

// TestWritersAreSlowed from 70 % of the room on, up to the rate of the drain at 95 %.
func TestWritersAreSlowed(t *testing.T) {
	r := &room{size: 1000 << 20}
	for _, c := range []struct {
		percent int64
		rate    float64
		want    time.Duration
	}{
		{60, 10 << 20, 0},
		{70, 10 << 20, 0},
		{80, 10 << 20, 40 * time.Millisecond},
		{95, 10 << 20, 100 * time.Millisecond},
		{95, 1, time.Second}, // no longer: room may come at any time
		{95, 0, 0},           // nothing is known
	} {
		if got := r.delay(1<<20, r.size/100*c.percent, c.rate); (got - c.want).Abs() > time.Millisecond {
			t.Errorf("at %d %% and %.0f bytes a second: %v instead of %v", c.percent, c.rate, got, c.want)
		}
	}
}

// TestScanLeavesTheBuffer: reading a lot once keeps nothing, and takes the place of nothing.
func TestScanLeavesTheBuffer(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	b.file("hot", "hot")
	b.drained()
	before := b.Status()
	for i := range 3 {
		b.foreign(fmt.Sprint("cold", i), strings.Repeat("x", 5<<20))
		b.sees(fmt.Sprint("cold", i))
	}
	if got := b.sees("hot"); got != "hot" {
		t.Errorf("the file has %q", got)
	}
	if after := b.Status(); after.Hits != before.Hits+3 || after.Buffer > before.Buffer+1<<20 {
		t.Errorf("the buffer has %d bytes instead of %d, and %d of 3 bytes were read from it", after.Buffer, before.Buffer, after.Hits-before.Hits)
	}
}
