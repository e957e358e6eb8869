package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/rpc"
)

// outageTime is how long nothing may come from another host's switch before the
// user is notified of it, which shall be within two seconds. Most ways are mended sooner.
const outageTime = 1750 * time.Millisecond

// outage watches over the way from this host's switch to another's. Such a way
// may break where the one to the head, over which hosts count as lost, does not.
type outage struct {
	n      *node
	host   int
	linked func() bool

	mu        sync.Mutex
	since     time.Time
	why       error
	timer     *time.Timer
	announced bool
}

// begin says that the way is broken, over which the other was heard last then.
func (o *outage) begin(heard time.Time, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stop()
	o.since, o.why = heard, why
	o.timer = time.AfterFunc(time.Until(heard.Add(outageTime)), o.announce)
}

// note says why there is no way still, or not yet.
func (o *outage) note(why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why = why
}

// lasts reports whether the user has heard of it.
func (o *outage) lasts() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.announced
}

// over says that there is a way, and by whom else if so.
func (o *outage) over(by string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.announced {
		go o.n.report(fmt.Sprintf("the guests' network between %s and %s is whole again after %v%s", o.n.config.Host.Name, o.n.hostOf(o.host), time.Since(o.since).Round(100*time.Millisecond), by))
	}
	o.stop()
	o.since, o.announced = time.Time{}, false
}

// stop has nothing reported. Callers hold mu.
func (o *outage) stop() {
	if o.timer != nil {
		o.timer.Stop()
	}
}

func (o *outage) announce() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() || o.announced || o.linked() {
		return // a connection was there before the end of another was heard of
	}
	o.announced = true
	n := o.n
	text := fmt.Sprintf("warning: the guests' network is broken between %s and %s, for %v now (%v); trying again", n.config.Host.Name, n.hostOf(o.host), time.Since(o.since).Round(100*time.Millisecond), o.why)
	n.mu.Lock()
	kind := ""
	if n.plan.VM != nil {
		kind = n.plan.VM.Fabric
	}
	n.mu.Unlock()
	place := placeOf(n.config)
	if kind == fabric.Star || kind == fabric.Tree {
		text += "; until then the others cannot reach " + n.listHosts(fabric.Below(kind, place.Host, place.Hosts))
	}
	go n.report(text)
}

// hostOf names a host by its first node.
func (n *node) hostOf(host int) string {
	_, m := n.knownPeer(placeOf(n.config).First(host))
	return m.Name
}

func (n *node) listHosts(hosts []int) string {
	text := ""
	for i, h := range hosts {
		if i > 0 {
			text += ", "
		}
		text += n.hostOf(h)
	}
	return text
}

// report reports to the user something, by way of the head's journal.
func (n *node) report(text string) {
	if n.head != nil {
		n.head.note(text)
		return
	}
	if c := n.headConn(); c != nil {
		ctx, cancel := context.WithTimeout(n.life, handshakeTimeout)
		defer cancel()
		rpc.Call(ctx, c, callNote, note{core.Printable(text, maxText)}) //nolint:errcheck // a lost head ends us anyway
	}
}

// note keeps what a node reports to the user.
func (h *head) note(text string) {
	h.n.mu.Lock()
	phase := h.n.phase
	h.n.mu.Unlock()
	h.journal.say(phase, text)
}
