package guest

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// networkTime is how long a machine's boot waits for its network cards to appear, and for one of them to get an address.
const networkTime = 5 * time.Minute

// cards are the network cards of a machine.
type cards struct {
	// find returns the names of those that there are now.
	find func() []string
	// ask asks for an address on one. The route of the least metric is used first.
	ask func(name string, metric int) error
}

// machineCards are those with hardware. Their addresses, routes and name servers are from DHCP.
func machineCards() cards {
	return cards{
		find: func() []string {
			names, _ := filepath.Glob("/sys/class/net/*/device")
			for i, n := range names {
				names[i] = filepath.Base(filepath.Dir(n))
			}
			return names
		},
		ask: func(name string, metric int) error {
			return command("dhclient", "-1", "-q", "-e", fmt.Sprintf("IF_METRIC=%d", metric), "-pf", "/run/dhclient."+name+".pid", "-lf", "/run/dhclient."+name+".leases", name)
		},
	}
}

// start asks for addresses on all network cards, and returns when one has one, or after a time. The search for cards,
// and the questions on those without an address, continue until ctx ends: a server of DHCP may be away for long.
func (c cards) start(ctx context.Context, most time.Duration) error {
	up, found := make(chan struct{}, 1), &atomic.Int64{}
	go c.search(ctx, found, up)
	select {
	case <-up:
		return nil
	case <-time.After(most):
		return fmt.Errorf("%d network cards were found, and none got an address within %v; they are asked further", found.Load(), most)
	}
}

// search asks on each card that it finds, and counts these. A card may come late: its driver probes it beside us.
func (c cards) search(ctx context.Context, found *atomic.Int64, up chan<- struct{}) {
	asked := map[string]bool{}
	for pause := (fsutil.Backoff{First: 200 * time.Millisecond, Longest: 5 * time.Second}); ; {
		for _, name := range c.find() {
			if asked[name] {
				continue
			}
			asked[name] = true
			go c.retry(ctx, name, 100+int(found.Add(1)), up)
		}
		if pause.Wait(ctx) != nil {
			return
		}
	}
}

// retry asks on a card until it has an address.
func (c cards) retry(ctx context.Context, name string, metric int, up chan<- struct{}) {
	for pause := (fsutil.Backoff{First: time.Second, Longest: time.Minute}); c.ask(name, metric) != nil; {
		if pause.Wait(ctx) != nil {
			return
		}
	}
	select {
	case up <- struct{}{}:
	default: // another card was first
	}
}
