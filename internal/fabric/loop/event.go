package loop

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Event is an eventfd, which one end sets and the other is notified of.
type Event struct {
	mu sync.RWMutex // held for reading while fd is used
	fd int          // -1: it is closed
}

// NewEvent makes one that is not set.
func NewEvent() (*Event, error) {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("eventfd", err)
	}
	return &Event{fd: fd}, nil
}

// EventOf takes over the one that a file is, which does not block.
func EventOf(f *os.File) (*Event, error) {
	defer f.Close()
	fd, err := duplicate(f)
	if err != nil {
		return nil, err
	}
	return &Event{fd: fd}, nil
}

// duplicate gives a file that the runtime's poller does not know.
func duplicate(of syscall.Conn) (fd int, err error) {
	raw, err := of.SyscallConn()
	if err != nil {
		return -1, err
	}
	if broken := raw.Control(func(from uintptr) { fd, err = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0) }); broken != nil {
		return -1, broken
	}
	return fd, os.NewSyscallError("fcntl", err)
}

// Close is for an event that may never have been there, too.
func (e *Event) Close() {
	if e == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.fd >= 0 {
		unix.Close(e.fd)
	}
	e.fd = -1
}

// one is what is written to an event.
var one = []byte{1, 0, 0, 0, 0, 0, 0, 0}

// Set has the other end notice it.
func (e *Event) Set() {
	e.mu.RLock()
	defer e.mu.RUnlock()
	unix.Write(e.fd, one) //nolint:errcheck // full: it is set already
}

// Clear takes what was heard as dealt with.
func (e *Event) Clear() {
	e.mu.RLock()
	defer e.mu.RUnlock()
	var count [8]byte
	unix.Read(e.fd, count[:]) //nolint:errcheck // empty: it was not set
}

// Of has a source notice the event.
func (e *Event) Of(s *Source) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return s.Watch(e.fd)
}
