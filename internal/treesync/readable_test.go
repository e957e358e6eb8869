package treesync

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

func TestShutTreesAreMadeReadable(t *testing.T) {
	root := filepath.Join(t.TempDir(), "out")
	shut, file := filepath.Join(root, "shut"), filepath.Join(root, "shut", "file")
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.MkdirAll(shut, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{file, outside} {
		if err := os.WriteFile(f, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(f, 0o010); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shut, fs.ModeSetgid); err != nil {
		t.Fatal(err)
	}
	in, err := fsutil.OpenRoot(filepath.Dir(root))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	MakeReadable(in, "out")
	for p, want := range map[string]fs.FileMode{shut: fs.ModeDir | fs.ModeSetgid | 0o700, file: 0o410, outside: 0o010} {
		if info, err := os.Stat(p); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v", p, info.Mode(), err)
		}
	}
}
