package mpi

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPartsThatIncludeThemselves are looked at for so long as real ones take, not for ever.
func TestPartsThatIncludeThemselves(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"ld.so.conf": "include ld.so.conf.d/*.conf\n" + strings.Repeat("include /etc/ld.so.conf\n", 400), "ld.so.conf.d/one.conf": "/opt/one # a comment\n",
	} {
		file := filepath.Join(root, "etc", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if dirs := newImage(CheckInput{Root: root}).libraryDirs(); !slices.Contains(dirs, "/opt/one") || !slices.Contains(dirs, "/usr/lib") || len(dirs) > 1000 {
		t.Errorf("%d directories: %.200q", len(dirs), dirs)
	}
}
