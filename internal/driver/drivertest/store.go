package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// StoreSuite is what the conformance suite for stores needs to know.
type StoreSuite struct {
	// New gives an empty place, and the directory of this machine in whose files
	// it keeps what it holds.
	New func(t testing.TB) (driver.Store, string)
}

// Run runs all of it.
func (s StoreSuite) Run(t *testing.T) {
	t.Run("what is kept comes back as it was", s.roundTrip)
	t.Run("the last two are kept", s.generations)
	t.Run("damage is found, and the one before is good", s.damage)
	t.Run("what was cut short counts for nothing and goes on", s.cut)
	t.Run("runs are apart, and go one by one", s.runs)
	t.Run("a shared directory takes marks and nothing else", s.marks)
}

// volume makes a tree with everything that a checkpoint has to keep.
func volume(t *testing.T, size int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "volume")
	check(t, os.MkdirAll(filepath.Join(dir, "sub", "empty"), 0o750))
	Write(t, filepath.Join(dir, "sub", "state"), size, 1)
	check(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("for me"), 0o400))
	check(t, os.Symlink("sub/state", filepath.Join(dir, "link")))
	check(t, os.Link(filepath.Join(dir, "secret"), filepath.Join(dir, "second name")))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	check(t, err)
	_, err = f.WriteAt([]byte("the end"), 64<<20)
	check(t, errors.Join(err, f.Close()))
	if err := unix.Setxattr(filepath.Join(dir, "sub", "state"), "user.bee", []byte("kept"), 0); err != nil {
		t.Logf("this file system has no attributes: %v", err)
	}
	return dir
}

func (s StoreSuite) roundTrip(t *testing.T) {
	place, _ := s.New(t)
	store, dir := place.Run("u@one"), volume(t, 40<<20)
	begin(t, store)
	m, made, err := store.Keep(t.Context(), driver.Generation{Attempt: 1}, "here", tree(dir))
	if err != nil || !made || m.Attempt != 1 || m.Site != "here" || m.Bytes < 40<<20 || len(m.Files) != 5 {
		t.Fatalf("kept %d files, %d bytes, %v, %v", len(m.Files), m.Bytes, made, err)
	}
	if _, made, err := store.Keep(t.Context(), driver.Generation{Attempt: 1}, "here", tree(dir)); err != nil || made {
		t.Errorf("kept again: %v, %v", made, err)
	}
	to := filepath.Join(t.TempDir(), "back")
	list := whole(t, store, 1)
	check(t, store.Restore(t.Context(), list[0], tree(to)))
	sameTree(t, dir, to)
	// And over a copy that is there already.
	Write(t, filepath.Join(to, "sub", "state"), 30<<20, 7)
	check(t, store.Restore(t.Context(), list[0], tree(to)))
	sameTree(t, dir, to)
	var st unix.Stat_t
	check(t, unix.Stat(filepath.Join(to, "sparse"), &st))
	if st.Blocks*512 > 8<<20 {
		t.Errorf("the sparse file takes %d bytes", st.Blocks*512)
	}
}

func (s StoreSuite) generations(t *testing.T) {
	place, _ := s.New(t)
	store, dir := place.Run("u@one"), volume(t, 1<<20)
	begin(t, store)
	for i, g := range []driver.Generation{{Attempt: 1, Snapshot: 1}, {Attempt: 1}, {Attempt: 2, Snapshot: 1}, {Attempt: 2, Snapshot: 2}} {
		Write(t, filepath.Join(dir, "sub", "state"), 1<<20, byte(i))
		m, _, err := store.Keep(t.Context(), g, "here", tree(dir))
		if err != nil || m.Files["sub/state"] == "" || i > 0 && m.Files["secret"] == "" {
			t.Fatalf("%v: %v", g, err)
		}
	}
	list := whole(t, store, 2)
	if list[0].Generation != (driver.Generation{Attempt: 1}) || list[1].Generation != (driver.Generation{Attempt: 2, Snapshot: 2}) {
		t.Errorf("kept %v", list)
	}
	if list[0].Manifest.Files["secret"] != list[1].Manifest.Files["secret"] || list[0].Manifest.Files["sub/state"] == list[1].Manifest.Files["sub/state"] {
		t.Error("digests do not tell what has changed")
	}
}

func (s StoreSuite) damage(t *testing.T) {
	for name, harm := range map[string]func(string) error{"bit flipped": Flip, "gone": os.Remove} {
		t.Run(name, func(t *testing.T) {
			place, files := s.New(t)
			store, dir := place.Run("u@one"), volume(t, 1<<20)
			begin(t, store)
			_, _, err := store.Keep(t.Context(), driver.Generation{Attempt: 1}, "here", tree(dir))
			check(t, err)
			first := filepath.Join(t.TempDir(), "first")
			check(t, store.Restore(t.Context(), whole(t, store, 1)[0], tree(first)))
			before := Files(t, files)
			Write(t, filepath.Join(dir, "sub", "state"), 2<<20, 9)
			_, _, err = store.Keep(t.Context(), driver.Generation{Attempt: 2}, "here", tree(dir))
			check(t, err)
			check(t, harm(Largest(t, files, before)))
			list, to := whole(t, store, 2), filepath.Join(t.TempDir(), "back")
			// Check may leave the content to Restore, where that compares all of it.
			if err := store.Check(t.Context(), list[1]); !errors.Is(err, driver.ErrDamaged) && (err != nil || !place.ChecksContent()) {
				t.Errorf("the damaged one is checked: %v", err)
			}
			check(t, store.Check(t.Context(), list[0]))
			check(t, os.MkdirAll(filepath.Join(to, "as it was"), 0o700))
			if err := store.Restore(t.Context(), list[1], tree(to)); !errors.Is(err, driver.ErrDamaged) {
				t.Errorf("the damaged one: %v", err)
			}
			if _, err := os.Stat(filepath.Join(to, "as it was")); err != nil {
				t.Error("the damaged one has touched what was there")
			}
			check(t, store.Restore(t.Context(), list[0], tree(to)))
			sameTree(t, first, to)
		})
	}
}

// counted is a tree of which what travels is counted, and only so much comes.
type counted struct {
	tree
	most  int64
	torn  bool
	moved *int64
}

func (s counted) Fetch(ctx context.Context, to, before string) error {
	if s.torn {
		return errors.New("the way broke")
	}
	return s.tree.Fetch(ctx, to, before)
}

func (s counted) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := s.tree.Send(ctx)
	return struct {
		io.Reader
		io.Writer
		io.Closer
	}{io.TeeReader(io.LimitReader(c, s.most), s), c, c}, err
}

func (s counted) Write(b []byte) (int, error) {
	*s.moved += int64(len(b))
	return len(b), nil
}

func (s StoreSuite) cut(t *testing.T) {
	place, _ := s.New(t)
	store, dir := place.Run("u@one"), volume(t, 40<<20)
	begin(t, store)
	var moved int64
	for _, most := range []int64{1 << 10, 20<<20 + 12345} {
		if _, _, err := store.Keep(t.Context(), driver.Generation{Attempt: 1}, "here", counted{tree(dir), most, true, &moved}); err == nil {
			t.Fatal("half a tree was kept")
		}
		whole(t, store, 0)
	}
	moved = 0
	_, made, err := store.Keep(t.Context(), driver.Generation{Attempt: 1}, "here", counted{tree(dir), 1 << 40, false, &moved})
	if err != nil || !made || moved > 36<<20 {
		t.Fatalf("made %v, %v; %d bytes came anew", made, err, moved)
	}
	Write(t, filepath.Join(dir, "more"), 1<<20, 3)
	moved = 0
	_, _, err = store.Keep(t.Context(), driver.Generation{Attempt: 2}, "here", counted{tree(dir), 1 << 40, false, &moved})
	if err != nil || moved > 5<<20 {
		t.Errorf("%v; %d bytes came for one new MiB", err, moved)
	}
	to := filepath.Join(t.TempDir(), "back")
	check(t, store.Restore(t.Context(), whole(t, store, 2)[1], tree(to)))
	sameTree(t, dir, to)
}

func (s StoreSuite) runs(t *testing.T) {
	place, files := s.New(t)
	dir, empty := volume(t, 1<<20), Files(t, files)
	for _, name := range []string{"u@one", "u@two"} {
		if raw, err := place.Run(name).Noted(t.Context()); err != nil || raw != nil {
			t.Errorf("before it is there: %q, %v", raw, err)
		}
		begin(t, place.Run(name))
		_, _, err := place.Run(name).Keep(t.Context(), driver.Generation{Attempt: 1}, name, tree(dir))
		check(t, err)
		check(t, place.Run(name).Note(t.Context(), []byte(name)))
	}
	for _, left := range [][]string{{"u@one", "u@two"}, {"u@two"}, {}} {
		got, err := place.Runs(t.Context())
		if err != nil || len(got) != len(left) {
			t.Fatalf("%v, %v; want %v", got, err, left)
		}
		for i, name := range left {
			if raw, err := place.Run(name).Noted(t.Context()); got[i] != name || err != nil || string(raw) != name {
				t.Errorf("%s: %q, %v", got[i], raw, err)
			}
			whole(t, place.Run(name), 1)
		}
		if len(left) > 0 {
			check(t, place.Run(left[0]).Remove(t.Context()))
			check(t, place.Run(left[0]).Remove(t.Context())) // gone is success
		}
	}
	for name := range Files(t, files) {
		if _, was := empty[name]; !was {
			t.Errorf("left: %s", name)
		}
	}
}

func begin(t *testing.T, store driver.Checkpoints) {
	t.Helper()
	check(t, store.Note(t.Context(), []byte("{}")))
}

func whole(t *testing.T, store driver.Checkpoints, n int) []driver.Checkpoint {
	t.Helper()
	list, err := store.List(t.Context())
	if err != nil || len(list) != n {
		t.Fatalf("%d checkpoints, %v; want %d", len(list), err, n)
	}
	return list
}

func sameTree(t *testing.T, a, b string) {
	t.Helper()
	count := [2]int{}
	for i, root := range []string{a, b} {
		check(t, filepath.WalkDir(root, func(string, fs.DirEntry, error) error { count[i]++; return nil }))
	}
	check(t, filepath.WalkDir(a, func(name string, e fs.DirEntry, err error) error {
		check(t, err)
		rel, _ := filepath.Rel(a, name)
		one, err1 := e.Info()
		two, err2 := os.Lstat(filepath.Join(b, rel))
		check(t, errors.Join(err1, err2))
		if one.Mode() != two.Mode() || !one.ModTime().Equal(two.ModTime()) {
			t.Errorf("%s: %v of %v came back as %v of %v", rel, one.Mode(), one.ModTime(), two.Mode(), two.ModTime())
		}
		if e.Type().IsRegular() {
			x, err1 := os.ReadFile(name)
			y, err2 := os.ReadFile(filepath.Join(b, rel))
			if errors.Join(err1, err2) != nil || !bytes.Equal(x, y) {
				t.Errorf("%s differs: %v, %v", rel, err1, err2)
			}
			var v, w [8]byte
			n, _ := unix.Getxattr(name, "user.bee", v[:])
			m, _ := unix.Getxattr(filepath.Join(b, rel), "user.bee", w[:])
			if n != m || v != w {
				t.Errorf("%s: its attribute is lost", rel)
			}
		}
		return nil
	}))
	if count[0] != count[1] {
		t.Errorf("%d entries came back as %d", count[0], count[1])
	}
}

func (s StoreSuite) marks(t *testing.T) {
	place, files := s.New(t)
	shared := place.SharedDirectory()
	if shared == nil {
		return
	}
	mine := filepath.Join(files, "mine")
	check(t, os.WriteFile(mine, nil, 0o600))
	for _, name := range []string{"other", "mine", "../mine", ""} {
		if shared.Mark(t.Context(), name) == nil {
			t.Errorf("%q was made", name)
		}
		if shared.Unmark(t.Context(), name) == nil {
			t.Errorf("%q was removed", name)
		}
	}
	mark := driver.MarkPrefix + "0"
	check(t, shared.Mark(t.Context(), mark))
	if _, err := os.Stat(filepath.Join(shared.Path(), mark)); err != nil {
		t.Errorf("a mark is not where Path says: %v", err)
	}
	if shared.Mark(t.Context(), mark) == nil {
		t.Error("a mark was made twice")
	}
	check(t, shared.Unmark(t.Context(), mark))
	if entries, err := os.ReadDir(files); err != nil || len(entries) != 1 {
		t.Errorf("there are %v, %v", entries, err)
	}
}
