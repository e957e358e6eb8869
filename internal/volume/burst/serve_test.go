package burst

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// TestLooksDoNotKeepTheProcess: a process without a client ends although its status is asked
// for all the time, as `bee show` does.
func TestLooksDoNotKeepTheProcess(t *testing.T) {
	t.Parallel()
	c := newShared(t)
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- Serve(context.Background(), c, nil, slog.New(slog.DiscardHandler), func() { close(ready) })
	}()
	<-ready
	late, looks := time.After(12*linger), 0
	for {
		if peer, err := c.Dial(t.Context()); err == nil {
			if _, err := rpc.Call(t.Context(), peer, calls.StatusCall, rpc.None{}); err == nil {
				looks++
			}
			peer.Close()
		}
		select {
		case err := <-ended:
			if err != nil || looks == 0 {
				t.Errorf("after %d looks it ended with %v", looks, err)
			}
			return
		case <-late:
			t.Fatalf("after %d looks it still runs", looks)
		default:
			core.BestEffort(core.Sleep(t.Context(), 50*time.Millisecond))
		}
	}
}
