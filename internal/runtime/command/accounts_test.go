package command

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAccountsOfAnImage are read as a process inside would, and only from plain files of a moderate size.
func TestAccountsOfAnImage(t *testing.T) {
	const line = "root:x:0:0:root:/root:/bin/sh\n"
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a file":           {func(path string) error { return os.WriteFile(path, []byte(line), 0o644) }, line},
		"nothing":          {func(string) error { return nil }, ""},
		"a link":           {func(path string) error { return os.Symlink("/usr/passwd", path) }, line},
		"a link that ends": {func(path string) error { return os.Symlink("/etc/none", path) }, ""},
		"a FIFO":           {func(path string) error { return unix.Mkfifo(path, 0o644) }, ""},
		"a directory":      {func(path string) error { return os.Mkdir(path, 0o755) }, ""},
		"a huge file": {func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(line), 0o644), os.Truncate(path, mostAccounts+1))
		}, ""},
	} {
		tree := t.TempDir()
		err := errors.Join(os.Mkdir(filepath.Join(tree, "etc"), 0o755), os.Mkdir(filepath.Join(tree, "usr"), 0o755))
		err = errors.Join(err, os.WriteFile(filepath.Join(tree, "usr/passwd"), []byte(line), 0o644))
		for _, file := range []string{"etc/passwd", "etc/group"} {
			err = errors.Join(err, c.make(filepath.Join(tree, file)))
		}
		if err != nil {
			t.Fatal(err)
		}
		if passwd, group, err := Accounts(tree); err != nil || passwd != c.want || group != c.want {
			t.Errorf("%s: %.40q, %.40q, %v", name, passwd, group, err)
		}
	}
}
