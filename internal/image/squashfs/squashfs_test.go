package squashfs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// pack makes a file system of a tree by the real mksquashfs.
func pack(t testing.TB, dir string, options ...string) []byte {
	t.Helper()
	testkit.RequireTool(t, "mksquashfs")
	file := filepath.Join(t.TempDir(), "part")
	if out, err := exec.Command("mksquashfs", append([]string{dir, file, "-no-progress", "-quiet"}, options...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// content is what blocks of all kinds are made of: text that compresses well, noise that
// does not, repetitions near and far, and a hole.
func content(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	for b.Len() < size {
		switch random.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "step %d of %d\n", random.IntN(1000), random.IntN(1000))
		case 1:
			for range random.IntN(2000) {
				b.WriteByte(byte(random.Uint32()))
			}
		case 2:
			b.Write(make([]byte, random.IntN(70_000)))
		case 3:
			b.WriteString(strings.Repeat(string(rune('a'+random.IntN(26))), random.IntN(3000)))
		default:
			if b.Len() > 0 {
				from := random.IntN(b.Len())
				b.Write(bytes.Clone(b.Bytes()[from:min(b.Len(), from+random.IntN(1000))]))
			}
		}
	}
	return b.Bytes()[:size]
}

func tree(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "root")
	for name, data := range map[string][]byte{
		"sub/large": content(1_500_000), "small": content(100), "empty": nil, "holes": append(make([]byte, 3<<20), 'x'), "even": content(256 << 10),
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, data, 0o640)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "many"), 0o755), os.Symlink("small", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for n := range 1000 { // names of one file, as git and conda install them
		if err := os.Link(filepath.Join(dir, "small"), filepath.Join(dir, "many", fmt.Sprintf("%0100d", n))); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestEveryCompression reads what mksquashfs packed by each method: files of every form
// have the same bytes, and names of one file lead to the first.
func TestEveryCompression(t *testing.T) {
	dir := tree(t)
	for _, options := range []string{
		"-comp gzip", "-comp xz", "-comp xz -Xbcj x86", "-comp zstd", "-comp lz4", "-comp lz4 -Xhc -b 1M",
		"-comp lzo", "-comp lzo -b 1M", "-comp lzo -Xalgorithm lzo1x_1", "-comp lzo -Xalgorithm lzo1x_1_11", "-comp lzo -Xalgorithm lzo1x_1_12", "-comp lzo -Xalgorithm lzo1x_1_15",
		"-noI -noD -noF", "-no-fragments", "-always-use-fragments", "-b 4096", "-comp zstd -b 1M",
	} {
		t.Run(options, func(t *testing.T) {
			raw := pack(t, dir, strings.Fields(options)...)
			s, err := Open(bytes.NewReader(raw), int64(len(raw)))
			if err != nil {
				t.Fatal(err)
			}
			links, files := 0, 0
			err = s.Walk(func(f *File) error {
				files++
				info, err := os.Lstat(filepath.Join(dir, f.Path))
				if err != nil || info.Mode() != f.Mode || int(f.UID) != os.Getuid() {
					t.Errorf("%s: %v, %v, %d, not %v", f.Path, err, f.Mode, f.UID, info.Mode())
				}
				if f.Link != "" {
					links++
					return nil
				}
				if !f.Mode.IsRegular() {
					return nil
				}
				want, err := os.ReadFile(filepath.Join(dir, f.Path))
				if err != nil {
					return err
				}
				var got bytes.Buffer
				if err := s.Copy(&got, f); err != nil || !bytes.Equal(got.Bytes(), want) {
					t.Errorf("%s: %v, %d bytes, not %d", f.Path, err, got.Len(), len(want))
				}
				return nil
			})
			if err != nil || links != 1000 || files != 1008 {
				t.Errorf("%v, %d links, %d files", err, links, files)
			}
		})
	}
}

// TestBlocksHaveBounds gives each method a block that becomes more than the file system
// allows: no more than that is written.
func TestBlocksHaveBounds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "zeros"), append(bytes.Repeat([]byte("01234567"), 64<<10), 'x'), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{"gzip", "xz", "zstd", "lz4", "lzo"} {
		raw := pack(t, dir, "-comp", method, "-b", "512K")
		s, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			t.Fatal(err)
		}
		err = s.Walk(func(f *File) error {
			var word [4]byte
			if err := f.inode.blocks.read(word[:]); err != nil {
				return err
			}
			packed := raw[f.inode.start:][:binary.LittleEndian.Uint32(word[:])]
			whole := make([]byte, 512<<10)
			if n, err := s.decompress(whole, packed); err != nil || n != len(whole) {
				t.Errorf("%s: %d, %v", method, n, err)
			}
			short := make([]byte, 4<<10)
			if n, err := s.decompress(short[:1<<10], packed); err == nil || n > 1<<10 || bytes.ContainsAny(short[1<<10:], "01234567") {
				t.Errorf("%s: %d bytes became of a block of 1024, %v", method, n, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzRead reads whatever is called a file system. An error is as good an answer as none.
func FuzzRead(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "root")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "a"), bytes.Repeat([]byte("abc"), 3000), 0o644), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")), os.Symlink("a", filepath.Join(dir, "c"))); err != nil {
		f.Fatal(err)
	}
	for _, method := range []string{"gzip", "xz", "zstd", "lz4", "lzo"} {
		f.Add(pack(f, dir, "-comp", method, "-b", "4K", "-nopad", "-noI"))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := Open(bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return
		}
		files := 0
		enough := errors.New("enough")
		s.Walk(func(f *File) error { //nolint:errcheck // whatever it is
			if files++; files > 1000 {
				return enough
			}
			if strings.HasPrefix(f.Path, "/") || strings.Contains("/"+f.Path+"/", "/../") {
				t.Errorf("a file is called %q", f.Path)
			}
			if !f.Mode.IsRegular() || f.Link != "" {
				return nil
			}
			s.Copy(&limited{1 << 20}, f) // whatever it is
			return nil
		})
	})
}

// limited takes some bytes, as the cache does.
type limited struct{ left int }

func (l *limited) Write(b []byte) (int, error) {
	if l.left -= len(b); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(b), nil
}

// FuzzDecompress gives blocks to each method: no more is written than fits.
func FuzzDecompress(f *testing.F) {
	for method := range uint16(7) {
		f.Add(method, []byte{0x12, 'a', 0x11, 0, 0})
		f.Add(method, []byte{0x1f, 'a', 'b', 'c', 'd', 1, 0, 0})
		f.Add(method, []byte{0, 0, 0, 0, 0, 0, 0xff, 0xff})
	}
	f.Fuzz(func(t *testing.T, method uint16, raw []byte) {
		d, err := newDecompressor(method)
		if err != nil {
			return
		}
		b := bytes.Repeat([]byte{0xa5}, 8<<10)
		n, _ := d(b[:4<<10:4<<10], raw)
		if n > 4<<10 || !bytes.Equal(b[4<<10:], bytes.Repeat([]byte{0xa5}, 4<<10)) {
			t.Errorf("%d bytes were written to 4096", n)
		}
	})
}
