package dir

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// FuzzManifest reads the manifest of a checkpoint that others may write.
func FuzzManifest(f *testing.F) {
	for _, text := range []string{
		`{"attempt": 1, "site": "s", "taken": "2026-01-02T03:04:05Z", "took": 1, "files": {"a/b": "00ff"}, "bytes": 1}`,
		`{"attempt": 1, "files": {"../x": "00"}}`, `{"attempt": 2}`, `{"attempt": 1, "bytes": -1}`, `{"attempt": 1, "site": "\u001b[2J"}`, `null`, `{`,
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	g := driver.Generation{Attempt: 1}
	own := filepath.Join(dir, g.String())
	if err := os.Mkdir(own, 0o700); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(filepath.Join(own, manifestName), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := Checkpoints(dir).manifest(g)
		if err != nil {
			if !errors.Is(err, errManifest) {
				t.Errorf("it is refused as %v", err)
			}
			return
		}
		if m.Attempt != 1 || m.Bytes < 0 || strings.ContainsFunc(m.Site, unicode.IsControl) || m.Digest() == "" {
			t.Errorf("it is read as %+v", m)
		}
		for name := range m.Files {
			if !filepath.IsLocal(name) {
				t.Errorf("it has a file %q", name)
			}
		}
	})
}

// FuzzNames reads the names of runs and checkpoints in a store.
func FuzzNames(f *testing.F) {
	for _, name := range []string{"a@b", "1", "1.2", "..@x", "a@../x", "a@b/c", "-1", "1.0", "01", "+1", "9999999999999999999", "a@b\n", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if user, run, ok := driver.ParseRunName(name); ok {
			if driver.RunName(user, run) != name || strings.ContainsAny(name, "/\n\x00") || strings.HasPrefix(run, ".") || !filepath.IsLocal(name) {
				t.Errorf("%q is taken for a run", name)
			}
		}
		g, ok := driver.ParseGeneration(name)
		if ok && (g.String() != name || !filepath.IsLocal(name) || strings.ContainsAny(name, "/\n\x00")) {
			t.Errorf("%q is taken for a checkpoint", name)
		}
		if ok && store.CheckList([]driver.Checkpoint{{Generation: g}}) == nil && (g.Attempt < 0 || g.Snapshot < 0) {
			t.Errorf("%q is taken for one of a run", name)
		}
	})
}
