// Package pool is the memory that the programs with bee_0 in the virtual machines of a host share: one memfd, of which
// they have ranges. Guests have it as a device of persistent memory. It knows neither guests nor verbs.
package pool

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Data is where the memory begins that there are ranges of. A guest sees it alone, from 0 on: what comes before has the
// information block.
const Data = 2 << 20

const (
	page = 4096
	// step is a section of memory of Linux on the processors that it has such devices on.
	step = 128 << 20
	// rest is how long a range that was freed is given to nobody. A program that had it may amid a copy into it, by a key
	// that was valid when the copy began. The time is that of the host: a guest that is halted for longer during a copy
	// ends it afterwards.
	rest = 5 * time.Second
)

// FullError is the error of a pool without room.
type FullError struct{ Rest time.Duration } // until the next range has rested; 0: none rests

func (*FullError) Error() string { return "the pool has no room" }

// Pool is one. It takes memory of the host as far as programs write to it.
type Pool struct {
	file *os.File
	size int64
	now  func() time.Time

	mu      sync.Mutex
	free    []span // in order, none of which touches another
	resting []freed
	next    int64 // where the next range is looked for, so that all of the pool is used in turn
}

// span is a range.
type span struct{ at, bytes int64 }

func (s span) end() int64 { return s.at + s.bytes }

// freed is a range that rests.
type freed struct {
	span
	until time.Time
}

// New makes a pool with room for so many bytes at least.
func New(bytes int64) (*Pool, error) {
	if bytes <= 0 || bytes > 1<<46 {
		return nil, fmt.Errorf("make a pool of %d bytes: no such size", bytes)
	}
	size := (bytes + Data + step - 1) / step * step
	fd, err := unix.MemfdCreate("bee-rdma-pool", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a pool of shared memory: %w", err)
	}
	p := &Pool{file: os.NewFile(uintptr(fd), "bee-rdma-pool"), size: size, now: time.Now, free: []span{{Data, size - Data}}}
	var id [16]byte
	rand.Read(id[:])
	err = unix.Ftruncate(fd, size)
	if err == nil {
		_, err = p.file.WriteAt(block(size, id), blockAt)
	}
	if err == nil { // those that map it rely on its size
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a pool of %d bytes of shared memory: %w", size, err), p.file.Close())
	}
	return p, nil
}

// File is the memory. Offsets of ranges are those in it.
func (p *Pool) File() *os.File { return p.file }

// Size is that of the file, in bytes.
func (p *Pool) Size() int64 { return p.size }

// Close ends the pool for this process. Those who have mapped ranges keep them.
func (p *Pool) Close() error { return p.file.Close() }

// Take returns where a range of zeros is that nobody has.
func (p *Pool) Take(bytes int64) (at int64, err error) {
	if bytes <= 0 {
		return 0, fmt.Errorf("take %d bytes of a pool: no such size", bytes)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle()
	if bytes > p.size {
		return 0, &FullError{}
	}
	bytes = (bytes + page - 1) / page * page
	for _, from := range []int64{p.next, 0} {
		for i, s := range p.free {
			at = max(s.at, from)
			if s.end()-at < bytes {
				continue
			}
			left := slices.DeleteFunc([]span{{s.at, at - s.at}, {at + bytes, s.end() - at - bytes}}, func(s span) bool { return s.bytes <= 0 })
			p.free = slices.Replace(p.free, i, i+1, left...)
			p.next = at + bytes
			return at, nil
		}
	}
	full := &FullError{}
	if len(p.resting) > 0 {
		full.Rest = max(p.resting[0].until.Sub(p.now()), 1)
	}
	return 0, full
}

// Free frees a range. Its memory is the host's again at once.
func (p *Pool) Free(at, bytes int64) {
	s := span{at, (bytes + page - 1) / page * page}
	p.punch(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting = append(p.resting, freed{s, p.now().Add(rest)})
}

// punch has a range be zeros, without memory.
func (p *Pool) punch(s span) {
	core.BestEffort(unix.Fallocate(int(p.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, s.at, s.bytes)) // memory of a memfd always can
}

// settle has ranges that have rested be free.
func (p *Pool) settle() {
	now := p.now()
	for len(p.resting) > 0 && !now.Before(p.resting[0].until) {
		s := p.resting[0].span
		p.resting = p.resting[1:]
		p.punch(s) // what was written since
		i, _ := slices.BinarySearchFunc(p.free, s, func(a, b span) int { return int(min(max(a.at-b.at, -1), 1)) })
		p.free = slices.Insert(p.free, i, s)
		if i+1 < len(p.free) && p.free[i].end() == p.free[i+1].at {
			p.free[i].bytes += p.free[i+1].bytes
			p.free = slices.Delete(p.free, i+1, i+2)
		}
		if i > 0 && p.free[i-1].end() == p.free[i].at {
			p.free[i-1].bytes += p.free[i].bytes
			p.free = slices.Delete(p.free, i, i+1)
		}
	}
}
