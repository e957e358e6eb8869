package checkpoint

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

func TestHostileLists(t *testing.T) {
	whole := driver.Manifest{Attempt: 1, Taken: time.Now(), Files: map[string]string{"a/b": "00ff"}}
	for name, harm := range map[string]func(*driver.Manifest){
		"a path that leaves": func(m *driver.Manifest) { m.Files = map[string]string{"../x": "00"} },
		"an absolute path":   func(m *driver.Manifest) { m.Files = map[string]string{"/etc/passwd": "00"} },
		"no digest":          func(m *driver.Manifest) { m.Files = map[string]string{"a": "\x1b[2J"} },
		"another attempt":    func(m *driver.Manifest) { m.Attempt = 7 },
		"a negative size":    func(m *driver.Manifest) { m.Bytes = -1 },
		"the future":         func(m *driver.Manifest) { m.Taken = time.Now().AddDate(10, 0, 0) },
		"escapes in a site":  func(m *driver.Manifest) { m.Site = "a\x1b]0;x" },
	} {
		m := whole
		harm(&m)
		list := []driver.Checkpoint{{Generation: driver.Generation{Attempt: 1}, Manifest: m}}
		if err := CheckList(list); err != nil || !list[0].Broken {
			t.Errorf("%s: %v, %+v", name, err, list)
		}
	}
	for name, list := range map[string][]driver.Checkpoint{
		"twice": {{Generation: driver.Generation{Attempt: 1}}, {Generation: driver.Generation{Attempt: 1}}}, "negative": {{Generation: driver.Generation{Attempt: -1}}}, "many": make([]driver.Checkpoint, MostNames+1),
	} {
		if err := CheckList(list); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"..@x", "a@../x", "a@b/c", "-a@b", "a@", "a@b\n", "a@.b"} {
		if _, _, ok := driver.ParseRunName(name); ok {
			t.Errorf("%q is taken for a run", name)
		}
	}
}

// TestMarksAreNamedByWhoAsks, and nothing else is made or removed by that.
func TestMarksAreNamedByWhoAsks(t *testing.T) {
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, q := range []Request{{Op: OpMark, Path: "/x/other"}, {Op: OpUnmark, Path: mine}, {Op: OpUnmark, Path: "../mine"}} {
		q.Dir = dir
		raw, err := json.Marshal(q)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Serve(t.Context(), raw); err == nil {
			t.Errorf("%s %s was done", q.Op, q.Path)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}

// TestARunsDirectoryIsNoLink: by one, files elsewhere would be changed and removed.
func TestARunsDirectoryIsNoLink(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	mine := filepath.Join(elsewhere, "1", "manifest.json")
	if err := os.MkdirAll(filepath.Dir(mine), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(mine, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(root, "a@b")); err != nil {
		t.Fatal(err)
	}
	store := Root(root).Run("a@b")
	if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: 2}, "s", Tree(t.TempDir())); err == nil {
		t.Error("a checkpoint was kept over it")
	}
	if err := store.Note(t.Context(), nil); err == nil {
		t.Error("a record was written over it")
	}
	if err := store.Remove(t.Context()); err == nil {
		t.Error("it was removed")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
