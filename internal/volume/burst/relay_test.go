package burst

import (
	"log/slog"
	"net"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

// TestEarlierProcessesKnowNoRelay: who needs none uses them all the same.
func TestEarlierProcessesKnowNoRelay(t *testing.T) {
	near, far := net.Pipe()
	go func() {
		if p, err := rpc.NewPeer(far, false, "a client", wire.Local, calls.Protocol); err == nil {
			p.Serve(t.Context(), rpc.NewServer(slog.New(slog.DiscardHandler)), rpc.Caller{Role: rpc.Controller, Rank: -1})
		}
	}()
	peer, err := rpc.Dial(near, "an earlier process", wire.Local, calls.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	c := Config{At: remote.Place{Bucket: "b"}}
	if err := c.passRelay(t.Context(), peer); err != nil {
		t.Error(err)
	}
	c.Relay = true
	if err := c.passRelay(t.Context(), peer); !core.IsKind(err, core.Unsupported) {
		t.Errorf("a relay is not known there: %v", err)
	}
}
