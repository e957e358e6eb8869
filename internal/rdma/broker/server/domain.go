package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// answerTime is how long a program waits for the answer of another run's broker, which does not answer if it is stopped.
const answerTime = 5 * time.Second

// Enter connects queue pairs with those of the other runs of a domain, too, from a place there. The ports of this server
// have its LIDs, and IP addresses of a network: 0 is no other's. Close leaves the domain, also after an error.
func (s *Server) Enter(p *domain.Place, own []broker.Address, network uint64) error {
	d := domain.New(domain.Options{
		Host: domainHost{host{s}}, Build: s.build, Own: own, Network: network,
		Warn: func(text string, err error) { s.warnings.add(s.log, text, err) },
		Lost: func() {
			if err := p.Tidy(); err != nil {
				s.log.Debug("tidy the directory of a domain", "err", err)
			}
		},
	})
	s.mu.Lock()
	s.domain, s.place = d, p
	s.broker.SetFar(d)
	s.mu.Unlock()
	if err := p.Open(d); err != nil {
		return err
	}
	s.mu.Lock()
	s.log.Info("joined a domain of bee_0", "lid", own[0].LID, "runs", 1+d.Links())
	s.mu.Unlock()
	s.accepting.Go(func() {
		g := wire.Gate{Strangers: greeting, Timeout: helloTime, Failed: func(err error) { s.warn("accept another run of the domain", err) }}
		g.Serve(p.Listener(), func(c net.Conn, known func() bool) {
			conn, is := c.(*net.UnixConn)
			if !is {
				return
			}
			defer conn.Close()
			err := socket.Trusted(conn)
			if err == nil {
				err = d.Accept(conn, known)
			}
			if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) { // which only look whether this one lives
				s.warn("link with another run of the domain", err)
			}
		})
	})
	return nil
}

// leaveDomain ends the links with other runs, once.
func (s *Server) leaveDomain() error {
	s.mu.Lock()
	d, p := s.domain, s.place
	s.place = nil
	s.mu.Unlock()
	if p == nil {
		return nil
	}
	d.End()
	err := p.Close()
	s.accepting.Wait()
	if err != nil {
		return fmt.Errorf("leave the domain: %w", err)
	}
	return nil
}

func (s *Server) warn(text string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnings.add(s.log, text, err)
}

// await waits for the answer of another broker, without the lock; false: the time is over.
func (s *Server) await(p *broker.Pending, until time.Time) bool {
	s.mu.Unlock()
	left := time.NewTimer(time.Until(until))
	defer left.Stop()
	var done bool
	select {
	case <-p.Done:
		done = true
	case <-left.C:
	}
	s.mu.Lock()
	if !done {
		p.Late()
	}
	return done
}

// crowded returns what a request waits for that was just carried out, as another broker has too much to read of it; nil:
// nothing.
func (s *Server) crowded() <-chan struct{} {
	if s.domain == nil {
		return nil
	}
	return s.domain.Crowded()
}

// uncrowd waits for that, for a moment.
func uncrowd(passed <-chan struct{}) {
	if passed == nil {
		return
	}
	select {
	case <-passed:
	case <-time.After(time.Second):
	}
}

// domainHost is the server as package domain has it.
type domainHost struct{ host }

// Descriptor implements domain.Host.
func (domainHost) Descriptor(s broker.Segment, readOnly bool) (int, error) {
	if readOnly {
		return s.(*segment).shared()
	}
	return whole(s).fd, nil // a domain has no pool
}

// Segment implements domain.Host.
func (domainHost) Segment(descriptor int, bytes int64) (broker.Segment, error) {
	if err := lasting(descriptor, bytes); err != nil {
		unix.Close(descriptor)
		return nil, err
	}
	return &segment{file: os.NewFile(uintptr(descriptor), "bee-rdma"), bytes: bytes}, nil
}

// lasting reports whether memory has so many bytes for ever. Who maps memory that shrinks is killed.
func lasting(descriptor int, bytes int64) error {
	var st unix.Stat_t
	if err := unix.Fstat(descriptor, &st); err != nil {
		return fmt.Errorf("look at shared memory: %w", err)
	}
	seals, err := unix.FcntlInt(uintptr(descriptor), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 || st.Size < bytes {
		return fmt.Errorf("another run has passed %d bytes of memory with seals %#x (%w), expected %d that cannot shrink", st.Size, seals, err, bytes)
	}
	return nil
}

// Descriptors implements domain.Host.
func (domainHost) Descriptors(p broker.Process) []int {
	var descriptors []int
	for _, one := range forPeersOf(p) {
		descriptors = append(descriptors, one.fd)
	}
	return descriptors
}

// Process implements domain.Host.
func (h domainHost) Process(descriptors []int) (domain.Process, error) {
	p := &stranger{descriptors: descriptors}
	err := errors.Join(lasting(descriptors[1], message.PageBytes), lasting(descriptors[2], message.TableBytes))
	if err != nil {
		p.Close()
		return nil, err
	}
	h.number++
	p.number = h.number
	return p, nil
}

// Answer implements domain.Host.
func (h domainHost) Answer() { h.broker.Answer() }

// stranger is a process of another broker. That one sends it events, and publishes what it has.
type stranger struct {
	number      uint32
	descriptors []int // that peers get: of wake-ups, of its page and of its table
}

func (p *stranger) Number() uint32 { return p.number }

func (p *stranger) Close() {
	for _, fd := range p.descriptors {
		unix.Close(fd)
	}
	p.descriptors = nil
}

// Wake wakes it as (*process).Wake does.
func (p *stranger) Wake() {
	if len(p.descriptors) > 0 {
		err := unix.Sendto(p.descriptors[0], []byte{0}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
		_ = err
	}
}

func (*stranger) SetQP(uint32, uint32, uint32) {}
func (*stranger) SetKey(uint32, uint32)        {}
func (*stranger) Event(uint32, uint32)         {}
func (*stranger) EventChannel() (broker.EventChannel, error) {
	return nil, unix.EOPNOTSUPP
}
