package cache

import (
	"context"
	"errors"
	"hash/crc32"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Reader reads a version of a file of a remote.
type Reader struct {
	Ino     uint64
	Version remote.Version
	// Fetch reads bytes of that version, fewer at its end. It fails where the remote no longer has it.
	Fetch func(ctx context.Context, p []byte, off int64) (int, error)
	// Check reports when the remote was seen to have that version, and looks where that is too long ago. It fails
	// where the remote no longer has it.
	Check func(ctx context.Context) (time.Time, error)
	// Fresh is how long what the cache has counts after that.
	Fresh time.Duration
}

// errCut is about a fetch that has ended without a result.
var errCut = errors.New("the fetch was cut off")

// fetch carries a flight out, for itself and those who wait.
func (c *Cache) fetch(ctx context.Context, fl *flight, of Reader) {
	begun := time.Now()
	fl.err = errCut
	defer c.land(fl)
	data := make([]byte, fl.to-fl.from)
	got := 0
	for got < len(data) {
		n, err := of.Fetch(ctx, data[got:], fl.from+int64(got))
		if err != nil {
			fl.err = err
			return
		}
		if n == 0 {
			break
		}
		got += n
	}
	fl.data, fl.err = data[:got], nil
	c.verify(fl.of, begun)
}

// verify notes when the remote was seen to have the version of a file.
func (c *Cache) verify(f *file, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.looking = false; at.After(f.verified) {
		f.verified = at
	}
}

// part is where the next bytes of a read come from: a block, or a flight, which is mine to carry out or not.
type part struct {
	block  *block
	flight *flight
	mine   bool
	end    int64
}

// next finds where the next bytes of a read come from. A flight that begins has brought what nobody has read before
// from the offset want on.
func (c *Cache) next(of Reader, pos, end, want int64) part {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextOf(c.file(of.Ino, of.Version), of, pos, end, want)
}

// nextOf is next for a file. Callers hold the lock.
func (c *Cache) nextOf(f *file, of Reader, pos, end, want int64) part {
	page := pos / pageSize
	to := page + 1
	if fl := f.flights[page]; fl != nil && !f.has(page) {
		return part{flight: fl}
	}
	if f.has(page) {
		for to*pageSize < end && to%pages != 0 && f.has(to) {
			to++
		}
		return part{block: f.blocks[page/pages], end: min(to*pageSize, end)}
	}
	for to*pageSize < end && f.flights[to] == nil && !f.has(to) {
		to++
	}
	fl := &flight{of: f, from: page * pageSize, to: min(to*pageSize, of.Version.Size), want: want, done: make(chan struct{})}
	for i := page; i < to; i++ {
		f.flights[i] = fl
	}
	return part{flight: fl, mine: true, end: min(to*pageSize, end)}
}

// current has the remote looked at where that was too long ago, and beside the read before that is so: programs that
// read on do not wait for it.
func (c *Cache) current(ctx context.Context, of Reader, f *file) error {
	c.mu.Lock()
	age := time.Since(f.verified)
	soon := age < of.Fresh && age > of.Fresh/2 && !f.looking
	f.looking = f.looking || soon
	c.mu.Unlock()
	if soon {
		go c.look(context.WithoutCancel(ctx), of, f) //nolint:errcheck // who reads later looks, too
	}
	if age < of.Fresh {
		return nil
	}
	return c.look(ctx, of, f)
}

func (c *Cache) look(ctx context.Context, of Reader, f *file) error {
	at, err := of.Check(ctx)
	c.verify(f, at)
	return err
}

// readBlock reads from a block, and gives how many bytes were read before, too; 0: nothing of it is there.
func (c *Cache) readBlock(b *block, p []byte, at int64) (n int, again int64) {
	end := at + int64(len(p))
	from, to := at/pageSize*pageSize, min((end+pageSize-1)/pageSize*pageSize, b.of.version.Size-b.index*blockSize)
	sums := make([]uint32, 0, (to-from)/pageSize+1)
	c.mu.Lock()
	for i := from / pageSize; i*pageSize < end; i++ {
		sums = append(sums, b.pages[i].sum)
		first, last := max(at-i*pageSize, 0), min(end-i*pageSize, pageSize)
		again += min(max(int64(b.pages[i].read)-first, 0), last-first)
		b.delivered(i, last)
	}
	b.used(at, end)
	c.mu.Unlock()
	whole := p
	if at != from || end != to {
		whole = make([]byte, to-from)
	}
	if err := c.readPages(b, whole, from, sums); err != nil {
		c.lose(b)
		return 0, 0
	}
	if at != from || end != to {
		copy(p, whole[at-from:])
	}
	return len(p), again
}

// readPages reads whole pages of a block, and compares them with their checksums.
func (c *Cache) readPages(b *block, p []byte, from int64, sums []uint32) error {
	f, err := c.dir.Open(b.name())
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.ReadAt(p, from); err != nil {
		return err
	}
	for i, sum := range sums {
		if at := i * pageSize; crc32.Checksum(p[at:min(at+pageSize, len(p))], castagnoli) != sum {
			return errDamaged
		}
	}
	return nil
}

// errDamaged is about a page that the disk has not kept.
var errDamaged = errors.New("a page does not have its checksum")

// lose removes a block that cannot be read. It is fetched again.
func (c *Cache) lose(b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b.of.blocks[b.index] == b {
		c.queues.remove(b)
		c.forget(b)
	}
}

// Read gives bytes of a file, fewer at its end, and how many of them have not crossed the line for this read.
func (c *Cache) Read(ctx context.Context, of Reader, off, size int64) (p []byte, cached int64, err error) {
	end := min(off+size, of.Version.Size)
	if off >= end {
		return nil, 0, nil
	}
	c.follow(of, off, end)
	for pos := off; pos < end; {
		next := c.next(of, pos, end, end)
		got := 0
		switch {
		case next.block != nil:
			if err := c.current(ctx, of, next.block.of); err != nil {
				return nil, 0, err
			}
			p = room(p, end-off)
			var again int64
			if got, again = c.readBlock(next.block, p[pos-off:next.end-off], pos%blockSize); got == 0 {
				continue // it has gone since
			}
			cached += again
		case next.mine:
			c.fetch(ctx, next.flight, of)
			if next.flight.err != nil {
				return nil, 0, next.flight.err
			}
			data := next.flight.data
			if whole := pos == off && next.end == end; whole && int64(len(data)) >= end-next.flight.from {
				return data[pos-next.flight.from : end-next.flight.from], cached, nil
			}
			p = room(p, end-off)
			if got = next.flight.copy(p[pos-off:], pos); got == 0 {
				return p[:pos-off], cached, nil // the file is shorter than its version
			}
		default:
			if !next.flight.landed() {
				c.waits(next.flight.of)
			}
			select {
			case <-next.flight.done:
			case <-ctx.Done():
				return nil, 0, context.Cause(ctx)
			}
			if next.flight.err != nil { // that of another reader, whose program may have ended
				continue
			}
			if err := c.current(ctx, of, next.flight.of); err != nil {
				return nil, 0, err
			}
			p = room(p, end-off)
			if got = next.flight.copy(p[pos-off:], pos); got == 0 {
				return p[:pos-off], cached, nil
			}
			cached += c.shared(next.flight, pos, pos+int64(got))
		}
		pos += int64(got)
	}
	return p, cached, nil
}

func room(p []byte, size int64) []byte {
	if p == nil {
		p = make([]byte, size)
	}
	return p
}

// Whole reports whether all of a file is there, and whether it was fetched ahead so lately that it counts: once.
func (c *Cache) Whole(of Reader) (whole, ahead bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[of.Ino]
	if f == nil || f.version != of.Version {
		return false, false
	}
	for page := int64(0); page*pageSize < of.Version.Size; page++ {
		fl := f.flights[page]
		if !f.has(page) && (fl == nil || !fl.landed()) {
			return false, false
		}
	}
	ahead = f.ahead && time.Since(f.verified) < of.Fresh
	f.ahead = false
	return true, ahead
}

// landed reports whether a flight has brought what it was sent for.
func (fl *flight) landed() bool {
	select {
	case <-fl.done:
		return fl.err == nil
	default:
		return false
	}
}

// errShared is about a fetch that has begun before: it may have compared an older version.
var errShared = errors.New("another fetch has begun before")

// Fetch fetches what is not there of a file, so that the remote has compared the version since the call. ahead: before
// any program asks for it, so that it is no miss.
func (c *Cache) Fetch(ctx context.Context, of Reader, ahead bool) error {
	want, compared := int64(0), false
	if ahead {
		want = of.Version.Size
	}
	for pos := int64(0); pos < of.Version.Size; {
		next := c.next(of, pos, of.Version.Size, want)
		fl := next.flight
		switch {
		case next.block != nil:
			pos = next.end
			continue
		case next.mine:
			if c.fetch(ctx, fl, of); fl.err != nil {
				return fl.err
			}
			compared = true
		case !ahead:
			return errShared
		default:
			select {
			case <-fl.done:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if fl.err != nil {
				return fl.err
			}
		}
		if int64(len(fl.data)) < fl.to-fl.from { // it is shorter than its version
			return fs.ErrClosed
		}
		pos = fl.to
	}
	if !ahead && !compared { // it has come since the caller looked
		return errShared
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.files[of.Ino]; ahead && f != nil && f.version == of.Version {
		f.ahead = true
	}
	return nil
}

// shared notes that a part of what a flight has brought was read, and gives how many bytes were read before, too.
func (c *Cache) shared(fl *flight, from, to int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := min(max(fl.want-from, 0), to-from)
	fl.want = max(fl.want, to)
	for i := from / pageSize; i*pageSize < to; i++ {
		if fl.of.has(i) { // it has come to the disk since
			fl.of.blocks[i/pages].delivered(i%pages, to-i*pageSize)
		}
	}
	return again
}

// delivered notes up to where a page was read.
func (b *block) delivered(i, to int64) {
	b.pages[i].read = max(b.pages[i].read, uint32(min(to, pageSize))) // at most a page
}

// copy gives what a flight has brought from an offset on.
func (fl *flight) copy(p []byte, at int64) int {
	return copy(p, fl.data[min(at-fl.from, int64(len(fl.data))):])
}
