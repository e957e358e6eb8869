package inside

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCold drops a real file from memory. That of a file system in memory stays.
func TestCold(t *testing.T) {
	const size = 3<<20 + 5
	measured := func(dir string) Cold {
		t.Helper()
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, bytes.Repeat([]byte{7}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := writeCold(&out, []string{file}); err != nil {
			t.Fatal(err)
		}
		var found map[string]Cold
		if err := json.Unmarshal(out.Bytes(), &found); err != nil {
			t.Fatal(err)
		}
		c := found[ColdKey]
		if c.Bytes != size || c.Memory <= size || c.Boot == "" {
			t.Errorf("of a file of %d bytes: %+v", size, c)
		}
		c.Bytes, c.Memory, c.Boot = 0, 0, ""
		return c
	}
	pages := int64(size/os.Getpagesize() + 1)
	dir := t.TempDir()
	if isTmpfs(t, dir) {
		t.Log("files of tests are in memory here")
	} else {
		if got := measured(dir); got != (Cold{Files: 1, Pages: pages}) {
			t.Errorf("of a file on a disk, %+v, expected none of %d pages in memory", got, pages)
		}
		f, err := os.Open(filepath.Join(dir, "file"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.ReadAt(make([]byte, 1), 0); err != nil || inMemory(f, size) == 0 {
			t.Errorf("a page that was read just now is not found in memory (%v)", err)
		}
	}
	if isTmpfs(t, "/dev/shm") {
		memory, err := os.MkdirTemp("/dev/shm", "bee-cold-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(memory)
		if got := measured(memory); got != (Cold{Files: 1, Pages: pages, InMemory: pages}) {
			t.Errorf("of a file in memory, %+v, expected all of %d pages there", got, pages)
		}
	}
	for _, wrong := range []string{dir, filepath.Join(dir, "absent")} {
		if err := writeCold(&bytes.Buffer{}, []string{wrong}); err == nil {
			t.Errorf("%s is dropped from memory", wrong)
		}
	}
}

func isTmpfs(t *testing.T, dir string) bool {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC
}
