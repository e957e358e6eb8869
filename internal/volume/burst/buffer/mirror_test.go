package buffer

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

func mirror(t *testing.T, dir string, most int64) *Mirror {
	t.Helper()
	if err := fsutil.OwnDir(dir); err != nil {
		t.Fatal(err)
	}
	m, err := NewMirror(dir, MirrorOptions{Most: most})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// copyAll copies what there is, a few bytes at a time.
func copyAll(t *testing.T, tail *Tail, m *Mirror) {
	t.Helper()
	for {
		p, err := tail.Next(37)
		if err != nil {
			t.Fatal(err)
		}
		if p.Index == nil && len(p.Bytes) == 0 {
			tail.Keep(m.At())
			return
		}
		if err := m.Put(p); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMirror opens a copy in the place of the journal: it has all records and the newest index, whenever it was
// begun, and takes no more room.
func TestMirror(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			base := t.TempDir()
			l, _, _ := open(t, filepath.Join(base, "journal"))
			defer l.Close()
			m := mirror(t, filepath.Join(base, "copy"), 1<<20)
			var tail *Tail
			if !late {
				tail = l.Tail()
			}
			kept := write(t, l, "kept")
			for i := range 300 {
				write(t, l, fmt.Sprint("dead weight ", i))
				if i%90 == 50 {
					if err := l.WriteIndex(l.Last(), fmt.Append(nil, "index ", i), func(n uint64) bool { return n == kept.Segment }); err != nil {
						t.Fatal(err)
					}
				}
				if tail != nil && i%7 == 0 {
					copyAll(t, tail, m)
				}
			}
			if tail == nil {
				tail = l.Tail()
			}
			copyAll(t, tail, m)
			tail.Close()
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			other, got, index := open(t, filepath.Join(base, "copy"))
			defer other.Close()
			if index != "index 230" || len(got) != 69 || got[68] != "dead weight 299" || other.Last() != l.Last() {
				t.Errorf("index %q, %d records up to %q, number %d instead of %d", index, len(got), got[len(got)-1], other.Last(), l.Last())
			}
			p := make([]byte, 4)
			if err := other.Read(kept, 0, p, true); err != nil || string(p) != "kept" {
				t.Errorf("%q, %v", p, err)
			}
			if other.Size() > l.Size() {
				t.Errorf("the copy has %d bytes, and the journal %d", other.Size(), l.Size())
			}
		})
	}
}

// TestTailKeeps segments that the copy lacks, and removes them later. A copy continues where its connection was lost.
func TestTailKeeps(t *testing.T) {
	base := t.TempDir()
	l, _, _ := open(t, filepath.Join(base, "journal"))
	defer l.Close()
	m := mirror(t, filepath.Join(base, "copy"), 1<<20)
	tail := l.Tail()
	copyAll(t, tail, m)
	index := func() {
		if err := l.WriteIndex(l.Last(), []byte("all"), func(uint64) bool { return false }); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		write(t, l, "lost on the way")
	}
	for range 3 { // they do not arrive
		if _, err := tail.Next(500); err != nil {
			t.Fatal(err)
		}
	}
	index()
	if l.Size() < 1500 {
		t.Errorf("%d bytes are left", l.Size())
	}
	if !tail.Rewind(m.At()) {
		t.Fatal("the copy cannot continue")
	}
	copyAll(t, tail, m)
	index()
	if l.Size() > 1000 {
		t.Errorf("%d bytes are left", l.Size())
	}
	if tail.Rewind(Position{Segment: 1, At: 10}) || tail.Rewind(Position{Segment: 99}) {
		t.Error("another copy continues")
	}
	tail.Close()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMirrorRefuses pieces that do not follow, an index of records that it lacks, more than its room, and a directory
// with a journal.
func TestMirrorRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "copy")
	m := mirror(t, dir, 100)
	raw := make([]byte, indexHead)
	raw[12], raw[20] = 1, 200 // up to byte 200 of segment 1
	for name, p := range map[string]Piece{
		"a gap":               {At: Position{Segment: 1, At: 10}, Bytes: []byte("x")},
		"an index to come":    {At: Position{Segment: 1}, Index: raw},
		"no index":            {At: Position{Segment: 1}, Index: []byte("x")},
		"more than it may be": {At: Position{Segment: 1}, Bytes: make([]byte, 101)},
	} {
		if err := m.Put(p); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	for _, name := range []string{"index", "lock", "segment-000000000001"} {
		if m.Note(name, nil) == nil {
			t.Errorf("a note has the name %s", name)
		}
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name(7)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewMirror(dir, MirrorOptions{Most: 100}); !core.IsKind(err, core.Busy) {
		t.Errorf("begun over a journal: %v", err)
	}
}
