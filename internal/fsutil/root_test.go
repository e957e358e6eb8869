package fsutil

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostile makes a tree as a job might leave it, and gives a directory beside it that
// nothing in it may lead to.
func hostile(t *testing.T) (r *Root, outside string) {
	t.Helper()
	top := t.TempDir()
	outside = filepath.Join(top, "outside")
	in := filepath.Join(top, "in")
	for _, dir := range []string{outside, filepath.Join(in, "run1", "deep"), filepath.Join(in, ".hidden")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, data := range map[string]string{
		"../outside/secret": "secret", "run1/out": "data", "run1/deep/x": "x", ".hidden/h": "h", ".dot": "d", "plain": "p",
	} {
		if err := os.WriteFile(filepath.Join(in, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"latest": "run1", "abs": "/work/run1/out", "chain": "latest/out", "up": "../outside", "etc": "/etc", "seen": "/work",
		"loop": "loop", "ping": "pong", "pong": "ping", "gone": "nowhere", "workplace": "/workplace/run1",
		"run1/back": "../latest/deep", "sneak": "run1/../../outside/secret", "proc": "/proc/self/root",
	} {
		if err := os.Symlink(target, filepath.Join(in, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(in, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenRoot(in)
	if err != nil {
		t.Fatal(err)
	}
	r.Seen = "/work"
	t.Cleanup(func() { r.Close() })
	return r, outside
}

func TestResolveStaysInside(t *testing.T) {
	r, _ := hostile(t)
	for name, want := range map[string]struct {
		name string
		err  error
	}{
		"plain": {"plain", nil}, "latest": {"run1", nil}, "abs": {"run1/out", nil}, "chain": {"run1/out", nil}, "seen": {".", nil},
		"run1/back/x": {"run1/deep/x", nil}, "seen/latest/out": {"run1/out", nil}, "latest/..": {".", nil},
		"up": {"", ErrOutside}, "up/secret": {"", ErrOutside}, "etc": {"", ErrOutside}, "etc/passwd": {"", ErrOutside},
		"sneak": {"", ErrOutside}, "proc": {"", ErrOutside}, "workplace": {"", ErrOutside},
		"loop": {"", unix.ELOOP}, "ping": {"", unix.ELOOP}, "gone": {"", fs.ErrNotExist}, "none": {"", fs.ErrNotExist},
		"plain/x": {"", unix.ENOTDIR},
	} {
		got, err := r.Resolve(name)
		if got != want.name || !errors.Is(err, want.err) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"..", "../outside", "/etc", "", "a\x00b", "a/../../b"} {
		if _, err := r.Resolve(name); err == nil {
			t.Errorf("%q was taken", name)
		}
	}
}

func TestNoMethodFollowsLinks(t *testing.T) {
	r, outside := hostile(t)
	for _, name := range []string{"up/new", "latest/new", "run1/back/new", "../outside/new", "/tmp/new"} {
		_, cerr := r.Create(name, 0o600)
		for op, err := range map[string]error{
			"create": cerr, "write": r.WriteFile(name, nil, 0o600), "mkdir": r.Mkdir(name, 0o700), "mkdirall": r.MkdirAll(name, 0o700),
			"symlink": r.Symlink("x", name), "rename": r.Rename("plain", r, name), "link": r.Link("plain", r, name),
		} {
			if err == nil {
				t.Errorf("%s %s: no error", op, name)
			}
		}
	}
	for _, name := range []string{"up/secret", "up", "abs", "fifo", "run1", "gone"} {
		done := make(chan error, 1)
		go func() { _, err := r.ReadFile(name, 100); done <- err }()
		select {
		case err := <-done:
			if err == nil {
				t.Errorf("read %s: no error", name)
			}
		case <-time.After(time.Minute):
			t.Fatalf("read %s: hangs", name)
		}
	}
	if err := r.RemoveAll("up/secret"); err == nil {
		t.Error("removed over a link")
	}
	if err := r.Chmod("up", 0o777); err == nil {
		t.Error("mode set over a link")
	}
	if err := r.WriteFile("etc", []byte("new"), 0o600); err != nil { // in place of the link
		t.Error(err)
	}
	if err := r.RemoveAll("up"); err != nil { // the link itself
		t.Error(err)
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 || entries[0].Name() != "secret" {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestReadFileIsBounded(t *testing.T) {
	r, _ := hostile(t)
	if got, err := r.ReadFile("run1/out", 4); string(got) != "data" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := r.ReadFile("run1/out", 3); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
	if err := os.Truncate(r.Path("plain"), 1<<40); err != nil {
		t.Skip("the file system has no files of that size")
	}
	if _, err := ReadFile(r.Path("."), "plain", 1<<10); !errors.Is(err, ErrTooLarge) {
		t.Errorf("error %v", err)
	}
}

func TestStepwiseIsLikeOpenat2(t *testing.T) {
	r, _ := hostile(t)
	for _, name := range []string{".", "plain", "run1/out", "latest", "latest/out", "up/secret", "loop", "gone", "none", "plain/x", "run1/back/x"} {
		for _, flags := range []int{unix.O_PATH | unix.O_NOFOLLOW, unix.O_RDONLY | unix.O_NONBLOCK, unix.O_PATH | unix.O_DIRECTORY} {
			want, err := r.dir.openat(name, flags, 0)
			got, serr := stepwise(int(r.dir.f.Fd()), name, flags|unix.O_CLOEXEC, 0)
			if (err == nil) != (serr == nil) || errors.Is(err, fs.ErrNotExist) != errors.Is(serr, fs.ErrNotExist) {
				t.Errorf("%s, flags %o: %v, stepwise %v", name, flags, err, serr)
			}
			unix.Close(want)
			unix.Close(got)
		}
	}
}

// TestSwappedDirectory has a job swap a directory for a link out, again and again, while
// files are made and read below it.
func TestSwappedDirectory(t *testing.T) {
	r, outside := hostile(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	go func() {
		in := r.Path(".")
		for ctx.Err() == nil {
			os.Rename(filepath.Join(in, "run1"), filepath.Join(in, "aside")) //nolint:errcheck // a race is what is wanted
			os.Symlink(outside, filepath.Join(in, "run1"))                   //nolint:errcheck // see above
			os.Remove(filepath.Join(in, "run1"))
			os.Rename(filepath.Join(in, "aside"), filepath.Join(in, "run1")) //nolint:errcheck // see above
		}
	}()
	for ctx.Err() == nil {
		if data, err := r.ReadFile("run1/secret", 10); err == nil {
			t.Fatalf("read %q outside", data)
		}
		r.WriteFile("run1/new", []byte("x"), 0o600) //nolint:errcheck // it may fail, but not lead out
		r.MkdirAll("run1/dir/sub", 0o700)           //nolint:errcheck // see above
	}
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		t.Errorf("outside: %v, %v", entries, err)
	}
}

func TestWalkAndGlob(t *testing.T) {
	r, _ := hostile(t)
	var names []string
	err := r.Walk("run1", func(name string, _ fs.FileInfo, err error) error {
		names = append(names, name)
		return err
	})
	if want := []string{"run1", "run1/back", "run1/deep", "run1/deep/x", "run1/out"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("walk: %q, %v", names, err)
	}
	for pattern, want := range map[string]string{
		".":             ".",
		"*":             "abs chain etc fifo gone latest loop ping plain pong proc run1 seen sneak up workplace",
		".*":            ".dot .hidden",
		"*/*":           "latest/back latest/deep latest/out run1/back run1/deep run1/out seen/abs seen/chain seen/etc seen/fifo seen/gone seen/latest seen/loop seen/ping seen/plain seen/pong seen/proc seen/run1 seen/seen seen/sneak seen/up seen/workplace",
		".hidden/*":     ".hidden/h",
		"?dot":          "",
		"[.]dot":        "",
		`\.dot`:         ".dot",
		"latest/o*":     "latest/out",
		"up/*":          "",
		"up/secret":     "",
		"etc/pass*":     "",
		"run1/*/x":      "run1/back/x run1/deep/x",
		"gone":          "gone",
		"run1/o[tu]t":   "run1/out",
		`run1/\[out`:    "",
		"plain/*":       "",
		"loop/*":        "",
		"none/*/really": "",
	} {
		got, err := r.Glob(pattern)
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s: %q, %v", pattern, got, err)
		}
	}
	for _, pattern := range []string{"../*", "/etc/*", "[", "x/[a", `x\`} {
		if _, err := r.Glob(pattern); err == nil {
			t.Errorf("%s: no error", pattern)
		}
	}
}

func TestUnreadableDirectoryIsNotEmpty(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	r, _ := hostile(t)
	if err := r.Chmod("run1", 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Chmod("run1", 0o700) }) //nolint:errcheck // for the removal
	if found, err := r.Glob("run1/*"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%q, %v", found, err)
	}
	if is, err := r.Exists("run1/out"); err == nil {
		t.Errorf("exists: %v", is)
	}
	if is, err := Exists(r.Path("run1/out")); err == nil {
		t.Errorf("exists: %v", is)
	}
	if err := SyncTree(t.Context(), r.Path("run1")); err != nil {
		t.Errorf("sync: %v", err)
	}
	if info, err := r.Lstat("run1"); err != nil || info.Mode().Perm() != 0 {
		t.Errorf("mode after sync: %v, %v", info, err)
	}
}

// TestSyncOfAShutTreeKeepsItsModes: directories shut inside of each other, and several names of
// files that nobody may read, are all synced, and are as shut afterwards.
func TestSyncOfAShutTreeKeepsItsModes(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	top := filepath.Join(t.TempDir(), "top")
	dirs := []string{top, filepath.Join(top, "a"), filepath.Join(top, "a", "b")}
	must(t, os.MkdirAll(dirs[2], 0o700))
	var files []string
	for i := range 64 {
		files = append(files, filepath.Join(dirs[i%3], strconv.Itoa(i)))
		if i%4 > 0 {
			must(t, os.Link(files[i&^3], files[i]))
			continue
		}
		must(t, os.WriteFile(files[i], []byte("x"), 0))
	}
	shut := func(mode os.FileMode) {
		for _, dir := range slices.Backward(dirs) {
			must(t, os.Chmod(dir, mode))
		}
	}
	t.Cleanup(func() {
		for _, dir := range dirs {
			os.Chmod(dir, 0o700) //nolint:errcheck // for the removal
		}
	})
	for range 50 {
		shut(0)
		if err := SyncTree(t.Context(), top); err != nil {
			t.Fatal(err)
		}
		for _, path := range append(dirs, files...) {
			if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0 {
				t.Fatalf("%s: %v, %v", path, info, err)
			}
			if slices.Contains(dirs, path) {
				must(t, os.Chmod(path, 0o700))
			}
		}
	}
}

func FuzzMatch(f *testing.F) {
	for _, p := range []string{"*", "a/*", ".*", "[.]a", `\.a`, "a//b", "[", "?x/[^a]*"} {
		f.Add(p, ".a/b")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		is, err := Match(pattern, name)
		if err != nil || !is {
			return
		}
		if strings.Count(pattern, "/") != strings.Count(name, "/") {
			t.Errorf("%q matches %q, of another depth", pattern, name)
		}
		for i, element := range strings.Split(name, "/") {
			if p := strings.Split(pattern, "/")[i]; strings.HasPrefix(element, ".") && !strings.HasPrefix(strings.TrimPrefix(p, `\`), ".") {
				t.Errorf("%q matches %q, which is hidden", pattern, name)
			}
		}
	})
}

// FuzzResolve compares Resolve with the kernel, in trees of links.
func FuzzResolve(f *testing.F) {
	f.Add("b", "a/..", "../x", "a/l1/l2")
	f.Add("l2", "l3/.", "l1", "l1")
	f.Add("a/../../x", "a", "l2/l2", "a/./l3/b")
	f.Fuzz(func(t *testing.T, l1, l2, l3, name string) {
		in := t.TempDir()
		if os.MkdirAll(filepath.Join(in, "a", "b"), 0o700) != nil {
			t.Fatal("no directory")
		}
		for link, target := range map[string]string{"l1": l1, "a/l2": l2, "a/b/l3": l3, "l2": l3, "l3": l2} {
			os.Symlink(target, filepath.Join(in, link)) //nolint:errcheck // not every text is a target
		}
		r, err := OpenRoot(in)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		got, err := r.Resolve(name)
		if filepath.Clean(name) != name { // the kernel takes what is before ".." as it is
			return
		}
		fd, kerr := unix.Openat2(int(r.dir.f.Fd()), name, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH})
		if errors.Is(kerr, unix.ENOSYS) || errors.Is(kerr, unix.EPERM) {
			t.Skip("no openat2")
		}
		if (err == nil) != (kerr == nil) {
			t.Fatalf("%q: %q, %v; the kernel: %v", name, got, err, kerr)
		}
		if err != nil {
			return
		}
		defer unix.Close(fd)
		var want, have unix.Stat_t
		if err := errors.Join(unix.Fstat(fd, &want), unix.Lstat(filepath.Join(in, got), &have)); err != nil || want.Ino != have.Ino {
			t.Errorf("%q: %q is another file: %v", name, got, err)
		}
	})
}

// TestFileMode converts each mode of stat(2), and back.
func TestFileMode(t *testing.T) {
	for mode := range uint32(0o10000) {
		if got := unixMode(FileMode(mode | unix.S_IFREG)); got != mode {
			t.Fatalf("%#o became %#o", mode, got)
		}
	}
}
