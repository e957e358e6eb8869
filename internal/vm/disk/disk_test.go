package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/fat32"
	"github.com/diskfs/go-diskfs/partition/gpt"
)

// parts makes the files of a guest image.
func parts(t *testing.T, root string) Parts {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "modules"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"vmlinuz": "kernel", "loader.efi": "loader", "root.sqfs": root, "modules/10-x.ko": "module", "bee": "bee"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Parts{Guest: dir, Binary: filepath.Join(dir, "bee"), Arch: "amd64"}
}

// TestWrite: a disk has the partitions by which its machine finds them, files that the firmware and the loader read, and
// the root file system. Firmware that is strict about FAT32 takes the first: by its number of clusters it is one.
func TestWrite(t *testing.T) {
	root := strings.Repeat("root", 1<<19)
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Write(f, parts(t, root)); err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gpt.Read(file.New(f, true), sector, sector)
	if err != nil || len(table.Partitions) != 3 {
		t.Fatalf("%+v, %v", table, err)
	}
	if err := table.Verify(file.New(f, true), uint64(info.Size())); err != nil {
		t.Error(err)
	}
	boot, middle, data := table.Partitions[0], table.Partitions[1], table.Partitions[2]
	if boot.Type != gpt.EFISystemPartition || middle.Name != api.RootPartition || data.Name != api.DataPartition || data.End > table.LastDataSector() {
		t.Errorf("the partitions are %+v, %+v, %+v", boot, middle, data)
	}
	got := make([]byte, len(root))
	if _, err := f.ReadAt(got, int64(middle.Start)*sector); err != nil || string(got) != root {
		t.Errorf("the root file system differs: %v", err)
	}
	files, err := fat32.Read(file.New(f, true), int64(boot.Size), int64(boot.Start)*sector, sector)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/EFI/BOOT/BOOTX64.EFI": "loader", "/vmlinuz": "kernel", "/loader/entries/bee.conf": "linux /vmlinuz\n"} {
		if got, err := files.ReadFile(name); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	head := make([]byte, sector)
	if _, err := f.ReadAt(head, int64(boot.Start)*sector); err != nil {
		t.Fatal(err)
	}
	sectors, tables, each := binary.LittleEndian.Uint32(head[32:]), uint32(head[16]), binary.LittleEndian.Uint32(head[36:])
	if clusters := (sectors - uint32(binary.LittleEndian.Uint16(head[14:])) - tables*each) / uint32(head[13]); clusters < 65525 || each*sector/4 < clusters+2 {
		t.Errorf("with %d clusters, and tables of %d sectors, it is no FAT32", clusters, each)
	}
}

// TestFATSize: of partitions of all sizes, the file system is at most some sectors smaller.
func TestFATSize(t *testing.T) {
	for size := int64(leastBoot); size < 600*unit; size += unit {
		if lost := size - fatSize(size); lost < 0 || lost > 64*sector {
			t.Errorf("of %d bytes %d are lost", size, lost)
		}
	}
}

// TestStore: equal disks have equal ids and one file, and a disk goes with its last name.
func TestStore(t *testing.T) {
	s := Open(t.TempDir())
	add := func(name, root string) Disk {
		t.Helper()
		d, err := s.Add(t.Context(), Disk{Name: name, Arch: "amd64"}, func(f *os.File) error { return Write(f, parts(t, root)) })
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	there := func(d Disk) bool {
		_, err := os.Stat(s.Path(d))
		return err == nil
	}
	one, two, other := add("one", "same"), add("two", "same"), add("other", "else")
	if one.ID != two.ID || one.ID == other.ID || one.Size == 0 {
		t.Errorf("ids: %s, %s, %s", one.ID, two.ID, other.ID)
	}
	again := add("one", "else")
	if again.ID != other.ID || !there(two) {
		t.Errorf("built again it is %s; the other name's disk is there: %v", again.ID, there(two))
	}
	if list, err := s.List(); err != nil || len(list) != 3 || list[0].Name != "one" || list[1].Name != "other" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, name := range []string{"two", "one"} {
		if err := s.Remove(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if there(two) || !there(other) {
		t.Errorf("without a name it is there: %v; with one: %v", there(two), there(other))
	}
	if err := s.Remove(t.Context(), "one"); !core.IsKind(err, core.NotFound) {
		t.Errorf("removed twice: %v", err)
	}
	failed := errors.New("full")
	if _, err := s.Add(t.Context(), Disk{Name: "broken"}, func(f *os.File) error { f.WriteString("x"); return failed }); !errors.Is(err, failed) {
		t.Errorf("%v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.Path(other)), "new*")); err != nil || len(left) > 0 {
		t.Errorf("a failed disk leaves %q", left)
	}
}

// TestAddFails: where a disk gets no place, the name keeps the one that it had.
func TestAddFails(t *testing.T) {
	s := Open(t.TempDir())
	add := func(text string) (Disk, error) {
		return s.Add(t.Context(), Disk{Name: "a"}, func(f *os.File) error { _, err := f.WriteString(text); return err })
	}
	before, err := add("one")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("two"))
	inTheWay := s.Path(Disk{ID: "sha256:" + hex.EncodeToString(sum[:])})
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if d, err := add("two"); err == nil {
		t.Errorf("it is %+v", d)
	}
	if d, err := s.Get("a"); err != nil || d != before {
		t.Errorf("the name has %+v, %v", d, err)
	}
}

// TestClean: a disk whose record was never written goes with the next change, unless a record cannot be read.
func TestClean(t *testing.T) {
	s := Open(t.TempDir())
	left, other, broken := s.Path(Disk{ID: strings.Repeat("a", 64)}), filepath.Join(s.dir, "notes.raw"), s.record("broken")
	leave := func() {
		t.Helper()
		if err := errors.Join(os.MkdirAll(s.dir, 0o700), os.WriteFile(left, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	add := func(name string) error {
		_, err := s.Add(t.Context(), Disk{Name: name}, func(f *os.File) error { _, err := f.WriteString(name); return err })
		return err
	}
	for name, c := range map[string]struct {
		record string
		change func() error
		goes   bool
	}{
		"add":                         {"", func() error { return add("a") }, true},
		"remove":                      {"", func() error { return errors.Join(add("b"), s.Remove(t.Context(), "b")) }, true},
		"add beside a bad record":     {"{", func() error { return add("c") }, false},
		"remove beside a bad record":  {"{", func() error { return errors.Join(add("d"), s.Remove(t.Context(), "d")) }, false},
		"what is none of ours stands": {"", func() error { return errors.Join(os.WriteFile(other, nil, 0o600), add("e")) }, true},
	} {
		leave()
		if c.record != "" {
			if err := os.WriteFile(broken, []byte(c.record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.change(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(left); errors.Is(err, os.ErrNotExist) != c.goes {
			t.Errorf("%s: %v", name, err)
		}
		fsutil.TryRemove(broken)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

// TestNames refuses names that are paths, and records that another file stands for.
func TestNames(t *testing.T) {
	s := Open(t.TempDir())
	for _, name := range []string{"", "../x", "a/b", "A", strings.Repeat("a", 64), "-a"} {
		if _, err := s.Get(name); !core.IsKind(err, core.Invalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := s.Add(t.Context(), Disk{Name: "a"}, func(f *os.File) error { _, err := f.Write(bytes.Repeat([]byte("x"), 512)); return err }); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"b": `{"name": "a", "id": "sha256:00"}`, "c": `{"name": "c", "id": "sha256:../../x"}`, "d": "{"} {
		if err := os.WriteFile(s.record(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Get(name); !core.IsKind(err, core.Permanent) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
