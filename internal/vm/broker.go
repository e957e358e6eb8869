package vm

import (
	"context"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
)

// guestBroker is the broker that the agent of a container's machine runs.
type guestBroker struct{ c *container }

// Broker implements driver.Guest.
func (c *container) Broker() driver.GuestBroker {
	if !c.brokers {
		return nil
	}
	return guestBroker{c}
}

// Serve implements driver.GuestBroker.
func (b guestBroker) Serve(ctx context.Context, c net.Conn, rank int) error {
	defer c.Close()
	s, _, err := rpc.Open(ctx, b.c.machine.containerAgent, api.CallLink, api.BrokerRequest{Rank: rank})
	if err != nil {
		return b.c.lost(err)
	}
	carry(c, s, carryTime)
	return nil
}

// carryTime is how long what a broker sends may find no room. The other side reads at once, or is silent.
const carryTime = 10 * time.Second

// carry passes on what either side of a link sends until one ends, or takes nothing for a time, and closes both. Brokers
// send again what is lost.
func carry(c, s net.Conn, within time.Duration) {
	var both sync.WaitGroup
	for _, route := range [][2]net.Conn{{c, s}, {s, c}} {
		both.Go(func() {
			core.BestEffort(io.Copy(timely{route[0], within}, route[1])) // its end is what counts
			c.Close()
			core.BestEffort(s.SetDeadline(time.Unix(1, 0))) // a stream that is closed here may still be read
			s.Close()
		})
	}
	both.Wait()
}

// timely is a connection each write of which has a time.
type timely struct {
	conn   net.Conn
	within time.Duration
}

func (t timely) Write(b []byte) (int, error) {
	if err := t.conn.SetWriteDeadline(time.Now().Add(t.within)); err != nil {
		return 0, err
	}
	return t.conn.Write(b)
}

// Renew implements driver.GuestBroker.
func (b guestBroker) Renew(ctx context.Context, rank int) error {
	_, err := call(ctx, b.c, api.CallRenew, api.BrokerRequest{Rank: rank})
	return err
}

// Statistics implements driver.GuestBroker.
func (b guestBroker) Statistics(ctx context.Context) (core.VerbsPort, error) {
	return call(ctx, b.c, api.CallVerbs, rpc.None{})
}
