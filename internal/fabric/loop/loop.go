// Package loop waits for many files on one thread, and deals with what is heard of them
// right there as long as it is little, so that nobody else has to be woken for it. What
// stays busy gets a goroutine of its own until it rests again. By way of the runtime's
// poller one thread is woken to find out whom to wake, and another one to do it, which
// takes twice as long; and a file that it knows wakes it each time, whichever thread waits.
package loop

import (
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Loop is such a thread, which begins with the first file. The zero value is one.
type Loop struct {
	mu      sync.Mutex
	files   *files // nil: there was none yet
	closed  bool
	sources map[uint64]*Source
	last    uint64 // number of a source
}

// files are those that the system reports the loop of.
type files struct {
	epoll int
	end   *Event
}

// Close ends the loop, of whose sources nothing is heard any more then.
func (l *Loop) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.files != nil {
		l.files.end.Set()
		l.files = nil
	}
}

// control changes which files the system reports.
func (l *Loop) control(op, fd int, events uint32, number uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return os.ErrClosed
	}
	if l.files == nil {
		f, err := newFiles()
		if err != nil {
			return err
		}
		l.files = f
		go l.run(f)
	}
	return l.files.control(op, fd, events, number)
}

// change is control of a file that was added.
func (l *Loop) change(op, fd int, events uint32, number uint64) {
	l.control(op, fd, events, number) //nolint:errcheck // it fails for a file that was not added, or once the loop is closed
}

func newFiles() (*files, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	f := &files{epoll: epoll}
	if f.end, err = NewEvent(); err == nil {
		err = f.control(unix.EPOLL_CTL_ADD, f.end.fd, unix.EPOLLIN, 0)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *files) control(op, fd int, events uint32, number uint64) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(f.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(number), Pad: int32(number >> 32)}))
}

func (f *files) close() {
	unix.Close(f.epoll)
	f.end.Close()
}

// atOnce is of how many files the loop hears by one call.
const atOnce = 64

func (l *Loop) run(f *files) {
	defer f.close()
	var events [atOnce]unix.EpollEvent
	for {
		n, err := unix.EpollWait(f.epoll, events[:], -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		for _, e := range events[:max(n, 0)] {
			number := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if number == 0 {
				return
			}
			l.mu.Lock()
			s := l.sources[number]
			l.mu.Unlock()
			if s != nil {
				s.heard()
			}
		}
	}
}

// Turn is on whose behalf one looks.
type Turn int

// Turns on the loop's own thread, which are not to wait, and others, which may.
const (
	Heard Turn = iota // the file has become ready, and has to be made to be so no longer
	More              // it was not dry
	Own               // in a goroutine
)

// Source is what is to be done when something is heard of a file.
type Source struct {
	loop   *Loop
	number uint64
	look   func(Turn) (dry bool)

	mu     sync.Mutex
	fd     int  // -1: none
	busy   bool // someone looks
	again  bool // he has to once more
	closed bool
}

// Add gives a source which has look called when something is heard of its file, by one
// at a time, until it is dry. Look does a little each time.
func (l *Loop) Add(look func(Turn) (dry bool)) *Source {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sources == nil {
		l.sources = map[uint64]*Source{}
	}
	l.last++
	s := &Source{loop: l, number: l.last, look: look, fd: -1}
	l.sources[s.number] = s
	return s
}

// Watch has the source notice another file. The one before may be closed then.
func (s *Source) Watch(fd int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return os.ErrClosed
	}
	return s.watch(fd)
}

// Unwatch has the source notice no file any more.
func (s *Source) Unwatch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unwatch()
}

// watch is Watch for who holds mu.
func (s *Source) watch(fd int) error {
	s.unwatch()
	s.fd, s.again = fd, s.busy // who looks has it heard of when he rests
	return s.loop.control(unix.EPOLL_CTL_ADD, fd, s.wanted(), s.number)
}

// unwatch is Unwatch for a caller which holds mu.
func (s *Source) unwatch() {
	if s.fd >= 0 {
		s.loop.change(unix.EPOLL_CTL_DEL, s.fd, 0, 0)
	}
	s.fd = -1
}

// wanted is what the system is to report. That the other end is gone it reports always, but
// so only once.
func (s *Source) wanted() uint32 {
	if s.busy {
		return unix.EPOLLET
	}
	return unix.EPOLLIN
}

// Close has nothing heard any more. Someone may still look meanwhile.
func (s *Source) Close() {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.unwatch()
	s.closed = true
	s.mu.Unlock()
	s.loop.mu.Lock()
	delete(s.loop.sources, s.number)
	s.loop.mu.Unlock()
}

// Call has someone look, whether something is heard or not.
func (s *Source) Call() {
	s.mu.Lock()
	begins := !s.busy && !s.closed
	if begins {
		s.setBusy(true)
	} else {
		s.again = true
	}
	s.mu.Unlock()
	if begins {
		go s.stay(false)
	}
}

// setBusy has the loop hear nothing meanwhile. Callers hold mu.
func (s *Source) setBusy(busy bool) {
	s.busy = busy
	if s.fd >= 0 {
		s.loop.change(unix.EPOLL_CTL_MOD, s.fd, s.wanted(), s.number)
	}
}

// For so long, and so often, one looks on the loop's own thread.
const (
	littleTime  = 500 * time.Microsecond
	littleLooks = 16
)

// heard looks, on the loop's thread, until the source is dry, or that takes too long.
func (s *Source) heard() {
	s.mu.Lock()
	if s.busy || s.closed {
		s.mu.Unlock()
		return
	}
	s.busy, s.again = true, false
	s.mu.Unlock()
	dry := s.look(Heard)
	if !dry {
		begun := time.Now()
		for i := 1; i < littleLooks && !dry && time.Since(begun) < littleTime; i++ {
			dry = s.look(More)
		}
	}
	s.mu.Lock()
	rests := dry && !s.again
	if rests {
		s.busy = false // the loop is notified of it all the time
	} else {
		s.setBusy(true)
	}
	s.mu.Unlock()
	if !rests {
		go s.stay(dry)
	}
}

// stay looks until the source is dry.
func (s *Source) stay(dry bool) {
	for {
		for !dry {
			dry = s.look(Own)
		}
		s.mu.Lock()
		rests := !s.again
		s.again, dry = false, false
		if rests {
			s.setBusy(false)
		}
		s.mu.Unlock()
		if rests {
			return
		}
	}
}
