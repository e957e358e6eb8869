package fsutil

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTrim: a log of another program takes bounded disk, keeps its end, and grows on. A link
// in its place is not followed.
func TestTrim(t *testing.T) {
	const limit, keep = 1 << 20, 64 << 10
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // as QEMU does, without O_APPEND
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 64 {
		if _, err := f.Write(bytes.Repeat([]byte{byte('a' + i%26)}, 256<<10)); err != nil {
			t.Fatal(err)
		}
		if err := Trim(dir, "log", limit, keep); err != nil {
			t.Fatal(err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Blocks*512 > 2*limit {
			t.Fatalf("after %d pieces it takes %d bytes, %v", i+1, st.Blocks*512, err)
		}
		if end, err := Tail(dir, "log", 1); err != nil || string(end) != string(rune('a'+i%26)) {
			t.Fatalf("after %d pieces it ends with %q, %v", i+1, end, err)
		}
	}
	theirs := filepath.Join(dir, "theirs")
	if err := errors.Join(os.WriteFile(theirs, make([]byte, 2<<20), 0o600), os.Symlink(theirs, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	if err := Trim(dir, "link", limit, keep); err == nil {
		t.Error("a link is followed")
	}
}
