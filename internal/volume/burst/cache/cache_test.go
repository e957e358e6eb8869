package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// far is a remote of files that count how often they are fetched.
type far struct {
	mu      sync.Mutex
	files   map[uint64]remote.Version
	fetched int64
	looks   int
	hold    chan struct{} // fetches wait for its end; nil: they do not
	fail    error
}

func newFar() *far { return &far{files: map[uint64]remote.Version{}} }

// pattern is what contents are made of.
var pattern = func() []byte {
	x, p := rand.New(rand.NewPCG(1, 2)), make([]byte, 999_983)
	for i := range p {
		p[i] = byte(x.Uint32())
	}
	return p
}()

// text is the content of a version.
func text(v remote.Version, p []byte, off int64) {
	for n := 0; n < len(p); {
		n += copy(p[n:], pattern[(off+int64(n)+v.Mtime*977)%int64(len(pattern)):])
	}
}

func (r *far) set(ino uint64, mtime, size int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[ino] = remote.Version{Ino: ino, Size: size, Mtime: mtime}
}

func (r *far) reader(ino uint64) Reader {
	r.mu.Lock()
	defer r.mu.Unlock()
	v := r.files[ino]
	check := func() error {
		if r.files[ino] != v {
			return fs.ErrClosed
		}
		return r.fail
	}
	return Reader{
		Ino: ino, Version: v, Fresh: time.Hour,
		Fetch: func(ctx context.Context, p []byte, off int64) (int, error) {
			if r.hold != nil {
				select {
				case <-r.hold:
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if err := check(); err != nil {
				return 0, err
			}
			n := min(int64(len(p)), v.Size-off)
			text(v, p[:n], off)
			r.fetched += n
			return int(n), nil
		},
		Check: func(context.Context) (time.Time, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.looks++
			return time.Now(), check()
		},
	}
}

func start(t *testing.T, most int64) *Cache {
	t.Helper()
	c, err := Open(filepath.Join(t.TempDir(), "read"), func() int64 { return most })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// read reads from a file, compares what comes, and gives how many bytes were cached.
func read(t *testing.T, c *Cache, of Reader, off, size int64) int64 {
	t.Helper()
	p, cached, err := c.Read(t.Context(), of, off, size)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, max(min(size, of.Version.Size-off), 0))
	text(of.Version, want, off)
	if !bytes.Equal(p, want) {
		t.Fatalf("read %d bytes at %d, which are not the %d of the version", len(p), off, len(want))
	}
	return cached
}

func readAll(t *testing.T, c *Cache, of Reader) (cached int64) {
	t.Helper()
	for off := int64(0); off < of.Version.Size; off += 100_000 {
		cached += read(t, c, of, off, 100_000)
	}
	return cached
}

// TestReadTwice fetches each byte once. What is read the first time counts as read from the remote, whatever pieces
// programs read.
func TestReadTwice(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	const size = 9<<20 + 12345
	r.set(1, 1, size)
	of := r.reader(1)
	if cached := readAll(t, c, of); cached != 0 || r.fetched != size {
		t.Errorf("the first time, %d bytes were cached and %d fetched", cached, r.fetched)
	}
	if cached := readAll(t, c, of); cached != size || r.fetched != size {
		t.Errorf("the second time, %d bytes were cached and %d fetched", cached, r.fetched)
	}
	c.all.Wait()
	if got := c.Size(); got < size || got > size+grain*pages {
		t.Errorf("%d bytes are kept", got)
	}
}

// TestOneFetch has many ask for the same bytes at once. One whose program ends does not end the others' reads.
func TestOneFetch(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 1<<20)
	r.hold = make(chan struct{})
	of := r.reader(1)
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, _, err := c.Read(ctx, of, 0, 1<<20)
		first <- err
	}()
	for waits := false; !waits; {
		c.mu.Lock()
		waits = c.files[1] != nil && len(c.files[1].flights) == 16
		c.mu.Unlock()
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { read(t, c, of, int64(i)*1000, 900_000) })
	}
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the read whose program has ended: %v", err)
	}
	close(r.hold)
	all.Wait()
	if r.fetched > 1<<20 {
		t.Errorf("%d bytes were fetched", r.fetched)
	}
}

// TestOtherVersion reads nothing of a version that the remote no longer has.
func TestOtherVersion(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 300_000)
	old := r.reader(1)
	old.Fresh = 0
	readAll(t, c, old)
	r.set(1, 2, 200_000)
	if _, _, err := c.Read(t.Context(), old, 0, 1000); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a version that is gone: %v", err)
	}
	if cached := readAll(t, c, r.reader(1)); cached != 0 {
		t.Errorf("%d bytes of the new version are of the old one", cached)
	}
	if r.looks == 0 {
		t.Error("nobody has looked")
	}
}

// TestScan reads much once: what is read again and again stays.
func TestScan(t *testing.T) {
	c, r := start(t, 8*blockSize), newFar()
	r.set(1, 1, 2*blockSize)
	for range 2 {
		readAll(t, c, r.reader(1))
		c.all.Wait()
	}
	for ino := uint64(2); ino < 22; ino++ {
		r.set(ino, 1, blockSize)
		readAll(t, c, r.reader(ino))
		c.all.Wait()
	}
	if c.Size() > 8*blockSize {
		t.Errorf("%d bytes are kept", c.Size())
	}
	if cached := readAll(t, c, r.reader(1)); cached != 2*blockSize {
		t.Errorf("%d of %d bytes have outlived a scan", cached, 2*blockSize)
	}
}

// TestDamage reads pages that the disk has lost or changed from the remote again.
func TestDamage(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 300_000)
	of := r.reader(1)
	for _, spoil := range []func(name string) error{
		os.Remove,
		func(name string) error { return os.Truncate(name, 1000) },
		func(name string) error { return os.WriteFile(name, make([]byte, 300_000), 0o600) },
	} {
		readAll(t, c, of)
		c.all.Wait()
		names, err := filepath.Glob(filepath.Join(c.dir.Path("."), "*"))
		if err != nil || len(names) != 1 {
			t.Fatalf("%v, %v", names, err)
		}
		if err := spoil(names[0]); err != nil {
			t.Fatal(err)
		}
		readAll(t, c, of)
	}
	if r.fetched != 4*300_000 {
		t.Errorf("%d bytes were fetched", r.fetched)
	}
}

// TestHistories reads at random from files that change at random, with room that comes and goes: what is read is of
// the version that was asked for, and what is on the disk is what counts.
func TestHistories(t *testing.T) {
	seed := uint64(time.Now().UnixNano()) // any number will do
	x := rand.New(rand.NewPCG(seed, 1))
	most := int64(24 << 20)
	r := newFar()
	c, err := Open(filepath.Join(t.TempDir(), "read"), func() int64 { return most })
	if err != nil {
		t.Fatal(err)
	}
	for ino := range uint64(6) {
		r.set(ino, 1, x.Int64N(10<<20))
	}
	for i := range 300 {
		ino := x.Uint64N(6)
		switch x.IntN(12) {
		case 0:
			r.set(ino, int64(i+2), x.Int64N(10<<20))
		case 1:
			most = x.Int64N(24 << 20)
		case 2:
			c.Shrink(x.Int64N(8<<20), x.Int64N(8<<20))
		case 3:
			c.Drop(ino)
		default:
			var all sync.WaitGroup
			for range 3 {
				off, size := x.Int64N(10<<20), x.Int64N(1<<20)
				all.Go(func() { read(t, c, r.reader(ino), off, size) })
			}
			all.Wait()
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	c.all.Wait()
	var disk int64
	entries, err := os.ReadDir(c.dir.Path("."))
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	for _, f := range c.files {
		blocks += len(f.blocks)
		for _, b := range f.blocks {
			disk += b.bytes
		}
	}
	if blocks != len(entries) || disk != c.Size() {
		t.Errorf("seed %d: %d files of %d blocks, %d bytes of %d", seed, len(entries), blocks, c.Size(), disk)
	}
	dir := c.dir.Path(".")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %s, %v", dir, err)
	}
}

// TestDiskRefuses reads on where nothing can be kept.
func TestDiskRefuses(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 300_000)
	dir := c.dir.Path(".")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if cached := readAll(t, c, r.reader(1)); cached != 0 {
			t.Errorf("%d bytes are kept", cached)
		}
		c.all.Wait()
	}
	c.all.Wait()
	if c.Size() != 0 || len(c.files) != 0 {
		t.Errorf("%d bytes, %v", c.Size(), fmt.Sprint(c.files))
	}
}

// TestManySmallFiles: however small they are, there are not more files on the disk than may be.
func TestManySmallFiles(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	c.many = 20
	for ino := range uint64(100) {
		r.set(ino, 1, 1000)
		readAll(t, c, r.reader(ino))
	}
	c.all.Wait()
	entries, err := os.ReadDir(c.dir.Path("."))
	if err != nil || len(entries) != c.many || c.queues.blocks() != c.many || !c.Pressed() {
		t.Errorf("%d files of %d blocks, %v", len(entries), c.queues.blocks(), err)
	}
}

// TestDropNeedsNoDisk: who holds a lock while a file is dropped does not wait until its blocks are removed.
func TestDropNeedsNoDisk(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 3*blockSize)
	readAll(t, c, r.reader(1))
	c.all.Wait()
	c.mu.Lock() // so that the blocks are not removed meanwhile
	c.drop(1)
	entries, err := os.ReadDir(c.dir.Path("."))
	gone, bytes := len(c.gone), c.queues.bytes()
	c.mu.Unlock()
	if err != nil || len(entries) != 3 || gone != 3 || bytes != 0 {
		t.Errorf("%d files, of which %d are to be removed, %d bytes, %v", len(entries), gone, bytes, err)
	}
	c.all.Wait()
	if entries, err = os.ReadDir(c.dir.Path(".")); err != nil || len(entries) != 0 {
		t.Errorf("%d files stay, %v", len(entries), err)
	}
}

// TestOldCache: what a process has left that was killed is moved away before a cache opens, and then removed, and so is
// what an earlier one has moved away.
func TestOldCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "read")
	for _, of := range []string{dir, filepath.Join(aside(dir), "earlier")} {
		if err := os.MkdirAll(of, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(of, "1"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Open(dir, func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
	c.all.Wait()
	if _, err := os.Lstat(aside(dir)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is moved away stays: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// TestFetchCompares: a fetch that has brought nothing itself says so, as the remote has compared nothing since.
func TestFetchCompares(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 1000)
	if err := c.Fetch(t.Context(), r.reader(1), false); err != nil {
		t.Fatal(err)
	}
	c.all.Wait()
	if err := c.Fetch(t.Context(), r.reader(1), false); !errors.Is(err, errShared) {
		t.Errorf("a file that is there: %v", err)
	}
	if err := c.Fetch(t.Context(), r.reader(1), true); err != nil {
		t.Errorf("ahead of a program: %v", err)
	}
}

// TestPass: what a reader has passed goes, and the rest stays.
func TestPass(t *testing.T) {
	c, r := start(t, 64<<20), newFar()
	r.set(1, 1, 3*blockSize)
	readAll(t, c, r.reader(1))
	c.all.Wait()
	c.Pass(1, 2*blockSize+1000)
	if c.Size() != blockSize {
		t.Errorf("%d bytes stay", c.Size())
	}
	if cached := read(t, c, r.reader(1), 2*blockSize, blockSize); cached != blockSize {
		t.Errorf("%d bytes of the last block are there", cached)
	}
	c.Pass(1, 3*blockSize)
	if c.Size() != 0 || len(c.files) != 0 {
		t.Errorf("%d bytes of %d files stay", c.Size(), len(c.files))
	}
}
