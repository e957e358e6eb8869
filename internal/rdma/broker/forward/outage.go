package forward

import (
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// outageTick is how often a link without a connection looks for what has waited for too long.
const outageTick = 50 * time.Millisecond

// broke notes the end of a link's connection, and asks for another one unless it was the last.
func (l *link) broke(last bool) {
	f := l.far
	f.o.Host.Lock()
	defer f.o.Host.Unlock()
	l.conn, l.since = nil, time.Now()
	close(l.idle)
	if l.over {
		return
	}
	if last || f.ended {
		l.lost()
		return
	}
	for _, p := range l.order {
		p.waits = time.Time{}
	}
	l.again()
	l.watch(l.since)
}

// again asks for a connection where anything waits for it.
func (l *link) again() {
	if len(l.order)+len(l.calls)+len(l.early)+len(l.out)+len(l.sent.batches) > 0 || l.groups.reported != l.far.joins || l.mail() {
		l.far.o.Want(l.ranks[0])
	}
}

// watch looks for what has waited for too long, as long as an outage lasts.
func (l *link) watch(since time.Time) {
	time.AfterFunc(outageTick, func() {
		l.far.o.Host.Lock()
		defer l.far.o.Host.Unlock()
		if l.conn != nil || l.over || l.since != since {
			return
		}
		if l.expire(time.Now()); l.over {
			return
		}
		l.again()
		l.watch(since)
	})
}

// expire ends what has waited for too long, as there is no connection.
func (l *link) expire(now time.Time) {
	for _, p := range slices.Clone(l.order) {
		switch {
		case p.closed && now.After(p.lastBy): // as on a link that is there
			l.out = append(l.out, p.last...)
			p.release()
		case p.closed || !p.waiting():
			p.waits = time.Time{}
		case p.waits.IsZero():
			p.waits = now
		case p.end.LongestWait() > 0 && now.Sub(p.waits) > p.end.LongestWait():
			l.sent.void(p.name)
			p.lost()
			l.abandon(func(c *call) bool { return c.local.QueuePair() == p.name.own })
		}
	}
	if now.Sub(l.since) > callTime {
		l.abandon(func(c *call) bool { return c.local.Requested() && now.Sub(c.since) > callTime })
	}
	if len(l.out) > mostWaiting { // programs do a lot meanwhile
		l.lost()
	}
}

// abandon ends calls, also at the other side once that is there.
func (l *link) abandon(which func(c *call) bool) {
	for _, c := range l.calls {
		if which(c) {
			out, at := c.append(l.out, broker.Loss())
			l.out = finish(out, at)
			c.lost()
		}
	}
}

// waiting reports whether a program waits for the other side.
func (p *pair) waiting() bool {
	return p.connected && !p.broken && (p.tx.Waiting() || p.theirs.done < p.counted || p.asked != p.answered)
}
