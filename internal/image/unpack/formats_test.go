package unpack

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/klauspost/compress/zstd"
)

// compressed runs a program that compresses its standard input.
func compressed(t *testing.T, raw []byte, argv ...string) []byte {
	t.Helper()
	testkit.RequireTool(t, argv[0])
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdin = bytes.NewReader(raw)
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func gzipped(raw []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

func zstandard(t *testing.T, raw []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(raw, nil)
}

// TestCompressionIsFoundByContent reads what layer compressors write in fact, and names
// what is not read.
func TestCompressionIsFoundByContent(t *testing.T) {
	raw := layerOf(t, []entry{file("a", strings.Repeat("some text ", 10_000))})
	want := fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
	skippable := func(kind byte) []byte { return []byte{0x50 | kind, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 'a', 'b', 'c', 'd'} }
	const whole = core.Kind(-1)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	xz, bz := compressed(t, raw, "xz", "-c"), compressed(t, raw, "bzip2", "-c")
	for _, c := range []struct {
		name string
		raw  []byte
		kind core.Kind // whole: it is read
	}{
		{"zstd behind a skippable frame", join(skippable(0), zstandard(t, raw)), whole},
		{"zstd behind two of them", join(skippable(15), skippable(3), zstandard(t, raw)), whole},
		{"zstd before a skippable frame", join(zstandard(t, raw), skippable(0)), whole},
		{"zstd in two frames", join(zstandard(t, raw[:1000]), skippable(7), zstandard(t, raw[1000:])), whole},
		{"gzip with an empty member", join(gzipped(nil), gzipped(raw), gzipped(nil)), whole},
		{"gzip before zeros", join(gzipped(raw), make([]byte, 5000)), whole},
		{"gzip before something else", join(gzipped(raw), make([]byte, 5000), []byte("x")), core.Permanent},
		{"xz", xz, whole},
		{"xz in two streams", join(compressed(t, raw[:1000], "xz", "-c"), compressed(t, raw[1000:], "xz", "-c")), whole},
		{"xz with a large dictionary", compressed(t, raw, "xz", "-c", "--lzma2=dict=192MiB"), whole},
		{"xz with a larger one than is taken", compressed(t, raw, "xz", "-c", "--lzma2=dict=512MiB"), core.Permanent},
		{"xz cut", xz[:len(xz)-5], core.Permanent},
		{"bzip2", bz, whole},
		{"bzip2 cut", bz[:len(bz)-5], core.Permanent},
		{"lz4", []byte("\x04\x22\x4d\x18 and more"), core.Unsupported},
		{"nothing", nil, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := New(t.TempDir(), DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			got, err := u.Blob(t.Context(), io.NopCloser(bytes.NewReader(c.raw)))
			if c.kind == whole && (err != nil || c.raw != nil && got != want) || c.kind != whole && (err == nil || core.KindOf(err) != c.kind) {
				t.Errorf("got %s, %v (%s)", got, err, core.KindOf(err))
			}
		})
	}
}

// sparseLayer is the tar stream of one file of zeros, as builders write a lastlog.
func sparseLayer(t *testing.T, name string, size int64) io.Reader {
	t.Helper()
	var head bytes.Buffer
	w := tar.NewWriter(&head)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: size, Format: tar.FormatPAX}); err != nil {
		t.Fatal(err)
	}
	return io.MultiReader(&head, io.LimitReader(nothing{}, size), io.LimitReader(nothing{}, 1024+(512-size%512)%512))
}

type nothing struct{}

func (nothing) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// TestZerosAreNoBomb: they compress without bound, and take no space.
func TestZerosAreNoBomb(t *testing.T) {
	const size = 300 << 20
	for name, compress := range map[string]func(w io.Writer) (io.WriteCloser, error){
		"gzip": func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"zstd": func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	} {
		t.Run(name, func(t *testing.T) {
			var packed bytes.Buffer
			z, err := compress(&packed)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(z, sparseLayer(t, "lastlog", size)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			root := t.TempDir()
			u, err := New(root, Limits{Bytes: 4 << 20, Entries: 10, Ratio: 500, RatioFrom: 16 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer u.Close()
			if _, err := u.Blob(t.Context(), io.NopCloser(bytes.NewReader(packed.Bytes()))); err != nil {
				t.Fatal(err)
			}
			var st syscall.Stat_t
			if err := syscall.Stat(filepath.Join(root, "lastlog"), &st); err != nil || st.Size != size || st.Blocks*512 > 1<<20 {
				t.Errorf("it takes %d bytes of %d, %v", st.Blocks*512, st.Size, err)
			}
			to, err := os.CreateTemp(t.TempDir(), "copy")
			if err != nil {
				t.Fatal(err)
			}
			defer to.Close()
			if err := Copy(to, sparseLayer(t, "lastlog", size), Limits{Bytes: 4 << 20}); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Fstat(int(to.Fd()), &st); err != nil || st.Size < size || st.Blocks*512 > 4<<20 {
				t.Errorf("its archive takes %d bytes of %d, %v", st.Blocks*512, st.Size, err)
			}
		})
	}
	t.Run("without end", func(t *testing.T) {
		u, err := New(t.TempDir(), Limits{Bytes: 1 << 20, Entries: 10})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		if err := u.Layer(t.Context(), sparseLayer(t, "zeros", 200<<20)); core.KindOf(err) != core.Invalid {
			t.Errorf("got %v", err)
		}
	})
}

// TestHardLinksBeyondTheFileSystemsLimit continue with a copy.
func TestHardLinksBeyondTheFileSystemsLimit(t *testing.T) {
	root := t.TempDir()
	u, err := New(root, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if err := u.Layer(t.Context(), bytes.NewReader(layerOf(t, []entry{file("f", "text"), {name: "s", kind: tar.TypeReg, mode: 0o4755, uid: 7, data: "x"}}))); err != nil {
		t.Fatal(err)
	}
	for n, source := range []string{"f", "f", "s", "f"} {
		name := fmt.Sprint("link", n)
		if err := u.linkCopy(source, u.dirs.root(), source, u.dirs.root(), name, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.Finish(); err != nil {
		t.Fatal(err)
	}
	number := func(name string) uint64 {
		var st syscall.Stat_t
		if err := syscall.Stat(filepath.Join(root, name), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	if number("link0") == number("f") || number("link0") != number("link1") || number("link0") != number("link3") {
		t.Error("later links are not to the copy")
	}
	if info, err := os.Stat(filepath.Join(root, "link2")); err != nil || info.Mode() != os.ModeSetuid|0o755 || u.Unusual()["link2"].UID != 7 {
		t.Errorf("got %v, %v, %v", info, err, u.Unusual()["link2"])
	}
}

// TestAufsKeepsItsOwnFiles: no other engine shows them.
func TestAufsKeepsItsOwnFiles(t *testing.T) {
	root, err := unpackAll(t, DefaultLimits(), []entry{
		dir(".wh..wh.plnk", 0o700), file(".wh..wh.plnk/12.34", "P"), hardlink("plnk", ".wh..wh.plnk/12.34"), file(".wh..wh.aufs", ""), dir(".wh..wh.orph", 0o700),
		file("k.wh.file", "2"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := listing(t, root), "k.wh.file = 2\nplnk = P"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// FuzzDecompress wants an end of whatever claims to be compressed.
func FuzzDecompress(f *testing.F) {
	f.Add([]byte("\xfd7zXZ\x00\x00\x04"))
	f.Add([]byte("BZh91AY&SY"))
	f.Add(append(gzipped([]byte("x")), 0, 0))
	f.Add([]byte{0x50, 0x2a, 0x4d, 0x18, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, _, err := Decompress(bytes.NewReader(raw), Limits{Ratio: 1100, RatioFrom: 1 << 20})
		if err != nil {
			return
		}
		defer r.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for n := 0; n < 1000 && ctx.Err() == nil; n++ {
			if _, err := io.CopyN(io.Discard, r, 64<<10); err != nil {
				return
			}
		}
	})
}
