package node

import (
	"log/slog"
	"net"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// annsGuest is a container with a guest.
type annsGuest struct{ driver.Container }

func (annsGuest) Guest() driver.Guest { return ann{} }

// ann is the account in a guest.
type ann struct{ driver.Guest }

func (ann) Login() string { return "ann" }

// bare is a container without a virtual machine.
type bare struct{ driver.Container }

func (bare) Guest() driver.Guest        { return nil }
func (bare) Memory() driver.MemoryLimit { return nil }

// controllerOf connects to a node as a controller does.
func controllerOf(t *testing.T, n *node) *client.Client {
	t.Helper()
	here, there := net.Pipe()
	peer, err := rpc.NewPeer(there, false, "the client", wire.Prompt, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	go peer.Serve(t.Context(), n.newServer(), rpc.Caller{Role: rpc.Controller})
	c, err := client.New(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestTheNodeTellsTheAccountInItsGuest, which only the site's host knows.
func TestTheNodeTellsTheAccountInItsGuest(t *testing.T) {
	for _, c := range []struct {
		container *container.Container
		want      string
		kind      core.Kind
	}{
		{&container.Container{Container: annsGuest{}}, "ann", 0},
		{&container.Container{Container: bare{}}, "", core.NotFound},
		{nil, "", core.Transient},
	} {
		n := newNode(t.Context(), plan.Config{}, Options{Log: slog.New(slog.DiscardHandler)}, nil)
		n.current.Set(c.container)
		if got, err := controllerOf(t, n).Login(t.Context()); got != c.want || (err == nil) != (c.want != "") || err != nil && core.KindOf(err) != c.kind {
			t.Errorf("%+v: %q, %v", c.container, got, err)
		}
	}
}
