package fsutil

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// tree makes directories, with modes and owners, and links, below a directory that no
// other user can write to.
func tree(t *testing.T, make func(t *testing.T, at func(name string) string)) func(name string) string {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	make(t, at)
	return at
}

func mkdir(t *testing.T, path string, mode os.FileMode, uid int) {
	t.Helper()
	must(t, os.Mkdir(path, 0o700))
	must(t, os.Chmod(path, mode))
	if uid >= 0 {
		must(t, os.Lchown(path, uid, uid))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCheckParents(t *testing.T) {
	testkit.AsRootToo(t)
	const stranger = 12345
	for _, c := range []struct {
		name   string
		root   bool // takes root to make
		make   func(t *testing.T, at func(string) string)
		path   string
		shared bool
	}{
		{"of our own", false, func(t *testing.T, at func(string) string) { mkdir(t, at("a"), 0o755, -1) }, "a/b/c", false},
		{"others may write", false, func(t *testing.T, at func(string) string) { mkdir(t, at("a"), 0o777, -1) }, "a/b", true},
		{"others may write far above", false, func(t *testing.T, at func(string) string) {
			mkdir(t, at("a"), 0o707, -1)
			mkdir(t, at("a/b"), 0o700, -1)
			mkdir(t, at("a/b/c"), 0o700, -1)
		}, "a/b/c/d", true},
		{"the last one may be anything", false, func(t *testing.T, at func(string) string) { mkdir(t, at("a"), 0o777, -1) }, "a", false},
		{"sticky, nothing there yet", false, func(t *testing.T, at func(string) string) { mkdir(t, at("a"), 0o777|os.ModeSticky, -1) }, "a/b", false},
		{"sticky, ours", false, func(t *testing.T, at func(string) string) {
			mkdir(t, at("a"), 0o777|os.ModeSticky, -1)
			mkdir(t, at("a/b"), 0o700, -1)
		}, "a/b/c", false},
		{"sticky, a stranger was first", true, func(t *testing.T, at func(string) string) {
			mkdir(t, at("a"), 0o777|os.ModeSticky, -1)
			mkdir(t, at("a/b"), 0o777, stranger)
		}, "a/b/c", true},
		{"sticky, a stranger's link to ours", true, func(t *testing.T, at func(string) string) {
			mkdir(t, at("a"), 0o777|os.ModeSticky, -1)
			mkdir(t, at("ours"), 0o700, -1)
			must(t, os.Symlink("../ours", at("a/b")))
			must(t, os.Lchown(at("a/b"), stranger, stranger))
		}, "a/b/c", true},
		{"a stranger's", true, func(t *testing.T, at func(string) string) { mkdir(t, at("a"), 0o755, stranger) }, "a/b", true},
		{"a group's", true, func(t *testing.T, at func(string) string) {
			mkdir(t, at("a"), 0o775, 0)
			must(t, os.Chown(at("a"), 0, stranger))
		}, "a/b", true},
		{"a link of ours that leads over a shared one", false, func(t *testing.T, at func(string) string) {
			mkdir(t, at("shared"), 0o777, -1)
			mkdir(t, at("shared/in"), 0o700, -1)
			must(t, os.Symlink("shared/in", at("a")))
		}, "a/b", true},
		{"a link back and forth", false, func(t *testing.T, at func(string) string) {
			mkdir(t, at("d"), 0o700, -1)
			must(t, os.Symlink(at("d")+"/../d/..", at("a")))
		}, "a/d/b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.root {
				testkit.RequireRoot(t)
			}
			at := tree(t, c.make)
			if err := CheckParents(at(c.path)); (err != nil) != c.shared || err != nil && core.KindOf(err) != core.Unsupported {
				t.Errorf("shared: %v, want %v", err, c.shared)
			}
			if err := OwnDir(at(c.path + "/own")); c.shared && err == nil {
				t.Error("a directory was made and used")
			}
		})
	}
}

func TestCheckParentsDoesNotEnd(t *testing.T) {
	at := tree(t, func(t *testing.T, at func(string) string) {
		must(t, os.Symlink("b", at("a")))
		must(t, os.Symlink("a", at("b")))
	})
	if err := CheckParents(at("a/c")); err == nil {
		t.Error("links in a circle lead somewhere")
	}
}

func TestOwnDir(t *testing.T) {
	at := tree(t, func(t *testing.T, at func(string) string) {
		mkdir(t, at("shared"), 0o777, -1)
		must(t, os.WriteFile(at("file"), nil, 0o600))
		must(t, os.Symlink("elsewhere", at("link")))
		mkdir(t, at("elsewhere"), 0o755, -1)
	})
	for name, want := range map[string]bool{"new": true, "deep/er": true, "link": true, "shared": false, "file": false, "file/in": false} {
		if err := OwnDir(at(name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
		if info, err := os.Stat(at(name)); want && (err != nil || info.Mode().Perm()&0o022 != 0) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestPrivateGroups(t *testing.T) {
	a := accounts{read: true}
	for _, u := range []string{"root:x:0:0", "ada:x:1000:1000", "bob:x:1001:1001", "eve:x:1002:1001", "tim:x:1003:100", "joe:x:1004:1004"} {
		a.users = append(a.users, strings.Split(u, ":"))
	}
	for _, g := range []string{"root:x:0:", "ada:x:1000:ada", "bob:x:1001:", "users:x:100:", "joe:x:1004:eve"} {
		a.groups = append(a.groups, strings.Split(g, ":"))
	}
	for _, c := range []struct {
		uid, gid int
		want     bool
	}{{0, 0, true}, {1000, 1000, true}, {1000, 0, false}, {1001, 1001, false}, {1003, 100, false}, {1004, 1004, false}, {7, 7, false}} {
		if got := a.private(c.uid, c.gid); got != c.want {
			t.Errorf("group %d is that of user %d alone: %v", c.gid, c.uid, got)
		}
	}
}

// TestOpenOwn: what another user may have made first is not opened, and blocks nobody.
func TestOpenOwn(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.Mkdir(at("own"), 0o755), os.Mkdir(at("shared"), 0o700), os.Chmod(at("shared"), 0o770), os.Mkdir(at("theirs"), 0o700),
		os.Symlink(at("own"), at("link")), os.WriteFile(at("file"), nil, 0o600), unix.Mkfifo(at("fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	names := []string{"shared", "link", "file", "fifo", "absent"}
	if os.Geteuid() == 0 {
		names = append(names, "theirs")
		if err := os.Chown(at("theirs"), 54321, 54321); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		if r, err := OpenOwn(at(name)); err == nil {
			r.Close()
			t.Errorf("%s was opened", name)
		}
	}
	r, err := OpenOwn(at("own"))
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
}
