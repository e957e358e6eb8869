package sshlink

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

// poolPolicy is when a pool gets more connections. ssh lets a session have so much on the
// inFlight and no more, however long and fat the line is: where that is what limits a
// transfer, more sessions carry it together.
type poolPolicy struct {
	// window is what one session may have on the way, in bytes.
	window int64
	// far is the time there and back from which on that can matter.
	far time.Duration
	// every is how often a connection is looked at.
	every time.Duration
	// idle is how long little may go over many connections before they are closed: they are
	// logins at a host that belongs to others too.
	idle time.Duration
}

// opensshPoolPolicy is that of OpenSSH's sessions, whose window is 64 packets of 32 KiB
// (CHAN_SES_WINDOW_DEFAULT in its channels.h).
func opensshPoolPolicy() poolPolicy {
	return poolPolicy{window: 2 << 20, far: 5 * time.Millisecond, every: time.Second, idle: 20 * time.Second}
}

// tend adds connections to a pool while they are wanted, until it ends.
func (p *Client) tend(l *Link) {
	rtt, err := quickest(l.Peer)
	if err != nil || rtt < p.poolPolicy.far {
		return
	}
	tick := time.NewTicker(p.poolPolicy.every)
	defer tick.Stop()
	wrote, read := l.wide.Moved()
	refused := false
	for little := time.Duration(0); ; {
		select {
		case <-l.Done():
			l.closePooled()
			return
		case <-tick.C:
		}
		w, r := l.wide.Moved()
		inFlight := int64(float64(max(w-wrote, r-read)) * rtt.Seconds() / p.poolPolicy.every.Seconds()) // that was on the way at a time
		wrote, read = w, r
		n, settled := l.wide.Settled()
		little += p.poolPolicy.every
		if inFlight > p.poolPolicy.window/4 {
			little = 0
		}
		switch {
		case !settled: // soon
		case inFlight >= int64(n)*p.poolPolicy.window/2 && n < wire.MaxPooled && !refused:
			refused = p.addPooled(l, min(max(n, 3), wire.MaxPooled-n)) != nil // then it stays as it is
		case n == 1:
			l.closePooled()
		case little >= p.poolPolicy.idle:
			l.wide.Narrow()
		}
	}
}

// quickest is the time there and back, without what else is continuing.
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

// loginWithin is how long the logins of connections may take.
const loginWithin = time.Minute

// addPooled logs in to a connection's host several times more, and has the agents there
// pass what comes to the first one.
func (p *Client) addPooled(l *Link, n int) error {
	select {
	case l.adding <- struct{}{}:
		defer func() { <-l.adding }()
	default:
		return io.ErrClosedPipe
	}
	ctx, cancel := context.WithTimeout(context.Background(), loginWithin)
	defer cancel()
	s, at, err := rpc.Open(ctx, l.Peer, callPool, poolRequest{n})
	if err != nil {
		return err
	}
	defer s.Close()
	links, pooledConns, errs := make([]*Link, n), make([]io.ReadWriteCloser, n), make([]error, n)
	add := func(i int) {
		if links[i], errs[i] = p.login(ctx, l.host, false); errs[i] == nil {
			pooledConns[i], _, errs[i] = rpc.Open(context.WithoutCancel(ctx), links[i].Peer, callJoinPool, joinRequest{at, i})
		}
	}
	if add(0); errs[0] == nil { // one refusal is enough: some hosts lock out who asks too often
		others := make([]func() error, 0, n)
		for i := 1; i < n; i++ {
			others = append(others, func() error { add(i); return nil })
		}
		errs = append(errs, core.Together(others))
	}
	err = errors.Join(errs...)
	if err == nil {
		_, err = rpc.Receive[rpc.None](s, maxNote) // the agent has them all
	}
	if !l.keepPooled(links, err == nil) {
		return errors.Join(err, io.ErrClosedPipe)
	}
	l.wide.Add(pooledConns...)
	return nil
}

// keepPooled has the further sessions end with the pool, or at once.
func (l *Link) keepPooled(links []*Link, good bool) bool {
	l.mu.Lock()
	if good = good && !l.closed; good {
		l.pooledConns = append(l.pooledConns, links...)
	}
	l.mu.Unlock()
	if !good {
		CloseAll(links)
	}
	return good
}

// closePooled ends the sessions of connections that are not used any more.
func (l *Link) closePooled() {
	l.mu.Lock()
	links := l.pooledConns
	l.pooledConns = nil
	l.mu.Unlock()
	CloseAll(links)
}

// CloseAll closes the connections that there are.
func CloseAll(links []*Link) {
	for _, k := range links {
		if k != nil {
			k.Close()
		}
	}
}

// poolListener and poolCaller are the ends of a connection within a host, as its key knows
// them.
const poolListener, poolCaller = "taker", "bringer"

// offerPool takes n connections that other agents of this user on this host bring, and
// has the connection use them.
func (a *agent) offerPool(ctx context.Context, _ rpc.Caller, r poolRequest, s rpc.Answer[poolOffer]) error {
	hidden, at, err := wire.ListenHidden()
	if err != nil {
		return err
	}
	defer hidden.Close()
	ctx, end := s.Broken(ctx)
	defer end()
	defer context.AfterFunc(ctx, func() { hidden.Close() })()
	key := wire.NewKey()
	if err := s.Reply(poolOffer{at, key}); err != nil {
		return err
	}
	pooledConns, err := acceptPooled(ctx, hidden, key, r.Number)
	if err != nil {
		return err
	}
	a.wide.Add(pooledConns...)
	return rpc.Send(s, rpc.None{}, maxNote)
}

// acceptPooled waits for n connections, each of which is brought once. Strangers end nothing.
func acceptPooled(ctx context.Context, hidden net.Listener, key wire.Key, n int) ([]io.ReadWriteCloser, error) {
	type pooledConn struct {
		net.Conn
		number int
	}
	brought := make(chan pooledConn)
	var g wire.Gate
	go g.Serve(hidden, func(c net.Conn, known func() bool) {
		var which [1]byte
		if key.Prove(c, poolListener, poolCaller) != nil {
			return
		}
		if _, err := io.ReadFull(c, which[:]); err != nil || !known() {
			return
		}
		select {
		case brought <- pooledConn{c, int(which[0])}:
		case <-ctx.Done():
			c.Close()
		}
	})
	pooledConns := make([]io.ReadWriteCloser, n)
	for range pooledConns {
		var l pooledConn
		err := errors.New("a connection that was not asked for")
		select {
		case l = <-brought:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if l.Conn != nil && l.number < n && pooledConns[l.number] == nil {
			pooledConns[l.number] = l.Conn
			continue
		}
		if l.Conn != nil {
			l.Close()
		}
		for _, other := range pooledConns {
			if other != nil {
				other.Close()
			}
		}
		return nil, err
	}
	return pooledConns, nil
}

// joinPool passes what comes to the agent that wants connections. Where a name leads to one of
// several machines, that is perhaps not there.
func joinPool(ctx context.Context, _ rpc.Caller, r joinRequest, s rpc.Answer[rpc.None]) error {
	conn, err := wire.DialUnix(ctx, r.Offer.Path)
	if err != nil {
		return &core.Error{Kind: core.Unsupported, Op: "join a connection pool", Err: err}
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = r.Offer.Key.Prove(conn, poolCaller, poolListener)
	stop()
	if err == nil {
		_, err = conn.Write([]byte{byte(r.Number)}) // a few
	}
	if err != nil {
		return err
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return wire.Splice(s, conn)
}
