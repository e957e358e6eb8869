package node_test

import (
	"bytes"
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/wire"
)

// TestNodesInAFlood: strangers open connections to a head's ports, and a job to the socket
// of its container, and say nothing; nodes join and commands run all the same.
func TestNodesInAFlood(t *testing.T) {
	c := newCluster(t, 2, "sleep 1000").start(0)
	addrs := c.headAddresses()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	flood := func(dial func() (net.Conn, error)) {
		var open []net.Conn
		pace := time.NewTicker(time.Millisecond) // other tests want the processors too
		defer pace.Stop()
		for ctx.Err() == nil {
			<-pace.C
			if c, err := dial(); err == nil {
				open = append(open, c)
			}
			if len(open) > 300 {
				open[0].Close()
				open = open[1:]
			}
		}
		for _, c := range open {
			c.Close()
		}
	}
	all.Go(func() { flood(func() (net.Conn, error) { return net.Dial("tcp", addrs[0]) }) })
	dir := c.configs[0].Host.Dir
	for _, path := range []string{plan.SocketPath(dir, 0), filepath.Join(plan.RunDir(dir, 0), plan.SocketName)} {
		all.Go(func() { flood(func() (net.Conn, error) { return wire.DialUnix(ctx, path) }) })
	}
	defer all.Wait()
	defer stop()
	c.configs[1].Head = addrs
	c.launch(1)
	c.awaitPhase(core.PhaseRun)
	var out bytes.Buffer
	exit, err := c.dial(0).Exec(ctx, nodecall.ExecRequest{Rank: 1, Args: []string{"echo", "hello"}}, nil, &out, &out, nil)
	if err != nil || exit.Code != 0 || out.String() != "hello\n" {
		t.Errorf("%q, %+v, %v", out.String(), exit, err)
	}
}
