package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// laning is when a connection gets more lanes. ssh lets a session have so much on the
// way and no more, however long and fat the line is: where that is what limits a
// transfer, more sessions carry it together.
type laning struct {
	// window is what one session may have on the way, in bytes.
	window int64
	// far is the time there and back from which on that can matter.
	far time.Duration
	// every is how often a connection is looked at.
	every time.Duration
	// idle is how long little may go over many lanes before they are given up: they are
	// logins at a host that belongs to others too.
	idle time.Duration
}

// opensshLaning is that of OpenSSH's sessions, whose window is 64 packets of 32 KiB
// (CHAN_SES_WINDOW_DEFAULT in its channels.h).
func opensshLaning() laning {
	return laning{window: 2 << 20, far: 5 * time.Millisecond, every: time.Second, idle: 20 * time.Second}
}

// tend gives a connection more lanes while they are wanted, until it ends.
func (p *provider) tend(l *link) {
	rtt, err := quickest(l.Peer)
	if err != nil || rtt < p.laning.far {
		return
	}
	tick := time.NewTicker(p.laning.every)
	defer tick.Stop()
	wrote, read := l.wide.Moved()
	refused := false
	for little := time.Duration(0); ; {
		select {
		case <-l.Done():
			l.closeLanes()
			return
		case <-tick.C:
		}
		w, r := l.wide.Moved()
		way := int64(float64(max(w-wrote, r-read)) * rtt.Seconds() / p.laning.every.Seconds()) // that was on the way at a time
		wrote, read = w, r
		n, settled := l.wide.Settled()
		little += p.laning.every
		if way > p.laning.window/4 {
			little = 0
		}
		switch {
		case !settled: // soon
		case way >= int64(n)*p.laning.window/2 && n < wire.MaxLanes && !refused:
			refused = p.addLanes(l, min(max(n, 3), wire.MaxLanes-n)) != nil // then it stays as it is
		case n == 1:
			l.closeLanes()
		case little >= p.laning.idle:
			l.wide.Narrow()
		}
	}
}

// quickest is the time there and back, without what else is going on.
func quickest(peer *rpc.Peer) (time.Duration, error) {
	best := time.Hour
	for range 3 {
		d, err := peer.RoundTrip()
		if err != nil {
			return 0, err
		}
		best = min(best, d)
	}
	return best, nil
}

// loginWithin is how long the logins of lanes may take.
const loginWithin = time.Minute

// addLanes logs in to a connection's host several times more, and has the agents there
// pass what comes to the first one.
func (p *provider) addLanes(l *link, n int) error {
	select {
	case l.adding <- struct{}{}:
		defer func() { <-l.adding }()
	default:
		return io.ErrClosedPipe
	}
	ctx, cancel := context.WithTimeout(context.Background(), loginWithin)
	defer cancel()
	s, at, err := rpc.Open(ctx, l.Peer, callLanes, lanesRequest{n})
	if err != nil {
		return err
	}
	defer s.Close()
	links, lanes, errs := make([]*link, n), make([]io.ReadWriteCloser, n), make([]error, n)
	add := func(i int) {
		if links[i], errs[i] = p.login(ctx, l.host, false); errs[i] == nil {
			lanes[i], _, errs[i] = rpc.Open(context.WithoutCancel(ctx), links[i].Peer, callLane, laneRequest{at, i})
		}
	}
	if add(0); errs[0] == nil { // one refusal is enough: some hosts lock out who asks too often
		p.each(n-1, func(i int) { add(i + 1) })
	}
	err = errors.Join(errs...)
	if err == nil {
		_, err = rpc.Receive[rpc.None](s, maxNote) // the agent has them all
	}
	if !l.keepLanes(links, err == nil) {
		return errors.Join(err, io.ErrClosedPipe)
	}
	l.wide.Add(lanes...)
	return nil
}

// keepLanes has the sessions of lanes end with the connection, or at once.
func (l *link) keepLanes(links []*link, good bool) bool {
	l.mu.Lock()
	if good = good && !l.closed; good {
		l.lanes = append(l.lanes, links...)
	}
	l.mu.Unlock()
	if !good {
		closeAll(links)
	}
	return good
}

// closeLanes ends the sessions of lanes that are not used any more.
func (l *link) closeLanes() {
	l.mu.Lock()
	links := l.lanes
	l.lanes = nil
	l.mu.Unlock()
	closeAll(links)
}

// closeAll closes the connections that there are.
func closeAll(links []*link) {
	for _, k := range links {
		if k != nil {
			k.Close()
		}
	}
}

// The ends of a lane within a host, as its key knows them.
const laneTaker, laneBringer = "taker", "bringer"

// offerLanes takes n lanes that other agents of this user on this host bring, and
// has the connection use them.
func (a Agent) offerLanes(ctx context.Context, _ rpc.Caller, r lanesRequest, s rpc.Answer[laneOffer]) error {
	door, at, err := wire.ListenHidden()
	if err != nil {
		return err
	}
	defer door.Close()
	ctx, end := s.Broken(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { door.Close() })()
	key := wire.NewKey()
	if err := s.Reply(laneOffer{at, key}); err != nil {
		return err
	}
	lanes, err := takeLanes(ctx, door, key, r.Number)
	if err != nil {
		return err
	}
	a.wide.Add(lanes...)
	return rpc.Send(s, rpc.None{}, maxNote)
}

// takeLanes waits for n lanes, each of which is brought once. Strangers end nothing.
func takeLanes(ctx context.Context, door net.Listener, key wire.Key, n int) ([]io.ReadWriteCloser, error) {
	type lane struct {
		net.Conn
		number int
	}
	brought := make(chan lane)
	var g wire.Gate
	go g.Serve(door, func(c net.Conn, known func() bool) {
		var which [1]byte
		if key.Prove(c, laneTaker, laneBringer) != nil {
			return
		}
		if _, err := io.ReadFull(c, which[:]); err != nil || !known() {
			return
		}
		select {
		case brought <- lane{c, int(which[0])}:
		case <-ctx.Done():
			c.Close()
		}
	})
	lanes := make([]io.ReadWriteCloser, n)
	for range lanes {
		var l lane
		err := errors.New("not a lane")
		select {
		case l = <-brought:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if l.Conn != nil && l.number < n && lanes[l.number] == nil {
			lanes[l.number] = l.Conn
			continue
		}
		if l.Conn != nil {
			l.Close()
		}
		for _, other := range lanes {
			if other != nil {
				other.Close()
			}
		}
		return nil, err
	}
	return lanes, nil
}

// beLane passes what comes to the agent that wants lanes. Where a name leads to one of
// several machines, that is perhaps not there.
func beLane(ctx context.Context, _ rpc.Caller, r laneRequest, s rpc.Answer[rpc.None]) error {
	conn, err := wire.DialUnix(ctx, r.Offer.Path)
	if err != nil {
		return &core.Error{Kind: core.Unsupported, Op: "be a lane", Err: err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = r.Offer.Key.Prove(conn, laneBringer, laneTaker)
	stop()
	if err == nil {
		_, err = conn.Write([]byte{byte(r.Number)}) //nolint:gosec // a few
	}
	if err != nil {
		return err
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return wire.Splice(s, conn)
}
