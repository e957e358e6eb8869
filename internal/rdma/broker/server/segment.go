package server

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/pool"
	"golang.org/x/sys/unix"
)

// memory makes segments: of the kernel's, or of a pool.
type memory struct {
	pool *pool.Pool // nil: each has a descriptor of its own
}

// New makes one, the size of which no process changes: those that map it rely on that.
func (m memory) New(bytes int64) (broker.Segment, error) {
	s, err := m.segment(bytes, unix.F_SEAL_SEAL)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// segment makes one, with seals where it has a descriptor of its own. Those of a pool are for all who have the pool.
func (m memory) segment(bytes int64, seals int) (*segment, error) {
	if m.pool == nil {
		return newSegment(bytes, seals)
	}
	at, err := m.pool.Take(bytes)
	if full, is := errors.AsType[*pool.FullError](err); is {
		return nil, &restingError{&broker.Limit{Name: "bytes of the memory that the virtual machines of a host share", Key: "rdma.memory", Value: m.pool.Size()}, full.Rest}
	}
	if err != nil {
		return nil, err
	}
	return &segment{file: m.pool.File(), pool: m.pool, at: at, bytes: bytes}, nil
}

// restingError is the limit of a pool that may have room after a time; 0: it will not by itself.
type restingError struct {
	*broker.Limit
	after time.Duration
}

func (e *restingError) Unwrap() error { return e.Limit }

// segment is memory without a name.
type segment struct {
	file   *os.File
	pool   *pool.Pool // of which it is a range; nil: it is all of the file
	at     int64
	bytes  int64
	reader int    // a descriptor for reading alone; 0: none has asked
	memory []byte // as the broker has mapped it; nil: it has not
}

func newSegment(bytes int64, seals int) (*segment, error) {
	fd, err := unix.MemfdCreate("bee-rdma", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	s := &segment{file: os.NewFile(uintptr(fd), "bee-rdma"), bytes: bytes}
	if err := unix.Ftruncate(fd, bytes); err != nil {
		s.Close()
		return nil, fmt.Errorf("make %d bytes of shared memory: %w", bytes, err)
	}
	if err := s.seal(unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | seals); err != nil {
		s.Close()
		return nil, err
	}
	// A process with a descriptor for reading cannot open it again for writing by mistake. One
	// that is hostile can change the mode, as it has the same user.
	if err := unix.Fchmod(fd, 0o400); err != nil {
		s.Close()
		return nil, fmt.Errorf("protect shared memory: %w", err)
	}
	return s, nil
}

// seal adds seals, before a program has the segment: afterwards this waits for its calls. A pool has its own.
func (s *segment) seal(seals int) error {
	if s.pool != nil {
		return nil
	}
	if _, err := unix.FcntlInt(s.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal shared memory: %w", err)
	}
	return nil
}

// handed is a descriptor of a reply, and where in its memory the mapping begins.
type handed struct {
	fd int
	at int64
}

// alone are descriptors without memory, or of memory that is mapped from its beginning.
func alone(descriptors ...int) []handed {
	all := make([]handed, len(descriptors))
	for i, fd := range descriptors {
		all[i].fd = fd
	}
	return all
}

// whole is a segment of ours, for reading and writing.
func whole(s broker.Segment) handed {
	own := s.(*segment)
	return handed{int(own.file.Fd()), own.at}
}

// readOnly opens the segment for reading alone.
func (s *segment) readOnly() (int, error) {
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(int(s.file.Fd())), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0) // a lease of a program would have the broker wait
	if err != nil {
		return 0, fmt.Errorf("open shared memory for reading: %w", err)
	}
	return fd, nil
}

// shared is readOnly, once.
func (s *segment) shared() (fd int, err error) {
	if s.reader == 0 {
		s.reader, err = s.readOnly()
	}
	return s.reader, err
}

// mapped maps the segment, until it is closed.
func (s *segment) mapped() ([]byte, error) {
	if s.memory != nil {
		return s.memory, nil
	}
	var err error
	if s.memory, err = unix.Mmap(int(s.file.Fd()), s.at, int(s.bytes), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("map shared memory: %w", err)
	}
	return s.memory, nil
}

// Close frees it, for those that have not mapped it.
func (s *segment) Close() {
	if s.memory != nil {
		core.BestEffort(unix.Munmap(s.memory))
		s.memory = nil
	}
	if s.reader > 0 {
		unix.Close(s.reader)
	}
	if s.pool != nil {
		s.pool.Free(s.at, s.bytes)
		return
	}
	core.BestEffort(s.file.Close()) // memory has nothing to write
}
