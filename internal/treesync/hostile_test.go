package treesync

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// written is a stream made by hand.
func written(t *testing.T, make func(e *encoder) error) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	out.Grow(1 << 20)
	e := newEncoder(&out, kindOne, nil)
	e.plain = true
	must(t, e.top(""))
	must(t, make(e))
	must(t, e.end())
	return &out
}

func size(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// TestStreamsThatNoTreeHas are refused by who makes a tree of them, and by who puts them on
// a store, and leave nothing.
func TestStreamsThatNoTreeHas(t *testing.T) {
	dir, file := (&meta{kind: kindDir, name: "d", mode: 0o700}), (&meta{kind: kindFile, name: "f", mode: 0o600})
	first := (&meta{kind: kindDir, mode: 0o700})
	for name, c := range map[string]struct {
		stream  func(e *encoder) error
		shelved bool // by a store, which makes no files
	}{
		"a hole of an exabyte": {func(e *encoder) error {
			return errors.Join(e.enter(first), e.enter(file), e.record(recData, append(size(0), "data"...)), e.record(recEnd, size(1<<60)), e.leave())
		}, true},
		"holes of many files": {func(e *encoder) error {
			err := e.enter(first)
			for range 10 {
				err = errors.Join(err, e.enter(file), e.record(recEnd, size(2<<40)))
			}
			return errors.Join(err, e.leave())
		}, true},
		"data behind a hole": {func(e *encoder) error {
			return errors.Join(e.enter(first), e.enter(file), e.record(recData, append(size(1<<60), "data"...)), e.record(recEnd, size(1<<60+4)), e.leave())
		}, true},
		"a negative size": {func(e *encoder) error {
			return errors.Join(e.enter(first), e.enter(file), e.record(recEnd, size(1<<63)), e.leave())
		}, false},
		"directories without end": {func(e *encoder) error {
			err := e.enter(first)
			for i := 0; err == nil && i < 100000; i++ {
				err = e.enter(dir)
			}
			return err
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			stream := written(t, c.stream)
			to := filepath.Join(t.TempDir(), "to")
			if err := Receive(t.Context(), bytes.NewReader(stream.Bytes()), to); err == nil {
				t.Error("it was taken")
			}
			if left, err := os.ReadDir(filepath.Dir(to)); err != nil || len(left) > 0 {
				t.Errorf("it left %v, %v", left, err)
			}
			var out bytes.Buffer
			if err := Shelve(t.Context(), bytes.NewReader(stream.Bytes()), &out, 12, noSink{}); (err == nil) != c.shelved {
				t.Errorf("on a shelf: %v", err)
			}
		})
	}
}

type noSink struct{}

func (noSink) Begin(int)                    {}
func (noSink) Put(Name, []byte) error       { return nil }
func (noSink) File(string, [32]byte, int64) {}
func (noSink) Size(Name) (int, bool)        { return 0, true }
func (noSink) Get(_ context.Context, names []Name) ([][]byte, error) {
	return make([][]byte, len(names)), nil
}

// TestHolesAreRefusedBySenders: else a checkpoint would be kept that nobody can restore.
func TestHolesAreRefusedBySenders(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} {
		f, err := os.Create(filepath.Join(dir, name))
		must(t, err)
		if err := f.Truncate(15 << 40); errors.Is(err, unix.EFBIG) {
			t.Skip("no file system here has such files")
		}
		must(t, f.Close())
	}
	if err := Send(t.Context(), &bytes.Buffer{}, dir, nil); !errors.Is(err, errHoles) {
		t.Errorf("they were sent: %v", err)
	}
}

// TestNamesWithDataOfAStore: a tree in a bucket that anyone who has it wrote, with data where
// names belong, does not fill the memory of who restores it.
func TestNamesWithDataOfAStore(t *testing.T) {
	const records, record = 512, 1 << 20 / 2
	stream := written(t, func(e *encoder) error {
		err := errors.Join(e.enter(&meta{kind: kindDir, mode: 0o700}), e.enter(&meta{kind: kindFile, name: "f", mode: 0o600}))
		zeros := make([]byte, record)
		for i := range records {
			err = errors.Join(err, e.record(recData, append(size(uint64(i*record)), zeros...)))
		}
		return errors.Join(err, e.record(recEnd, size(records*record)), e.leave())
	})
	most := uint64(0)
	var before runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first has found is free only then
	runtime.ReadMemStats(&before)
	n := 0
	err := Unshelve(t.Context(), writer(func(b []byte) (int, error) {
		if n++; n%16 == 0 {
			var is runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&is)
			most = max(most, is.HeapAlloc-min(before.HeapAlloc, is.HeapAlloc))
		}
		return len(b), nil
	}), stream, nil, noSink{}, nil)
	runtime.KeepAlive(stream)
	if err != nil || most > 100<<20 {
		t.Errorf("it took %d MiB, %v", most>>20, err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
