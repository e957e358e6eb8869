package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/wire"
)

// links join this host's switch to those of other hosts, and this node's guest to it.
type links struct {
	config    plan.Config
	log       *slog.Logger
	life      context.Context // the node's
	known     *known
	pool      *pool
	hostGroup *hostGroup
	report    func(text string) // to the user

	mu     sync.Mutex
	fabric *fabric.Fabric // this host's switch; nil: there is none
}

// current returns this host's switch; nil: there is none.
func (s *links) current() *fabric.Fabric {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fabric
}

// stats gives what has passed this node's switch.
func (s *links) stats() (fabric.Stats, error) {
	f, vm := s.current(), s.known.job().VM
	const op = "read statistics of the guests' network"
	switch {
	case f != nil:
		return f.Stats(), nil
	case vm != nil && vm.Fabric == fabric.Multicast && s.config.Size > 1:
		return fabric.Stats{}, &core.Error{
			Kind: core.Unsupported, Op: op, Err: errors.New("with multicast the hypervisors speak to each other, and no switch counts"),
			Remedy: "`vm: {fabric: switch}` counts; `ip -s link` in a guest (`bee vm shell`) shows what passes its own interface.",
		}
	}
	return fabric.Stats{}, &core.Error{
		Kind: core.NotFound, Op: op, Err: errors.New("the run has none (yet)"),
		Remedy: "It is there where the Beefile has `vm:`, more than one node and not `fabric: none`, once the guests are about to start.",
	}
}

// join makes this node's part of the network between the guests, and
// keeps it linked to the others'.
func (s *links) join(plan *plan.Plan) error {
	if plan.VM == nil || s.config.Size == 1 || plan.VM.Fabric == fabric.None {
		return nil
	}
	if err := fabric.Check(plan.VM.Fabric, s.config.Size); err != nil {
		return err
	}
	if plan.VM.Fabric == fabric.Multicast {
		return s.tryMulticast()
	}
	place := peercall.PlaceOf(s.config)
	f := s.hostGroup.join(func() *fabric.Fabric { return fabric.New(plan.VM.Fabric, plan.VM.NIC, place, s.log) })
	s.mu.Lock()
	s.fabric = f
	s.mu.Unlock()
	if s.config.Rank != place.First(place.Host) {
		return nil // the host's first manages its links
	}
	for _, host := range fabric.Above(plan.VM.Fabric, place.Host) {
		go s.keep(s.life, f, host)
	}
	return nil
}

// tryMulticast finds out, before any guest hangs on it, whether this host
// hears what the head sends. The head sends as long as it lives: a few bytes.
func (s *links) tryMulticast() error {
	if s.config.Rank > 0 {
		return fabric.Hear(s.life, s.config.Owner.Run, s.pool.ownIP())
	}
	ip := s.pool.ownIP()
	go func() {
		if err := fabric.Beacon(s.life, s.config.Owner.Run, ip); err != nil {
			s.log.Warn("send multicast", "err", err)
		}
	}()
	return nil
}

// attach gives the guest its port of the switch, where there is one.
func (s *links) attach(m *Machine) (err error) {
	f := s.current()
	if f == nil {
		return nil
	}
	if m.NIC != fabric.Rings {
		m.Port, err = f.Attach(s.config.Rank)
		return err
	}
	path := filepath.Join(plan.NodeDir(s.config.Host.Dir, s.config.Rank), "fabric.sock")
	l, err := wire.ListenUnix(path)
	if err != nil {
		return err
	}
	m.PortPath = path
	return f.AttachRings(s.config.Rank, l)
}

// keep links this host's switch to another's by as many connections as the link wants.
// A way that stays broken is reported to the user, with whom it cuts off, and then led by
// the head.
func (s *links) keep(ctx context.Context, f *fabric.Fabric, host int) {
	w := &outage{links: s, host: host, linked: func() bool { return f.Linked(host) }}
	for {
		select {
		case slot := <-f.Wanted(host):
			go s.keepConnection(ctx, f, w, slot)
		case <-ctx.Done():
			return
		}
	}
}

// keepConnection makes one of a link's connections, again when that breaks: the first one
// soon, and those without which there is a route at longer intervals.
func (s *links) keepConnection(ctx context.Context, f *fabric.Fabric, w *outage, slot int) {
	backoff := fsutil.Backoff{First: firstPause, Longest: longPause}
	for ctx.Err() == nil {
		l, by, err := s.dial(ctx, f, w, slot)
		switch {
		case err == nil:
			backoff.Reset()
			w.over(by)
			select {
			case <-l.Done():
				if l.Last() {
					w.begin(l.Heard(), l.Err())
				}
			case <-ctx.Done():
				return
			}
		case slot == 0:
			w.note(err)
			backoff.Reset()
		}
		if backoff.Wait(ctx) != nil { // the other host may not be ready yet
			return
		}
	}
}

// linkTimeout is how long making a link may take. One that is slower would not
// live: a second of silence ends it.
const linkTimeout = 3 * time.Second

// dial makes a connection to another host's switch, the first one by the head in an
// outage that lasts; by says so. Who forwards what to whom stays as it is.
func (s *links) dial(ctx context.Context, f *fabric.Fabric, w *outage, slot int) (l *fabric.Connection, by string, err error) {
	rank := peercall.PlaceOf(s.config).First(w.host)
	_, m := s.pool.knownPeer(rank)
	direct, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	c, err := s.dialDirect(direct, m.Addr, rank, slot)
	if err != nil && slot == 0 && w.host > 0 && w.lasts() {
		if led, e := s.pool.dialAround(ctx, rank, purposesOf(forFabric)[slot]); e == nil {
			c, by, err = led, ", by way of "+s.hostOf(0), nil
		}
	}
	if err != nil {
		return nil, "", err
	}
	if l, err = f.Link(w.host, slot, c); err != nil {
		c.Close()
	}
	return l, by, err
}

// dialDirect makes one connection, in clear if the run has them so.
func (s *links) dialDirect(ctx context.Context, addr string, rank, slot int) (net.Conn, error) {
	if !s.inClear() {
		return s.pool.dial(ctx, addr, rank, purposesOf(forFabric)[slot])
	}
	secure, err := s.pool.dial(ctx, addr, rank, purposesOf(forClear)[slot])
	if err != nil {
		return nil, err
	}
	c, err := secure.Clear(ctx)
	if err != nil {
		secure.Close()
	}
	return c, err
}

// inClear reports whether the run wants its links unencrypted. Those that another
// node leads are encrypted all the same, as it is to see nothing of what passes.
func (s *links) inClear() bool {
	vm := s.known.job().VM
	return vm != nil && vm.Encryption == plan.EncryptionNone
}

// accept takes a connection from another host's switch, which may want it in clear.
func (s *links) accept(ctx context.Context, secure *wire.Secure, rank, slot int, clear bool) error {
	f := s.current()
	switch {
	case f == nil:
		return errors.New("this node has no switch (yet)")
	case clear && !s.inClear():
		return errors.New("the run's links are encrypted, and this one was to be in clear")
	}
	var c net.Conn = secure
	if clear {
		var err error
		if c, err = secure.Clear(ctx); err != nil {
			return err
		}
	}
	_, err := f.Link(rank/max(s.config.PerHost, 1), slot, c)
	return err
}

func (s *links) leave() {
	if s.current() != nil {
		s.hostGroup.leave()
	}
}

// hostOf names a host by its first node.
func (s *links) hostOf(host int) string {
	_, m := s.pool.knownPeer(peercall.PlaceOf(s.config).First(host))
	return m.Name
}

func (s *links) listHosts(hosts []int) string {
	text := ""
	for i, h := range hosts {
		if i > 0 {
			text += ", "
		}
		text += s.hostOf(h)
	}
	return text
}
