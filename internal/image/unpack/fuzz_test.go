package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// layersOf reads arbitrary bytes as layers: every string is some sequence of
// entries with few names, so that they meet each other often.
func layersOf(raw []byte) [][]entry {
	words := []string{"a", "b", "c", "d", "..", ".", "", "outside", ".wh.a", ".wh.b", ".wh..", ".wh...", ".wh..wh..opq", "/", "../..", "/tmp"}
	kinds := []byte{tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeDir, tar.TypeSymlink, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar}
	next := func() int {
		if len(raw) == 0 {
			return 0
		}
		b := raw[0]
		raw = raw[1:]
		return int(b)
	}
	name := func() string {
		var parts []string
		for range next()%4 + 1 {
			parts = append(parts, words[next()%len(words)])
		}
		return strings.Join(parts, "/")
	}
	layers := [][]entry{nil}
	for len(raw) > 0 {
		b := next()
		if b%16 == 15 {
			layers = append(layers, nil)
			continue
		}
		e := entry{kind: kinds[b%len(kinds)], name: name(), mode: int64(next()) << 1 & 0o777}
		switch e.kind {
		case tar.TypeReg:
			e.data = "bad"
		case tar.TypeSymlink, tar.TypeLink:
			e.link = name()
		}
		if e.name = strings.TrimRight(e.name, "/"); e.name != "" {
			layers[len(layers)-1] = append(layers[len(layers)-1], e)
		}
	}
	return layers
}

// FuzzUnpack looks for layers that touch what is beside the tree, or leave a
// tree that cannot be removed. An error is as good an answer as none.
func FuzzUnpack(f *testing.F) {
	f.Add([]byte{4, 0, 0, 0, 0, 4, 0, 1, 0, 7, 0})
	f.Add([]byte{4, 0, 0, 0, 0, 14, 15, 2, 1, 0, 7, 255})
	f.Add([]byte("\x06\x00\x00\x00\x01\x04\x07\x0f\x00\x00\x00\x00"))
	temp := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		top, err := os.MkdirTemp(temp, "fuzz-")
		if err != nil {
			t.Fatal(err)
		}
		defer fsutil.RemoveAll(top)
		root, outside := filepath.Join(top, "tree"), filepath.Join(top, "outside")
		if os.Mkdir(root, 0o755) != nil || os.WriteFile(outside, []byte("safe"), 0o640) != nil {
			t.Fatal("cannot prepare")
		}
		u, err := New(root, Limits{Bytes: 1 << 20, Entries: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range layersOf(raw) {
			if u.Layer(context.Background(), bytes.NewReader(layerOf(t, l))) != nil {
				break
			}
		}
		u.Finish() //nolint:errcheck // whatever it says
		u.Close()
		entries, _ := os.ReadDir(top)
		got, err := os.ReadFile(outside)
		info, serr := os.Stat(outside)
		if err != nil || serr != nil || string(got) != "safe" || info.Mode() != 0o640 || len(entries) != 2 {
			t.Errorf("something outside was touched: %q %v %v", got, err, entries)
		}
		if err := fsutil.RemoveAll(root); err != nil {
			t.Errorf("the tree cannot be removed: %v", err)
		}
	})
}
