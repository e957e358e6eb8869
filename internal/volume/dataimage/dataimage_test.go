package dataimage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// tree makes a directory with one of everything.
func tree(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tree")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(filepath.Join(dir, "a/b c/d\"e"), 0o755))
	must(os.MkdirAll(filepath.Join(dir, "many"), 0o750))
	noise := make([]byte, 3<<20+17)
	r := rand.NewChaCha8([32]byte{1})
	r.Read(noise) //nolint:errcheck // it cannot fail
	must(os.WriteFile(filepath.Join(dir, "a/noise"), noise, 0o640))
	must(os.WriteFile(filepath.Join(dir, "a/b c/d\"e/'quoted' \n name"), []byte("x"), 0o600))
	must(os.WriteFile(filepath.Join(dir, "empty"), nil, 0o444))
	must(os.Link(filepath.Join(dir, "a/noise"), filepath.Join(dir, "a/again")))
	must(os.Symlink("a/noise", filepath.Join(dir, "short")))
	must(os.Symlink(strings.Repeat("long/", 40)+"end", filepath.Join(dir, "long")))
	must(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600))
	for i := range 3000 { // an index of two levels
		must(os.WriteFile(filepath.Join(dir, "many", fmt.Sprintf("file-with-a-name-of-some-length-%05d", i)), []byte{byte(i)}, 0o644))
	}
	sparse, err := os.Create(filepath.Join(dir, "sparse"))
	must(err)
	for i := range 200 { // more extents than an inode has room for
		_, err := sparse.WriteAt([]byte("here"), int64(i)*1<<20)
		must(err)
	}
	must(sparse.Truncate(1 << 28))
	must(sparse.Close())
	must(os.Chtimes(filepath.Join(dir, "a/noise"), time.Time{}, time.Unix(1234567890, 0)))
	must(os.Chmod(filepath.Join(dir, "a"), 0o711))
	return dir
}

func load(t *testing.T, dir string, size int64) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	if err := (Tools{}).Make(t.Context(), file, dir, size); err != nil {
		t.Fatal(err)
	}
	return file
}

func opened(t *testing.T, file string) *Image {
	t.Helper()
	i, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	return i
}

func stat(t *testing.T, file string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(file, &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// What goes in comes out, and e2fsck finds nothing.
func TestThereAndBack(t *testing.T) {
	testkit.AsRootToo(t)
	dir := tree(t)
	file := load(t, dir, 1<<30)
	if st := stat(t, file); st.Size != 1<<30 || st.Blocks*512 > 200<<20 {
		t.Errorf("the image has %d bytes and takes %d", st.Size, st.Blocks*512)
	}
	if err := (Tools{}).Check(t.Context(), file); err != nil {
		t.Error(err)
	}
	i := opened(t, file)
	out := filepath.Join(t.TempDir(), "out")
	if err := i.Unload(t.Context(), out, nil); err != nil {
		t.Fatal(err)
	}
	want, err := DigestOf(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, digest := range map[string]func() (string, error){
		"image":    func() (string, error) { return i.Digest(t.Context()) },
		"unloaded": func() (string, error) { return DigestOf(t.Context(), out) },
	} {
		if got, err := digest(); got != want || err != nil {
			t.Errorf("%s: %s, not %s: %v", name, got, want, err)
		}
	}
	if a, b := stat(t, filepath.Join(out, "a/noise")), stat(t, filepath.Join(out, "a/again")); a.Ino != b.Ino {
		t.Error("hard links came apart")
	}
	if st := stat(t, filepath.Join(out, "sparse")); st.Blocks*512 > 4<<20 {
		t.Errorf("the sparse file takes %d bytes", st.Blocks*512)
	}
	if st := stat(t, filepath.Join(out, "a/noise")); st.Mtim.Sec != 1234567890 {
		t.Errorf("times: %v", st.Mtim)
	}
}

// TestModesAreThoseOfLs holds them against the real one.
func TestModesAreThoseOfLs(t *testing.T) {
	testkit.AsRootToo(t)
	dir := t.TempDir()
	for mode, name := range map[uint32]string{0o4755: "setuid", 0o4644: "setuid, no x", 0o2750: "setgid", 0o640: "plain", 0o1777: "sticky", 0o1776: "sticky, no x"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(file, nil, 0o600), unix.Chmod(file, mode)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink("plain", filepath.Join(dir, "link")), os.Mkdir(filepath.Join(dir, "dir"), 0o700), unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600)); err != nil {
		t.Fatal(err)
	}
	files, err := opened(t, load(t, dir, LeastSize)).Files(t.Context())
	if err != nil || len(files) != 9 {
		t.Fatalf("%v: %+v", err, files)
	}
	for _, f := range files {
		out, err := exec.Command("ls", "-ld", filepath.Join(dir, f.Path)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if want := string(out[:10]); f.Mode != want {
			t.Errorf("%s: %s, and ls says %s", f.Path, f.Mode, want)
		}
	}
}

func TestPartsOfAnImage(t *testing.T) {
	i := opened(t, load(t, tree(t), 0))
	out := filepath.Join(t.TempDir(), "out")
	if err := i.Unload(t.Context(), out, []string{"a/b*", "many/*0004[12]", "no such"}); err != nil {
		t.Fatal(err)
	}
	var got []string
	filepath.WalkDir(out, func(p string, d fs.DirEntry, _ error) error { //nolint:errcheck // what is missing shows
		if !d.IsDir() {
			got = append(got, strings.TrimPrefix(p, out+"/"))
		}
		return nil
	})
	want := []string{"a/b c/d\"e/'quoted' \n name", "many/file-with-a-name-of-some-length-00041", "many/file-with-a-name-of-some-length-00042"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q", got)
	}
}

func TestItIsAFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755),
		os.WriteFile(filepath.Join(dir, "a/b/c"), bytes.Repeat([]byte("content\n"), 10000), 0o644),
		os.WriteFile(filepath.Join(dir, "d"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(opened(t, load(t, dir, LeastSize)), "a/b/c", "d"); err != nil {
		t.Error(err)
	}
}

func TestWrongSizes(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "large"), bytes.Repeat([]byte{1}, 80<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{1 << 10, 1 << 20, 1 << 62, 64 << 20} {
		image := filepath.Join(t.TempDir(), "image")
		err := (Tools{}).Make(t.Context(), image, dir, size)
		if err == nil || core.KindOf(err) != core.Invalid || core.Remedy(err) == "" {
			t.Errorf("%d bytes: %v", size, err)
		}
		testkit.Wording(t, fmt.Sprint(size), testkit.ErrorText(err), image, "IMAGE", dir, "DIR")
	}
}

// TestHolesAreNotRead: of files that are nothing else, it would take hours. Where they are
// written as zeros, the digest is the same.
func TestHolesAreNotRead(t *testing.T) {
	digests := map[string]string{}
	for name, size := range map[string]int64{"holes": 10 << 20, "zeros": 10 << 20, "another place": 10 << 20, "longer": 10<<20 + zeroBlock, "most": largest} {
		dir := t.TempDir()
		f, err := os.Create(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]int64{"another place": 2 * zeroBlock}[name]
		if name == "zeros" {
			_, err = f.Write(make([]byte, size))
		}
		_, werr := f.WriteAt([]byte("here"), 5*zeroBlock-2+at)
		if err := errors.Join(err, werr, f.Truncate(size), f.Close()); errors.Is(err, unix.EFBIG) {
			continue // this file system has none of 16 TiB
		} else if err != nil {
			t.Fatal(err)
		}
		if digests[name], err = DigestOf(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		i := opened(t, load(t, dir, 0))
		if got, err := i.Digest(t.Context()); got != digests[name] || err != nil || i.Size() > 1<<30 {
			t.Errorf("%s: the image of %d bytes holds %s, not %s: %v", name, i.Size(), got, digests[name], err)
		}
	}
	if digests["holes"] != digests["zeros"] || digests["holes"] == digests["another place"] || digests["holes"] == digests["longer"] {
		t.Errorf("digests are %v", digests)
	}
}

func TestAFileOfSixteenTerabytesIsRefused(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "bee-test-") // ext4 itself has none
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(filepath.Join(dir, "file"))
	if err := errors.Join(err, f.Truncate(largest+1), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Fits("image", dir, 0); !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), f.Name()) || core.Remedy(err) == "" {
		t.Error(err)
	}
}

func TestWhatIsNoImage(t *testing.T) {
	whole, err := os.ReadFile(load(t, t.TempDir(), LeastSize))
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"too small": []byte("text"), "no ext4 file system": make([]byte, 1<<20), "cut off": whole[:len(whole)/2],
	} {
		file := filepath.Join(t.TempDir(), "x")
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		} else {
			testkit.Wording(t, name, testkit.ErrorText(err), file, "FILE")
		}
	}
	if _, err := Open(t.TempDir()); !core.IsKind(err, core.Invalid) {
		t.Errorf("a directory: %v", err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(fifo); core.KindOf(err) != core.Invalid {
		t.Errorf("a FIFO: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none")); core.KindOf(err) != core.NotFound {
		t.Errorf("an image that is not there: %v", err)
	}
}

// debugfs marks the journal as in use, as a machine that was killed leaves it.
func TestAnImageThatWasInUse(t *testing.T) {
	file := load(t, tree(t), 0)
	argv, err := Tools{}.find("debugfs")
	if err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(argv[0], "-w", "-R", "feature needs_recovery", file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := Open(file); !errors.Is(err, ErrUnclean) {
		t.Fatalf("it is taken for clean: %v", err)
	}
	release, err := Lock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Tools{}).OpenRecovered(t.Context(), file); core.KindOf(err) != core.Busy {
		t.Errorf("one that a machine uses: %v", err)
	}
	release()
	i, err := Tools{}.OpenRecovered(t.Context(), file)
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
}

// FuzzImage: a damaged image gives errors, never a crash, a hang or a file
// outside.
func FuzzImage(f *testing.F) {
	dir := f.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a/b"), 0o755), os.WriteFile(filepath.Join(dir, "a/b/c"), []byte("content"), 0o644),
		os.Symlink("/etc/passwd", filepath.Join(dir, "a/l"))); err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "image")
	if err := (Tools{}).Make(f.Context(), file, dir, LeastSize); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{1, 2, 3, 4, 5})
	f.Fuzz(func(t *testing.T, seed []byte) {
		raw := bytes.Clone(whole[:8<<20])
		r := rand.NewChaCha8([32]byte(append(seed, make([]byte, 32)...)[:32]))
		var used []int // bytes that say something: most of an image is empty
		for i, b := range raw {
			if b != 0 {
				used = append(used, i)
			}
		}
		for range 1 + len(seed) {
			raw[used[r.Uint64()%uint64(len(used))]] = byte(r.Uint64())
		}
		damaged := filepath.Join(t.TempDir(), "damaged")
		if err := os.WriteFile(damaged, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(damaged, int64(len(whole))); err != nil {
			t.Fatal(err)
		}
		i, err := Open(damaged)
		if err != nil {
			return
		}
		defer i.Close()
		i.Unload(t.Context(), filepath.Join(t.TempDir(), "out"), nil) //nolint:errcheck // it must not panic
	})
}
