package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

// entry is one entry of a layer made for a test.
type entry struct {
	name, link, data string
	kind             byte
	time             time.Time
	uid              int
	mode             int64
	xattr            map[string]string
}

func dir(name string, mode int64) entry { return entry{name: name, kind: tar.TypeDir, mode: mode} }
func file(name, data string) entry {
	return entry{name: name, kind: tar.TypeReg, data: data, mode: 0o644}
}

func symlink(name, to string) entry {
	return entry{name: name, kind: tar.TypeSymlink, link: to, mode: 0o777}
}

func hardlink(name, to string) entry {
	return entry{name: name, kind: tar.TypeLink, link: to, mode: 0o644}
}
func special(name string, kind byte) entry { return entry{name: name, kind: kind, mode: 0o666} }
func whiteoutOf(dir, name string) entry    { return file(filepath.Join(dir, ".wh."+name), "") }
func opaqueOf(name string) entry           { return file(filepath.Join(name, ".wh..wh..opq"), "") }

func layerOf(t testing.TB, entries []entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Linkname: e.link, Typeflag: e.kind, Mode: e.mode, ModTime: e.time, Uid: e.uid, Size: int64(len(e.data)), Format: tar.FormatPAX}
		for k, v := range e.xattr {
			if h.PAXRecords == nil {
				h.PAXRecords = map[string]string{}
			}
			h.PAXRecords["SCHILY.xattr."+k] = v
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// unpackAll applies layers to a fresh tree beside a file that must stay as it is.
func unpackAll(t testing.TB, limits Limits, layers ...[]entry) (string, error) {
	t.Helper()
	top, err := os.MkdirTemp("", "bee-unpack-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsutil.RemoveAll(top) })
	root := filepath.Join(top, "tree")
	if err := errors.Join(os.Mkdir(root, 0o700), os.WriteFile(filepath.Join(top, "outside"), []byte("safe"), 0o644)); err != nil {
		t.Fatal(err)
	}
	u, err := New(root, limits)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, l := range layers {
		if err := u.Layer(t.Context(), bytes.NewReader(layerOf(t, l))); err != nil {
			return root, err
		}
	}
	return root, u.Finish()
}

// listing gives the tree as sorted lines of name, kind and content.
func listing(t testing.TB, root string) string {
	t.Helper()
	var lines []string
	filepath.Walk(root, func(p string, info os.FileInfo, err error) error { //nolint:errcheck // what is missing shows
		if err != nil || p == root {
			return nil
		}
		rel, _ := filepath.Rel(root, p)
		switch {
		case info.IsDir():
			rel += "/"
		case info.Mode()&os.ModeSymlink != 0:
			to, _ := os.Readlink(p)
			rel += " -> " + to
		case info.Mode().IsRegular():
			raw, _ := os.ReadFile(p)
			rel += " = " + string(raw)
		default:
			rel += " " + info.Mode().Type().String()
		}
		lines = append(lines, rel)
		return nil
	})
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func TestLayersAreFlattenedRight(t *testing.T) {
	testkit.AsRootToo(t)
	for _, c := range []struct {
		name   string
		layers [][]entry
		want   string
	}{
		{"a later file wins", [][]entry{{file("a", "1")}, {file("a", "2")}}, "a = 2"},
		{"whiteout of a file", [][]entry{{file("d/a", "1"), file("d/b", "1")}, {whiteoutOf("d", "a")}}, "d/\nd/b = 1"},
		{"whiteout of a directory", [][]entry{{file("d/e/a", "1"), file("d/b", "1")}, {whiteoutOf("d", "e")}}, "d/\nd/b = 1"},
		{"whiteout of a symlink leaves its target", [][]entry{{file("t/x", "1"), symlink("l", "t")}, {whiteoutOf("", "l")}}, "t/\nt/x = 1"},
		{"whiteout through a symlinked parent", [][]entry{{file("usr/lib/x", "1"), symlink("lib", "usr/lib")}, {whiteoutOf("lib", "x")}}, "lib -> usr/lib\nusr/\nusr/lib/"},
		{"opaque directory hides what was", [][]entry{{file("d/a", "1"), file("d/e/b", "1")}, {dir("d", 0o755), opaqueOf("d"), file("d/c", "2")}}, "d/\nd/c = 2"},
		{"opaque marker after its own files", [][]entry{{file("d/a", "1")}, {file("d/c", "2"), opaqueOf("d")}}, "d/\nd/c = 2"},
		{"file in place of a directory", [][]entry{{file("d/a", "1")}, {file("d", "2")}}, "d = 2"},
		{"directory in place of a file", [][]entry{{file("d", "1")}, {file("d/a", "2")}}, "d/\nd/a = 2"},
		{"directory in place of a symlink", [][]entry{{dir("x", 0o755), symlink("d", "x")}, {dir("d", 0o755), file("d/a", "2")}}, "d/\nd/a = 2\nx/"},
		{"hard link", [][]entry{{file("a", "1"), hardlink("b", "a")}}, "a = 1\nb = 1"},
		{"hard link to a lower layer's file", [][]entry{{file("a", "1")}, {hardlink("b", "a")}}, "a = 1\nb = 1"},
		{"hard link to a symlink", [][]entry{{symlink("a", "nowhere"), hardlink("b", "a")}}, "a -> nowhere\nb -> nowhere"},
		{"absolute link as a parent stays inside", [][]entry{{dir("run", 0o755), symlink("var/run", "/run")}, {file("var/run/x", "1")}}, "run/\nrun/x = 1\nvar/\nvar/run -> /run"},
		{"device nodes are left out", [][]entry{{special("dev/null", tar.TypeChar), special("dev/sda", tar.TypeBlock), file("a", "1")}}, "a = 1\ndev/"},
		{"device node in place of a file", [][]entry{{file("a", "1"), file("b", "1")}, {special("a", tar.TypeChar)}}, "b = 1"},
		{"fifo", [][]entry{{special("p", tar.TypeFifo)}}, "p p---------"},
		{"whiteout leaves what its own layer has", [][]entry{{file("d/a", "1"), file("d/b", "1")}, {file("d/a", "2"), whiteoutOf("", "d")}}, "d/\nd/a = 2"},
		{"whiteout before what its own layer has", [][]entry{{file("d/a", "1"), file("d/b", "1")}, {whiteoutOf("", "d"), file("d/a", "2")}}, "d/\nd/a = 2"},
		{"opaque marker leaves directories nobody declared", [][]entry{{file("d/a", "1"), file("d/e/old", "1")}, {file("d/e/f/new", "2"), opaqueOf("d")}}, "d/\nd/e/\nd/e/f/\nd/e/f/new = 2"},
		{"whiteout of what is not there", [][]entry{{file("a", "1")}, {whiteoutOf("no/such", "x"), whiteoutOf("a", "x"), opaqueOf("nothing")}}, "a = 1"},
		{"symlink in place of a directory", [][]entry{{file("d/a", "1"), dir("e", 0o755)}, {symlink("d", "e"), file("d/b", "2")}}, "d -> e\ne/\ne/b = 2"},
		{"hard link in place of a directory", [][]entry{{file("a", "1"), file("d/x", "1")}, {hardlink("d", "a")}}, "a = 1\nd = 1"},
		{"hard link to itself", [][]entry{{file("a", "1"), hardlink("a", "a")}}, "a = 1"},
		{"relative link up and down", [][]entry{{dir("a/b", 0o755), dir("c", 0o755), symlink("a/b/l", "../../c")}, {file("a/b/l/x", "1")}}, "a/\na/b/\na/b/l -> ../../c\nc/\nc/x = 1"},
		{"leading slash and dots", [][]entry{{file("/a", "1"), file("./b", "1"), file("c/../d", "1")}}, "a = 1\nb = 1\nd = 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := unpackAll(t, DefaultLimits(), c.layers...)
			if err != nil {
				t.Fatal(err)
			}
			if got := listing(t, root); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestPermissionsAreKept(t *testing.T) {
	testkit.AsRootToo(t)
	root, err := unpackAll(t, DefaultLimits(), []entry{
		dir("closed", 0o555), file("closed/in", "1"), dir("dark", 0o000), file("dark/in", "1"), dir("tmp", 0o1777),
		{name: "run", kind: tar.TypeReg, mode: 0o755},
		{name: "secret", kind: tar.TypeReg, mode: 0o000},
		{name: "noted", kind: tar.TypeReg, mode: 0o644, xattr: map[string]string{"user.note": "v", "user.overlay.opaque": "y", "security.capability": "x"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"closed": os.ModeDir | 0o555, "dark": os.ModeDir, "tmp": os.ModeDir | os.ModeSticky | 0o777, "run": 0o755, "secret": 0} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

// TestTheRootsMode: who is not root in a container has to enter its root, and most
// images say nothing of it.
func TestTheRootsMode(t *testing.T) {
	for name, c := range map[string]struct {
		layers [][]entry
		want   os.FileMode
	}{
		"not said":      {[][]entry{{file("a", "1")}}, 0o755},
		"said":          {[][]entry{{dir("./", 0o711), file("a", "1")}}, 0o711},
		"said by lower": {[][]entry{{dir("./", 0o711)}, {file("a", "1")}}, 0o711},
	} {
		root, err := unpackAll(t, DefaultLimits(), c.layers...)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(root); err != nil || info.Mode().Perm() != c.want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, c.want)
		}
	}
}

func TestHostileLayersStayInside(t *testing.T) {
	testkit.AsRootToo(t)
	for _, c := range []struct {
		name   string
		layers [][]entry
	}{
		{"dots", [][]entry{{file("../outside", "bad")}}},
		{"many dots", [][]entry{{file("a/../../../../../../outside", "bad")}}},
		{"symlink out, then through it", [][]entry{{symlink("l", ".."), file("l/outside", "bad")}}},
		{"absolute symlink, then through it", [][]entry{{symlink("l", "/tmp"), file("l/bee-test-bad", "bad")}}},
		{"symlink chain", [][]entry{{symlink("a", ".."), symlink("b", "a/.."), file("b/outside", "bad")}}},
		{"file over a symlink that leads out", [][]entry{{symlink("f", "../outside")}, {file("f", "bad")}}},
		{"hard link to outside", [][]entry{{hardlink("h", "../outside")}, {file("h", "bad")}}},
		{"hard link through a symlink", [][]entry{{symlink("l", ".."), hardlink("h", "l/outside")}, {file("h", "bad")}}},
		{"whiteout of outside", [][]entry{{symlink("l", "..")}, {whiteoutOf("l", "outside")}}},
		{"whiteout of dots", [][]entry{{file(".wh...", "")}}},
		{"opaque outside", [][]entry{{symlink("l", "..")}, {opaqueOf("l")}}},
		{"directory mode through a later symlink", [][]entry{{dir("d", 0o755), dir("d/e", 0o777)}, {symlink("d", "..")}, {dir("d/outside", 0o777)}}},
		{"hard link into what it replaces", [][]entry{{file("d/a", "1")}, {hardlink("d", "d/a")}}},
		{"links that go round", [][]entry{{symlink("a", "b"), symlink("b", "a"), file("a/x", "bad")}}},
		{"a very long path", [][]entry{{file(strings.Repeat("d/", 3000)+"f", "bad")}}},
		{"deep by links", [][]entry{{symlink("a", strings.Repeat("x/", 200)), symlink("b", "a/"+strings.Repeat("y/", 200)), file("b/f", "bad")}}},
		{"directory mode through a symlink", [][]entry{{symlink("l", "../outside")}, {dir("l", 0o777)}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root, err := unpackAll(t, DefaultLimits(), c.layers...)
			t.Logf("error: %v", err) // either is right, as long as nothing outside changes
			raw, rerr := os.ReadFile(filepath.Join(filepath.Dir(root), "outside"))
			info, serr := os.Stat(filepath.Join(filepath.Dir(root), "outside"))
			if rerr != nil || serr != nil || string(raw) != "safe" || info.Mode() != 0o644 {
				t.Errorf("the file outside was touched: %q, %v", raw, rerr)
			}
			if _, err := os.Stat("/tmp/bee-test-bad"); err == nil {
				os.Remove("/tmp/bee-test-bad")
				t.Error("a file was written to /tmp")
			}
			entries, _ := os.ReadDir(filepath.Dir(root))
			if len(entries) != 2 {
				t.Errorf("left beside the tree: %v", entries)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	for _, c := range []struct {
		name    string
		limits  Limits
		entries []entry
		says    string
		kind    core.Kind
	}{
		{"too many entries", Limits{Bytes: 1e9, Entries: 3}, []entry{file("a", ""), file("b", ""), file("c", ""), file("d", "")}, "3 entries", core.Invalid},
		{"too many bytes", Limits{Bytes: 10, Entries: 100}, []entry{file("a", "12345"), file("b", "1234567")}, "10 bytes", core.Invalid},
		{"no space left to spare", Limits{Bytes: 1e9, Entries: 100, Spare: 1 << 60}, []entry{file("a", strings.Repeat("x", 2<<20))}, "", core.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := unpackAll(t, c.limits, c.entries)
			if err == nil || !strings.Contains(err.Error(), c.says) || core.Remedy(err) == "" || core.KindOf(err) != c.kind {
				t.Errorf("got %v (%s), remedy %q", err, core.KindOf(err), core.Remedy(err))
			}
		})
	}
}

func TestDirectoriesKeepTheirTimes(t *testing.T) {
	when := time.Unix(1_600_000_000, 0)
	root, err := unpackAll(t, DefaultLimits(), []entry{{name: "d/", kind: tar.TypeDir, mode: 0o755, time: when}, {name: "d/f", kind: tar.TypeReg, mode: 0o644, time: when}, {name: "d/l", kind: tar.TypeSymlink, link: "f", time: when}},
		[]entry{{name: "d/g", kind: tar.TypeReg, mode: 0o644, time: when.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Time{"d": when, "d/f": when, "d/l": when, "d/g": when.Add(time.Hour)} {
		info, err := os.Lstat(filepath.Join(root, name))
		if err != nil || !info.ModTime().Equal(want) {
			t.Errorf("%s: %v, %v", name, info.ModTime(), err)
		}
	}
}

func TestAttributes(t *testing.T) {
	testkit.AsRootToo(t)
	root, err := unpackAll(t, DefaultLimits(), []entry{{
		name: "f", kind: tar.TypeReg, mode: 0o644,
		xattr: map[string]string{"user.note": "v", "user.overlay.opaque": "y", "trusted.overlay.opaque": "y", "security.selinux": "z"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	list := make([]byte, 1024)
	n, err := unix.Llistxattr(filepath.Join(root, "f"), list)
	if errors.Is(err, unix.ENOTSUP) {
		testkit.Missing(t, "attributes in %s", root)
	}
	if got := strings.Trim(string(list[:max(n, 0)]), "\x00"); err != nil || got != "user.note" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestUnusualFilesAreThoseWhoseNamesStay(t *testing.T) {
	testkit.AsRootToo(t)
	root := t.TempDir()
	u, err := New(root, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for _, l := range [][]entry{{file("a", "1"), {name: "secret", kind: tar.TypeReg, uid: 5}}, {{name: "a", kind: tar.TypeReg, mode: 0o600, uid: 1000}, file("secret", "")}} {
		if err := u.Layer(t.Context(), bytes.NewReader(layerOf(t, l))); err != nil {
			t.Fatal(err)
		}
	}
	if unusual := u.Unusual(); len(unusual) != 1 || unusual["a"].UID != 1000 || unusual["a"].Mode != nil {
		t.Errorf("got %+v", unusual)
	}
}

func TestStreamsOfAllKinds(t *testing.T) {
	raw := layerOf(t, []entry{file("a", strings.Repeat("some text ", 100_000))})
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
	var gz, two, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write(raw)
	g.Close()
	for _, half := range [][]byte{raw[:1000], raw[1000:]} { // pigz and estargz write several members
		g := gzip.NewWriter(&two)
		g.Write(half)
		g.Close()
	}
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(raw)
	z.Close()
	for _, c := range []struct {
		name string
		raw  []byte
		ok   bool
	}{
		{"plain", raw, true},
		{"gzip", gz.Bytes(), true},
		{"gzip of two members", two.Bytes(), true},
		{"zstd", zst.Bytes(), true},
		{"gzip cut", gz.Bytes()[:gz.Len()-5], false},
		{"zstd cut", zst.Bytes()[:zst.Len()-5], false},
		{"noise", []byte(strings.Repeat("noise", 1000)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := New(t.TempDir(), DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			got, err := u.Blob(t.Context(), io.NopCloser(bytes.NewReader(c.raw)))
			if (err == nil) != c.ok || c.ok && got != want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

func TestCutLayerIsAnError(t *testing.T) {
	raw := layerOf(t, []entry{file("a", strings.Repeat("x", 5000)), file("b", "1")})
	root := t.TempDir()
	u, err := New(root, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	err = u.Layer(t.Context(), bytes.NewReader(raw[:3000]))
	if err == nil {
		t.Error("a layer that was cut short was taken for whole")
	}
	// Else a transfer is given up before its digest shows that it was damaged.
	if ours, ok := errors.AsType[*core.Error](err); ok {
		t.Errorf("the blame is laid before the layer's digest is known: %+v", ours)
	}
}
