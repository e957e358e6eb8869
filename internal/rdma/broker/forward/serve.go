package forward

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"time"
)

// Serve greets the broker at the other end of a connection, which the node of a rank has, and connects
// queue pairs by it until it breaks, or the context ends. The next connection continues where one has broken.
func (f *Far) Serve(ctx context.Context, conn net.Conn, rank int) error {
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 2*mostFrame)
	own, theirs, err := f.greet(conn, in, rank)
	if err != nil {
		return err
	}
	l, again, err := f.begin(conn, rank, own, theirs)
	if err != nil {
		return err
	}
	written := make(chan error, 1)
	end := make(chan struct{})
	go func() { written <- l.write(conn, again, end) }()
	err = l.read(in)
	conn.Close()
	close(end)
	if werr := <-written; errors.Is(err, net.ErrClosed) && werr != nil {
		err = werr // the writer has seen why, and closed the connection under the reader
	}
	l.broke(ctx.Err() != nil || errors.Is(err, errFrame))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// greet exchanges greetings with the other side. One that has waited in a connection may be true no more, so each
// side confirms its own after it has read the other's.
func (f *Far) greet(conn net.Conn, in *bufio.Reader, rank int) (own, theirs greeting, err error) {
	own = f.greeting(rank)
	if err = conn.SetDeadline(time.Now().Add(greetTime)); err == nil {
		_, err = conn.Write(own.frame())
	}
	if err == nil {
		theirs, err = readGreeting(in, f.o.Build)
	}
	if err == nil && !f.mayName(rank, theirs.Ranks) {
		err = fmt.Errorf("the broker of node %d names %d nodes as its own that it cannot have", rank, len(theirs.Ranks))
	}
	if err == nil {
		err = f.confirm(conn, rank, own)
	}
	if err == nil {
		var k kind
		if k, _, err = readFrame(in, make([]byte, mostFrame)); err == nil && k != frameGo {
			err = errFrame
		}
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	return own, theirs, err
}

// mayName reports whether the broker of a node may have such nodes: those of its machine, each once, and none of this
// one.
func (f *Far) mayName(rank int, ranks []int) bool {
	seen := map[int]bool{}
	for _, r := range ranks {
		if seen[r] || slices.Contains(f.o.Ranks, r) || r != rank && !f.o.Together(rank, r) {
			return false
		}
		seen[r] = true
	}
	return seen[rank]
}

// greeting is that for the broker of a node. A connection with it that is there ends first, as the other side has
// made another one.
func (f *Far) greeting(rank int) greeting {
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	l := f.links[rank]
	for l != nil && l.conn != nil {
		idle := l.idle
		l.conn.Close()
		f.o.Host.Unlock()
		<-idle
		f.o.Host.Lock()
		l = f.links[rank]
	}
	g := greeting{Build: f.o.Build, Nonce: rand.Uint64(), Ranks: f.o.Ranks}
	if l != nil {
		g.Link, g.Received = l.id, l.received
	}
	return g
}

// confirm reports to the other side that a greeting is still true.
func (f *Far) confirm(conn net.Conn, rank int, own greeting) error {
	f.o.Host.Lock()
	_, err := f.linkOf(rank, own)
	f.o.Host.Unlock()
	if err == nil {
		_, err = conn.Write(finish(begin(nil, frameGo)))
	}
	return err
}

// linkOf returns the link that a greeting is about; nil: none. It is an error where the greeting is true no more.
func (f *Far) linkOf(rank int, own greeting) (*link, error) {
	l := f.links[rank]
	if f.ended {
		return nil, net.ErrClosed
	}
	if l == nil && own.Link != 0 || l != nil && (l.conn != nil || l.id != own.Link || l.received != own.Received) {
		return nil, fmt.Errorf("there is another connection with the broker of node %d", rank)
	}
	return l, nil
}

// begin has the link of a node use a connection: a new link, where the sides have not the same one. It returns
// what has to be sent again.
func (f *Far) begin(conn net.Conn, rank int, own, theirs greeting) (l *link, again [][]byte, err error) {
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	if l, err = f.linkOf(rank, own); err != nil {
		return nil, nil, err
	}
	if l != nil && (l.id != theirs.Link || !slices.Equal(l.ranks, theirs.Ranks) || theirs.Received > l.sent.frames) {
		l.lost()
		l = nil
	}
	if l == nil {
		l, err = f.link(own.Nonce^theirs.Nonce, theirs.Ranks)
	} else {
		again, err = l.sent.again(theirs.Received)
	}
	if err != nil {
		return nil, nil, err
	}
	l.reported = l.received
	l.conn, l.since, l.heard, l.idle = conn, time.Now(), time.Now(), make(chan struct{})
	return l, again, nil
}

// link makes one, and has what waits for the ranks of the other side use it.
func (f *Far) link(id uint64, ranks []int) (*link, error) {
	for _, r := range ranks {
		if f.links[r] != nil {
			return nil, fmt.Errorf("there is a link with the broker of node %d", r)
		}
	}
	l := &link{
		far: f, id: id, ranks: ranks, pairs: map[name]*pair{}, early: map[name]early{},
		calls: map[callName]*call{}, backlogs: map[target]*backlog{}, awake: make(chan struct{}, 1),
	}
	for _, r := range l.ranks {
		f.links[r] = l
		for _, p := range f.waiting[r] {
			l.add(p)
		}
		delete(f.waiting, r)
		for _, c := range f.callers[r] {
			l.request(c)
		}
		delete(f.callers, r)
	}
	return l, nil
}
