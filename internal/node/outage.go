package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/peercall"
)

// outageTime is how long nothing may come from another host's switch before the
// user is notified of it, which shall be within two seconds. Most ways are mended sooner.
const outageTime = 1750 * time.Millisecond

// outage watches over the way from this host's switch to another's. Such a way
// may break where the one to the head, over which hosts count as lost, does not.
type outage struct {
	links  *links
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
		go o.links.report(fmt.Sprintf("the guests' network between %s and %s is whole again after %v%s", o.links.config.Host.Name, o.links.hostOf(o.host), time.Since(o.since).Round(100*time.Millisecond), by))
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
	l := o.links
	text := fmt.Sprintf("warning: the guests' network is broken between %s and %s, for %v now (%v); trying again", l.config.Host.Name, l.hostOf(o.host), time.Since(o.since).Round(100*time.Millisecond), o.why)
	kind := ""
	if vm := l.known.job().VM; vm != nil {
		kind = vm.Fabric
	}
	place := peercall.PlaceOf(l.config)
	if kind == fabric.Star || kind == fabric.Tree {
		text += "; until then the others cannot reach " + l.listHosts(fabric.Below(kind, place.Host, place.Hosts))
	}
	go l.report(text)
}
