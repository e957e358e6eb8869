package burst

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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
	_, err = b.OpenFile(t.Context(), a.Ino, false)
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
