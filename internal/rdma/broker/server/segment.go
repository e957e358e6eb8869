package server

import (
	"fmt"
	"os"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"golang.org/x/sys/unix"
)

// memory makes segments of the kernel's.
type memory struct{}

// New makes one, the size of which no process changes: those that map it rely on that.
func (memory) New(bytes int64) (broker.Segment, error) {
	s, err := newSegment(bytes, unix.F_SEAL_SEAL)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// segment is memory without a name.
type segment struct {
	file   *os.File
	reader int    // a descriptor for reading alone; 0: none has asked
	memory []byte // as the broker has mapped it; nil: it has not
}

func newSegment(bytes int64, seals int) (*segment, error) {
	fd, err := unix.MemfdCreate("bee-rdma", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make shared memory: %w", err)
	}
	s := &segment{file: os.NewFile(uintptr(fd), "bee-rdma")}
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

// seal adds seals, before a program has the segment: afterwards this waits for its calls.
func (s *segment) seal(seals int) error {
	if _, err := unix.FcntlInt(s.file.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal shared memory: %w", err)
	}
	return nil
}

// descriptorOf is that of a segment of ours, for reading and writing.
func descriptorOf(s broker.Segment) int { return int(s.(*segment).file.Fd()) }

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
	info, err := s.file.Stat()
	if err != nil {
		return nil, err
	}
	if s.memory, err = unix.Mmap(int(s.file.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
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
	core.BestEffort(s.file.Close()) // memory has nothing to write
}
