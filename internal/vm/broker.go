package vm

import (
	"context"
	"io"
	"net"

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
	defer s.Close()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		core.BestEffort(io.Copy(s, c)) // its end is what counts
		s.Close()
	}()
	core.BestEffort(io.Copy(c, s)) // likewise, and brokers send again what is lost
	c.Close()
	<-sent
	return nil
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
