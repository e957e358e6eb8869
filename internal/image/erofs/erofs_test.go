package erofs

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

func stream(t testing.TB, members ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			io.WriteString(w, strings.Repeat("x", int(h.Size)))
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func image(t testing.TB, raw []byte) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestOthersReadIt holds the images against the file system's own tools.
func TestOthersReadIt(t *testing.T) {
	fsck := testkit.RequireTool(t, "fsck.erofs")
	when := time.Unix(1700000000, 0)
	members := []tar.Header{
		{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: when},
		{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "bin/su", Mode: 0o4755, Size: 10000, ModTime: when, PAXRecords: map[string]string{"SCHILY.xattr.user.note": "hello", "SCHILY.xattr.security.capability": "\x01\x00\x00\x02"}},
		{Typeflag: tar.TypeLink, Name: "bin/su2", Linkname: "bin/su", ModTime: when},
		{Typeflag: tar.TypeSymlink, Name: "sh", Linkname: "bin/su", Mode: 0o777, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "empty", Mode: 0, Uid: 7, Gid: 8, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "block", Mode: 0o644, Size: 4096, ModTime: when},
		{Typeflag: tar.TypeFifo, Name: "fifo", Mode: 0o600, ModTime: when},
		{Typeflag: tar.TypeReg, Name: "not/named/before", Mode: 0o644, Size: 3, ModTime: when},
	}
	for i := range 3000 { // several blocks of entries
		members = append(members, tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("many/file-%05d-%s", i, strings.Repeat("n", i%200)), Mode: 0o644, Size: int64(i % 5), ModTime: when})
	}
	raw := stream(t, members...)
	file := image(t, raw)
	out := filepath.Join(t.TempDir(), "out")
	printed, err := exec.Command(fsck, "--extract="+out, "--no-preserve-owner", "--preserve-perms", file).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	for _, m := range members {
		info, err := os.Lstat(filepath.Join(out, m.Name))
		if err != nil {
			t.Error(err)
			continue
		}
		if m.Typeflag == tar.TypeReg && info.Size() != m.Size || m.Typeflag == tar.TypeReg && int64(info.Mode().Perm()) != m.Mode&0o777 || !info.ModTime().Equal(when) && m.Typeflag == tar.TypeReg {
			t.Errorf("%s: %v, %d bytes, of %v", m.Name, info.Mode(), info.Size(), info.ModTime())
		}
	}
	if data, err := os.ReadFile(filepath.Join(out, "bin/su2")); err != nil || string(data) != strings.Repeat("x", 10000) {
		t.Errorf("a hard link has %d bytes, %v", len(data), err)
	}
	if to, err := os.Readlink(filepath.Join(out, "sh")); err != nil || to != "bin/su" {
		t.Errorf("a link leads to %q, %v", to, err)
	}
}

func TestRefused(t *testing.T) {
	for name, members := range map[string][]tar.Header{
		"a link to nothing":     {{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}},
		"a link to a directory": {{Typeflag: tar.TypeDir, Name: "d/"}, {Typeflag: tar.TypeLink, Name: "a", Linkname: "d"}},
		"below a file":          {{Typeflag: tar.TypeReg, Name: "f"}, {Typeflag: tar.TypeReg, Name: "f/g"}},
		"no type":               {{Typeflag: 'Z', Name: "f"}},
	} {
		f, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(f, bytes.NewReader(stream(t, members...))); err == nil {
			t.Errorf("%s is taken", name)
		}
		f.Close()
	}
}

func FuzzWrite(f *testing.F) {
	f.Add(stream(f, tar.Header{Typeflag: tar.TypeReg, Name: "a/b", Size: 5}, tar.Header{Typeflag: tar.TypeSymlink, Name: "c", Linkname: "a"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := os.Create(filepath.Join(t.TempDir(), "image"))
		if err != nil {
			t.Fatal(err)
		}
		defer out.Close()
		Write(out, bytes.NewReader(raw)) //nolint:errcheck // it must end, no more
	})
}
