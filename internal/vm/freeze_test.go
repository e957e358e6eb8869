package vm

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// freezer is a guest that is asked to freeze its volume, and to thaw it.
type freezer struct {
	mu    sync.Mutex
	asked []string
	slow  chan struct{} // a freeze is over when it is closed; nil: at once
}

func (f *freezer) server() *rpc.Server {
	s := rpc.NewServer(nil)
	for _, m := range []rpc.Method[rpc.None, rpc.None]{api.CallFreeze, api.CallThaw} {
		rpc.Handle(s, m, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) {
			f.mu.Lock()
			f.asked = append(f.asked, m.Name)
			slow := f.slow
			f.mu.Unlock()
			if m == api.CallFreeze && slow != nil {
				<-slow
			}
			return rpc.None{}, nil
		})
	}
	return s
}

func (f *freezer) heard(want ...rpc.Method[rpc.None, rpc.None]) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.EqualFunc(f.asked, want, func(name string, m rpc.Method[rpc.None, rpc.None]) bool { return name == m.Name })
}

// ofFreezer is a container whose guest has the volume.
func ofFreezer(t *testing.T, f *freezer) *container {
	t.Helper()
	ours, theirs := net.Pipe()
	host, err := rpc.Dial(ours, "guest", wire.Prompt, api.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := rpc.NewPeer(theirs, false, "host", wire.Prompt, api.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close(); guest.Close() })
	go guest.Serve(t.Context(), f.server(), rpc.Caller{Role: rpc.Host})
	return &container{freezing: make(chan struct{}, 1), machine: &machine{root: host}, volume: &Volume{Image: "image"}}
}

// TestOneFreezeAtATime: one that is given up is undone before another one begins, and what
// the end of a container needs twice is not waited for.
func TestOneFreezeAtATime(t *testing.T) {
	f := &freezer{slow: make(chan struct{})}
	c := ofFreezer(t, f)
	ctx, cancel := context.WithCancel(t.Context())
	given := make(chan error, 1)
	go func() {
		_, err := c.Freeze(ctx)
		given <- err
	}()
	for !f.heard(api.CallFreeze) {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := c.Freeze(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("while it goes on in the guest: %v", err)
	}
	close(f.slow)
	thaw, err := c.Freeze(t.Context())
	if err != nil || !f.heard(api.CallFreeze, api.CallThaw, api.CallFreeze) {
		t.Fatalf("the guest was asked for %q, %v", f.asked, err)
	}
	thaw()
	c.settleVolume(t.Context())
	c.settleVolume(t.Context())
	if !f.heard(api.CallFreeze, api.CallThaw, api.CallFreeze, api.CallThaw, api.CallFreeze, api.CallFreeze) {
		t.Errorf("the guest was asked for %q", f.asked)
	}
}
