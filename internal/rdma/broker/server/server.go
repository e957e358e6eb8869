// Package server is the broker as programs reach it: a socket for each container, on which
// package broker answers the processes there, and the memory and descriptors that they
// share. No data of programs passes here. It knows neither jobs nor runtimes.
package server

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"github.com/bee-hpc/bee/internal/rdma/broker/forward"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"github.com/bee-hpc/bee/internal/rdma/pool"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// helloTime is how long a process may take for its first request.
const helloTime = 10 * time.Second

// restStep is how long a program at most waits for room in a pool before it is looked whether the port is closed.
const restStep = 100 * time.Millisecond

// restLate is how much later than the end of its rest a range may be found, as on a busy machine.
const restLate = time.Second

// greeting is how many connections may be open that have not greeted. For one more the oldest
// is closed.
const greeting = 64

// Server answers the processes of the containers of one machine.
type Server struct {
	build string
	log   *slog.Logger

	memory memory

	mu       sync.Mutex // the broker, and all below
	broker   *broker.Broker
	number   uint32       // of the last process
	far      *forward.Far // nil: there are no other machines
	peer     *peer        // that stands for them
	warnings warnings     // of far, and of the domain

	domain    *domain.Far // nil: there are no other runs
	place     *domain.Place
	accepting sync.WaitGroup
}

// New returns a server for libraries of one build. What programs share is in a pool; nil: in memory of its own.
func New(build string, log *slog.Logger, p *pool.Pool) *Server {
	random := func() uint32 {
		var raw [4]byte
		rand.Read(raw[:])
		return binary.LittleEndian.Uint32(raw[:])
	}
	m := memory{p}
	return &Server{build: build, log: log, memory: m, broker: broker.New(m, random)}
}

// Port is the device of one container.
type Port struct {
	server   *Server
	node     *broker.Node
	listener *net.UnixListener
	path     string
	logged   map[string]bool // limits in the log
	conns    map[*net.UnixConn]bool
	closed   bool
	warnings warnings
	counts   [message.Counters]uint64 // of processes that have ended
	refusals Refusals
	live     map[*process]bool
	serving  sync.WaitGroup
}

// Listen makes a port, which processes reach by a socket at a path.
func (s *Server) Listen(path string, a broker.Address, l broker.Limits) (*Port, error) {
	listener, err := socket.Listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen for programs with verbs at %s: %w", path, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &Port{server: s, node: s.broker.Node(a, l), listener: listener, path: path, logged: map[string]bool{}, conns: map[*net.UnixConn]bool{}, live: map[*process]bool{}}
	p.serving.Go(p.accept)
	return p, nil
}

// Close ends the port and the sessions of its processes.
func (p *Port) Close() error {
	err := errors.Join(p.listener.Close(), os.Remove(p.path))
	p.server.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.Close()
	}
	p.server.mu.Unlock()
	p.serving.Wait()
	return err
}

func (p *Port) accept() {
	g := wire.Gate{Strangers: greeting, Timeout: helloTime, Failed: func(err error) { p.warn("accept a program with verbs", err) }}
	g.Serve(p.listener, func(c net.Conn, known func() bool) {
		conn, is := c.(*net.UnixConn)
		if !is || !p.enter(conn) {
			return
		}
		if err := p.serve(conn, known); err != nil {
			p.warn("serve a program with verbs", err)
		}
		conn.Close()
		p.server.mu.Lock()
		delete(p.conns, conn)
		p.server.mu.Unlock()
		p.serving.Done()
	})
}

// enter notes a connection that Close closes, and waits for.
func (p *Port) enter(conn *net.UnixConn) bool {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	if p.closed {
		return false
	}
	p.serving.Add(1)
	p.conns[conn] = true
	return true
}

// warn logs an error of a program.
func (p *Port) warn(text string, err error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.warnings.add(p.server.log, text, err)
}

// warnings are about what a program may repeat at will. One in a second is logged.
type warnings struct{ last time.Time }

func (w *warnings) add(log *slog.Logger, text string, err error) {
	if time.Since(w.last) >= time.Second {
		w.last = time.Now()
		log.Warn(text, "err", err)
	}
}

// serve answers a process until it ends.
func (p *Port) serve(conn *net.UnixConn, known func() bool) error {
	err := socket.Trusted(conn)
	if errors.Is(err, net.ErrClosed) { // others have come since
		return nil
	}
	if err != nil {
		core.BestEffort(socket.Send(conn, message.Refusal(message.OpHello, syscall.EPERM), nil)) // the error below is logged
		return err
	}
	r, err := receive(conn)
	if err != nil || r.Op == 0 {
		return err
	}
	proc, err := p.open(conn, r)
	if err != nil {
		return err
	}
	defer p.end(proc)
	if !known() {
		return nil
	}
	for {
		r, err := receive(conn)
		if err != nil || r.Op == 0 {
			return err
		}
		crowded, err := p.answer(conn, proc, r)
		if err != nil {
			return err
		}
		uncrowd(crowded)
	}
}

// receive reads a request; its operation is 0 at the end of the connection.
func receive(conn *net.UnixConn) (message.Request, error) {
	packet, err := socket.Receive(conn, make([]byte, message.Packet+1))
	if err != nil || packet == nil {
		return message.Request{}, err
	}
	return message.Decode(packet)
}

// open begins the session of a process by its first request.
func (p *Port) open(conn *net.UnixConn, r message.Request) (*process, error) {
	s := p.server
	hello, is := r.Body.(*message.Hello)
	if !is {
		core.BestEffort(socket.Send(conn, message.Refusal(r.Op, syscall.EPROTO), nil)) // the error below is logged
		return nil, fmt.Errorf("the first request has number %d", r.Op)
	}
	if build := string(hello.Build[:]); hello.Protocol != message.Protocol || build != s.build {
		core.BestEffort(socket.Send(conn, message.Refusal(r.Op, syscall.EPROTO), nil)) // the error below is logged
		return nil, fmt.Errorf("the library of process %d is of build %q, not %q", hello.PID, build, s.build)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	proc, own, err := newProcess(s.memory)
	if err != nil {
		core.BestEffort(socket.Send(conn, message.Refusal(r.Op, errnoOf(err)), nil)) // the error below is logged
		return nil, err
	}
	defer func() {
		for _, fd := range own {
			unix.Close(fd)
		}
	}()
	proc.later = s.later
	s.number++
	if proc.session, err = p.node.Open(s.number, proc); err != nil {
		proc.close()
		p.refusals.add(err)
		core.BestEffort(socket.Send(conn, message.Refusal(r.Op, errnoOf(err)), nil)) // the error below is logged
		return nil, err
	}
	p.live[proc] = true
	l, a := p.node.Limits, p.node.Address
	reply := message.HelloReply{
		Process: s.number, LID: a.LID, GUID: [8]byte(a.GID[8:]), GID: a.GID, Memory: uint64(l.Memory),
		MaxQP: uint32(l.QPs), MaxCQ: uint32(l.CQs), MaxPD: uint32(l.PDs), MaxMR: uint32(l.MRs), MaxSRQ: uint32(l.SRQs), MaxAH: uint32(l.AHs),
		MaxWR: uint32(l.WR), MaxSGE: maxSGE, MaxInline: maxInline, MaxRDAtomic: broker.MaxRDAtomic,
	}
	if err := p.reply(conn, r.Op, append(alone(own[0], own[1], proc.wake), proc.page.whole(), proc.table.whole()), reply); err != nil {
		p.forget(proc)
		return nil, err
	}
	return proc, nil
}

// later calls f when a request for a connection has waited for a listener.
func (s *Server) later(f func()) {
	time.AfterFunc(broker.EarlyTime, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	})
}

// Properties of the device that the library has.
const (
	maxSGE    = 32
	maxInline = 1024
)

// reply sends a reply that has its parts.
func (p *Port) reply(conn *net.UnixConn, op message.Op, passed []handed, parts ...any) error {
	descriptors, offsets := make([]int, len(passed)), make([]uint64, len(passed))
	for i, one := range passed {
		descriptors[i], offsets[i] = one.fd, uint64(one.at)
	}
	packet, err := message.Reply(op, offsets, parts...)
	if err != nil {
		return err
	}
	return socket.Send(conn, packet, descriptors)
}

// end closes the session of a process.
func (p *Port) end(proc *process) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	p.forget(proc)
}

func (p *Port) forget(proc *process) {
	proc.session.Close()
	if d := p.server.domain; d != nil {
		d.Ended(proc.session.Number)
	}
	for i, n := range proc.counters() {
		p.counts[i] += n
	}
	delete(p.live, proc)
	proc.close()
}

// answer carries a request out, and sends the reply. What another broker has to answer first is tried again then, as is
// what has no room in a pool while ranges of it rest. The next request comes after crowded.
func (p *Port) answer(conn *net.UnixConn, proc *process, r message.Request) (crowded <-chan struct{}, err error) {
	p.server.mu.Lock()
	defer p.server.mu.Unlock()
	defer proc.closePassed()
	var descriptors []handed
	var parts []any
	for until := time.Now().Add(answerTime); ; {
		p.server.crowded() // of others
		descriptors, parts, err = proc.handle(r)
		if c := p.server.crowded(); c != nil {
			crowded = c
		}
		if pending, is := errors.AsType[*broker.Pending](err); is && p.server.await(pending, until) {
			continue
		}
		if full, is := errors.AsType[*restingError](err); !is || !p.rest(full, until) {
			break
		}
	}
	if err == nil {
		return crowded, p.reply(conn, r.Op, descriptors, parts...)
	}
	p.refusals.add(err)
	if limit, is := errors.AsType[*broker.Limit](err); is && !p.logged[limit.Name] {
		p.logged[limit.Name] = true
		p.server.log.Warn("refuse a program with verbs", "limit", limit.Name, "value", limit.Value, "key", limit.Key)
	}
	return crowded, socket.Send(conn, message.Refusal(r.Op, errnoOf(err)), nil)
}

// rest waits, without the lock, until a pool may have room; false: it has waited for long enough. What was freed just
// before the request rests until then.
func (p *Port) rest(e *restingError, until time.Time) bool {
	if e.after <= 0 || time.Now().After(until.Add(restLate)) {
		return false
	}
	p.server.mu.Unlock()
	time.Sleep(min(max(e.after, time.Millisecond), restStep))
	p.server.mu.Lock()
	return !p.closed
}

// errnoOf is what a program sees of an error.
func errnoOf(err error) syscall.Errno {
	if errno, is := errors.AsType[syscall.Errno](err); is {
		return errno
	}
	return syscall.EIO
}

// Wait polls until a socket is at a path, which another node of this machine makes.
func Wait(ctx context.Context, path string) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if info, err := os.Stat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
