package burst

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// mostLook bounds the wait for an answer of an I/O process.
const mostLook = 30 * time.Second

// quickLook bounds the wait for an answer of an I/O process that may be on another host.
const quickLook = 5 * time.Second

// LookOnce asks the I/O process of a volume for its status, if this host reaches that.
func (c Config) LookOnce(ctx context.Context) (calls.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, quickLook)
	defer cancel()
	peer, err := c.Dial(ctx)
	if err != nil {
		return calls.Status{}, err
	}
	defer peer.Close()
	return rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
}

// Look asks the I/O process of a volume for its status, or reads the buffer where none runs.
func (c Config) Look(ctx context.Context) (s calls.Status, running bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostLook)
	defer cancel()
	for {
		lock, err := c.Lock()
		if err == nil {
			s, err := Inspect(c.Place)
			lock.Unlock()
			s.ID, s.Remote, s.Room, s.Superseded = c.ID, c.Remote, c.Room, c.Superseded
			if c.Ended != nil {
				s.Ended = c.Ended.Why
			}
			return s, false, err
		}
		if !core.IsKind(err, core.Busy) {
			return s, false, err
		}
		peer, err := c.Dial(ctx)
		if err != nil { // it begins, or ends
			if err := core.Sleep(ctx, 50*time.Millisecond); err != nil {
				return s, false, &core.Error{Kind: core.Transient, Op: "ask the I/O process of volume", Object: c.ID, Err: err, Remedy: "Read " + c.LogPath() + "."}
			}
			continue
		}
		defer peer.Close()
		s, err = rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
		return s, true, err
	}
}
