// Package cache keeps what programs have read of files of a remote on this host's disk, so that the line to the
// remote is crossed once, however many read. What it has belongs to one version of a file. Nothing in it is needed:
// all of it goes with its process, and any part of it when others need the room.
//
// The package knows nothing of names, journals and remotes but what a version is.
package cache

import (
	"crypto/rand"
	"errors"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

const (
	// pageSize is what is fetched at least of a file: a round trip to most remotes takes as long as some pages do.
	pageSize = 64 << 10
	// blockSize is what one file of the disk has at most, and what is evicted at a time.
	blockSize = 4 << 20
	pages     = blockSize / pageSize
	// grain is what a disk allocates at a time.
	grain = 4 << 10
	// mostBlocks bounds the files on the disk, as quotas do: each small file that was read is one.
	mostBlocks = 100_000
	// mostKeeping bounds what is on its way to the disk: what comes while a slow one has so much is not kept.
	mostKeeping = 16 << 20
	// retryAfter is how long nothing is kept once the disk has refused something.
	retryAfter = 10 * time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Cache has pages of files in a directory of its own.
type Cache struct {
	dir  *fsutil.Root
	most func() int64 // bytes that it may have now
	many int          // blocks that it may have

	mu      sync.Mutex
	files   map[uint64]*file
	queues  queues
	last    uint64    // number of a block
	refused time.Time // when the disk refused something
	pressed bool      // something was not kept, or evicted, for want of room
	keeping int64     // bytes on their way to the disk
	// arriving are bytes that are being fetched ahead of programs that read in order.
	arriving int64
	// gone are numbers of blocks whose files are not removed yet; removing: that is under way.
	gone     []uint64
	removing bool
	closed   bool
	all      sync.WaitGroup
}

// file is what there is of a version of a file.
type file struct {
	ino      uint64
	version  remote.Version
	verified time.Time // when the remote was last seen to have that version
	looking  bool      // one read looks whether it still has
	ahead    bool      // it was fetched ahead, and nobody has opened it since
	order    order
	unkept   time.Time // when something was not kept: nothing is fetched ahead where there is no room for it
	blocks   map[int64]*block
	flights  map[int64]*flight // by page
}

// block is a part of a file, in a file of its own whose name is a number that no other block ever has.
type block struct {
	of     *file
	index  int64
	number uint64
	has    uint64 // a bit for each page
	pages  []page
	bytes  int64 // on the disk
	end    int64 // where in the block the last read has ended
	place
}

// page is a page that is there.
type page struct {
	sum  uint32 // the disk may lose what it has accepted, as one behind a network with a quota
	read uint32 // how much of it programs have read
}

// flight is a fetch, which all who read something of it wait for.
type flight struct {
	of       *file
	from, to int64
	want     int64         // the end of what was read of it
	done     chan struct{} // closed once data and err are there
	data     []byte
	err      error
}

// Open makes an empty cache in a directory, which nothing else uses, nor that beside it. most gives the bytes that it may
// have at a time. What a process has left that was killed is removed beside what the callers do.
func Open(dir string, most func() int64) (*Cache, error) {
	if err := setAside(dir); err != nil {
		return nil, err
	}
	if err := fsutil.OwnDir(dir); err != nil {
		return nil, err
	}
	root, err := fsutil.OpenOwn(dir)
	if err != nil {
		return nil, err
	}
	c := &Cache{dir: root, most: most, many: mostBlocks, files: map[uint64]*file{}, queues: newQueues()}
	c.all.Go(func() { fsutil.TryRemoveAll(aside(dir)) })
	return c, nil
}

// aside is the directory for what is to be removed.
func aside(dir string) string { return dir + ".old" }

// setAside moves a directory into the one for what is to be removed. Where that is not possible, such as on a full disk, it
// is removed at once.
func setAside(dir string) error {
	if there, err := fsutil.Exists(dir); err != nil || !there {
		return err
	}
	if moveAside(dir) == nil {
		return nil
	}
	return fsutil.RemoveAll(dir)
}

func moveAside(dir string) error {
	if err := fsutil.OwnDir(aside(dir)); err != nil {
		return err
	}
	to, err := fsutil.OpenOwn(aside(dir))
	if err != nil {
		return err
	}
	defer to.Close()
	from, err := fsutil.OpenOwn(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer from.Close()
	return from.Rename(filepath.Base(dir), to, rand.Text())
}

// Close removes everything.
func (c *Cache) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	for ino := range c.files {
		c.drop(ino) // their files go with the directory
	}
	dir := c.dir.Path(".")
	return errors.Join(c.dir.Close(), fsutil.RemoveAll(dir), fsutil.RemoveAll(aside(dir)))
}

// Wait waits for what is on its way to the disk.
func (c *Cache) Wait() { c.all.Wait() }

// Size is how many bytes the cache has.
func (c *Cache) Size() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queues.bytes()
}

// Pressed reports whether the cache has lacked room since the last call.
func (c *Cache) Pressed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.pressed
	c.pressed = false
	return was
}

// Shrink frees so many bytes, as long as more than floor are there, and gives how many it has freed.
func (c *Cache) Shrink(bytes, floor int64) (freed int64) {
	defer c.sweep() // the disk has the room once it returns
	c.mu.Lock()
	defer c.mu.Unlock()
	begun := c.queues.bytes()
	for begun-c.queues.bytes() < bytes && c.queues.bytes() > floor && c.evict() {
	}
	if freed = begun - c.queues.bytes(); freed > 0 {
		c.pressed = true
	}
	return freed
}

// Drop removes what there is of a file.
func (c *Cache) Drop(ino uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop(ino)
}

// Pass removes the blocks of a file before an offset: who reads it needs them no more.
func (c *Cache) Pass(ino uint64, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[ino]
	if f == nil {
		return
	}
	for _, b := range f.blocks {
		if (b.index+1)*blockSize <= before {
			c.queues.remove(b)
			c.forget(b)
		}
	}
}

func (c *Cache) drop(ino uint64) {
	f := c.files[ino]
	if f == nil {
		return
	}
	delete(c.files, ino)
	for _, b := range f.blocks {
		c.queues.remove(b)
		c.unlink(b)
	}
	clear(f.blocks)
}

// evict removes the block whose turn it is; false: there is none. Callers hold the lock.
func (c *Cache) evict() bool {
	b := c.queues.evict()
	if b == nil {
		return false
	}
	c.forget(b)
	return true
}

// forget removes a block that is in no queue any more. Callers hold the lock.
func (c *Cache) forget(b *block) {
	delete(b.of.blocks, b.index)
	c.unlink(b)
	c.tidy(b.of)
}

// tidy forgets a file of which there is nothing. Callers hold the lock.
func (c *Cache) tidy(f *file) {
	if len(f.blocks) == 0 && len(f.flights) == 0 && c.files[f.ino] == f {
		delete(c.files, f.ino)
	}
}

// unlink has the file of a block removed: nobody who holds a lock waits for the disk. A read of it continues: no other
// block gets its name. Callers hold the lock.
func (c *Cache) unlink(b *block) {
	if c.closed {
		return
	}
	c.gone = append(c.gone, b.number)
	if c.removing {
		return
	}
	c.removing = true
	c.all.Go(func() {
		for done := false; !done; {
			c.sweep()
			c.mu.Lock()
			done = len(c.gone) == 0
			c.removing = !done
			c.mu.Unlock()
		}
	})
}

// sweep removes the files of blocks that are gone. Callers do not hold the lock. What makes room for other blocks calls
// it, too, so that the disk never has much more than is counted.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.gone) > 0 {
		last := len(c.gone) - 1
		number := c.gone[last]
		c.gone = c.gone[:last]
		c.mu.Unlock()
		err := c.dir.Unlink(blockName(number))
		c.mu.Lock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.refused = time.Now()
		}
	}
}

func (b *block) name() string { return blockName(b.number) }

func blockName(number uint64) string { return strconv.FormatUint(number, 16) }

// file gives what there is of a version. What there is of another one goes. Callers hold the lock.
func (c *Cache) file(ino uint64, v remote.Version) *file {
	f := c.files[ino]
	if f != nil && f.version != v {
		c.drop(ino)
		f = nil
	}
	if f == nil {
		f = &file{ino: ino, version: v, blocks: map[int64]*block{}, flights: map[int64]*flight{}}
		c.files[ino] = f
	}
	return f
}

// has reports whether a page of a file is there. Callers hold the lock.
func (f *file) has(page int64) bool {
	b := f.blocks[page/pages]
	return b != nil && b.has&(1<<(page%pages)) != 0
}

// land ends a flight. Nobody who reads what it has brought waits for the disk.
func (c *Cache) land(fl *flight) {
	size := int64(len(fl.data))
	c.mu.Lock()
	keep := fl.err == nil && size == fl.to-fl.from && c.keeping+size <= mostKeeping && !c.closed
	if keep {
		c.keeping += size
		c.all.Add(1)
	} else {
		fl.of.unkept = time.Now()
		c.ended(fl)
	}
	c.mu.Unlock()
	close(fl.done)
	if !keep {
		return
	}
	go func() {
		defer c.all.Done()
		for from := fl.from; from < fl.to; {
			to := min(fl.to, (from/blockSize+1)*blockSize)
			c.keep(fl, from, fl.data[from-fl.from:to-fl.from])
			from = to
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.keeping -= size
		c.ended(fl)
	}()
}

// ended forgets a flight. Callers hold the lock.
func (c *Cache) ended(fl *flight) {
	for page := fl.from / pageSize; page*pageSize < fl.to; page++ {
		delete(fl.of.flights, page)
	}
	c.tidy(fl.of)
}

// keep keeps whole pages of a block.
func (c *Cache) keep(fl *flight, from int64, data []byte) {
	f := fl.of
	c.mu.Lock()
	b := c.reserve(f, from/blockSize, int64(len(data)))
	if b == nil {
		f.unkept = time.Now()
	}
	c.mu.Unlock()
	c.sweep()
	if b == nil {
		return
	}
	err := c.write(b, from%blockSize, data)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[f.ino] != f || f.blocks[b.index] != b { // it was evicted meanwhile
		c.unlink(b)
		return
	}
	if err != nil {
		c.refused = time.Now()
		c.queues.remove(b)
		c.forget(b)
		return
	}
	read := int(min(max(fl.want-from, 0), blockSize)) // bytes of data
	for at := 0; at < len(data); at += pageSize {
		i := (from%blockSize + int64(at)) / pageSize
		part := data[at:min(at+pageSize, len(data))]
		b.has |= 1 << i
		b.pages[i] = page{sum: crc32.Checksum(part, castagnoli), read: uint32(min(max(read-at, 0), len(part)))} // at most a page
	}
	if read > 0 {
		b.end = max(b.end, from%blockSize+int64(min(read, len(data))))
	}
}

// reserve gives the block for bytes of a file for which there is room; nil: there is none. Callers hold the lock.
func (c *Cache) reserve(f *file, index, bytes int64) *block {
	if c.files[f.ino] != f || time.Since(c.refused) < retryAfter {
		return nil
	}
	bytes = (bytes + grain - 1) / grain * grain
	for most := c.most(); c.queues.bytes()+bytes > most; {
		c.pressed = true
		if bytes > most || !c.evict() {
			return nil
		}
	}
	for f.blocks[index] == nil && c.queues.blocks() >= c.many {
		if c.pressed = true; !c.evict() {
			return nil
		}
	}
	b := f.blocks[index]
	if b == nil {
		c.last++
		size := min(blockSize, f.version.Size-index*blockSize)
		b = &block{of: f, index: index, number: c.last, pages: make([]page, (size+pageSize-1)/pageSize)}
		f.blocks[index] = b
		c.queues.add(b)
	}
	c.queues.grow(b, bytes)
	return b
}

// write writes pages into the file of a block.
func (c *Cache) write(b *block, at int64, data []byte) error {
	f, err := c.dir.ReadWrite(b.name())
	if errors.Is(err, fs.ErrNotExist) {
		f, err = c.dir.Create(b.name(), 0o600)
		if errors.Is(err, fs.ErrExist) { // another flight was first
			f, err = c.dir.ReadWrite(b.name())
		}
	}
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, at)
	return errors.Join(err, f.Close())
}
