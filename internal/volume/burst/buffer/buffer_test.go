package buffer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

func open(t *testing.T, dir string) (*Log, []string, string) {
	t.Helper()
	var got []string
	index := ""
	if err := fsutil.OwnDir(dir); err != nil {
		t.Fatal(err)
	}
	l, err := Open(dir, Options{
		SegmentSize: 1000,
		Index:       func(data []byte) error { index = string(data); return nil },
		Replay:      func(r Record) error { got = append(got, string(r.Payload)); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return l, got, index
}

func write(t *testing.T, l *Log, text string) Place {
	t.Helper()
	r := Record{Kind: Data, Payload: []byte(text)}
	if err := l.Append(&r); err != nil {
		t.Fatal(err)
	}
	return r.Place
}

// TestReplay gives back what was written, over many segments, and only the user can read it.
func TestReplay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, _, _ := open(t, dir)
	var want []string
	var places []Place
	for i := range 100 {
		want = append(want, fmt.Sprintf("record %d", i))
		places = append(places, write(t, l, want[i]))
	}
	if err := l.Sync(l.Last()); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l, got, _ := open(t, dir)
	defer l.Close()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("replayed %v", got)
	}
	for i, at := range places {
		p := make([]byte, len(want[i])-3)
		if err := l.Read(at, 3, p, true); err != nil || string(p) != want[i][3:] {
			t.Errorf("record %d: %q, %v", i, p, err)
		}
	}
	for _, name := range []string{dir, filepath.Join(dir, name(1))} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// TestMissing opens a journal whose disk is not mounted: that is an error which may pass, and
// nothing is made in its place.
func TestMissing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk", "journal")
	if _, err := Open(dir, Options{}); !errors.Is(err, fs.ErrNotExist) || !core.IsKind(err, core.Transient) {
		t.Errorf("opened with %v", err)
	}
	if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("made: %v", err)
	}
}

// TestTorn cuts the journal at every byte of its last record: what was before is there, and
// what is written next too.
func TestTorn(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, _, _ := open(t, dir)
	write(t, l, "first")
	last := write(t, l, "last")
	l.Close()
	file := filepath.Join(dir, name(1))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for size := last.At; size < int64(len(whole)); size++ {
		for _, garbage := range []bool{false, true} {
			torn := bytes.Clone(whole[:size])
			if garbage {
				torn = append(torn, bytes.Repeat([]byte{0xa5}, len(whole)-int(size))...)
			}
			if err := os.WriteFile(file, torn, 0o600); err != nil {
				t.Fatal(err)
			}
			l, got, _ := open(t, dir)
			write(t, l, "next")
			l.Close()
			l, again, _ := open(t, dir)
			l.Close()
			if fmt.Sprint(got) != "[first]" || fmt.Sprint(again) != "[first next]" {
				t.Fatalf("cut at %d: %v, then %v", size, got, again)
			}
		}
	}
}

// TestDamage changes bytes of a record that is not the last segment's: opening fails, and
// reading does.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, _, _ := open(t, dir)
	at := write(t, l, "precious")
	for range 30 {
		write(t, l, "more of it")
	}
	file, err := os.OpenFile(filepath.Join(dir, name(1)), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt([]byte("X"), at.At+headerSize+2); err != nil {
		t.Fatal(err)
	}
	if err := l.Read(at, 0, make([]byte, 8), true); err == nil {
		t.Error("damaged bytes were read")
	}
	l.Close()
	if l, err := Open(dir, Options{Replay: func(Record) error { return nil }}); err == nil {
		l.Close()
		t.Error("a damaged journal was opened")
	}
}

// TestIndex stands for the records before it, whose segments go where nothing is in use.
func TestIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	l, _, _ := open(t, dir)
	kept := write(t, l, "kept")
	for range 100 {
		write(t, l, "dead weight")
	}
	before := l.Size()
	if err := l.WriteIndex(l.Last(), []byte("all of that"), func(n uint64) bool { return n == kept.Segment }); err != nil {
		t.Fatal(err)
	}
	write(t, l, "after")
	if l.Size() > before/3 {
		t.Errorf("%d bytes of %d are left", l.Size(), before)
	}
	size := l.Size()
	l.Close()
	l, got, index := open(t, dir)
	defer l.Close()
	if index != "all of that" || fmt.Sprint(got) != "[after]" || l.Size() != size {
		t.Errorf("index %q, records %v, size %d instead of %d", index, got, l.Size(), size)
	}
	p := make([]byte, 4)
	if err := l.Read(kept, 0, p, true); err != nil || string(p) != "kept" {
		t.Errorf("%q, %v", p, err)
	}
}
