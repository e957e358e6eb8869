package vm

import (
	"context"
	"fmt"
	"path"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/vm/agent"
)

// Limits under which a volume counts as full: what is smaller than a block of
// the usual kind is left in the best of cases.
const (
	fullBytes = 1 << 20
	fullPart  = 500 // of the whole
)

// freezeTimeout is for what is in the guest's memory to be written.
const freezeTimeout = 10 * time.Minute

// hasVolume tells whether this machine has the volume's disk.
func (c *container) hasVolume() bool { return c.volume != nil && c.volume.Image != "" }

// Freeze implements driver.VolumeServer.
func (c *container) Freeze(ctx context.Context) (thaw func(), err error) {
	if err := c.machine.root.Call(ctx, agent.CallFreeze, nil, nil); err != nil {
		return nil, c.lost(err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeTimeout)
		defer cancel()
		c.machine.root.Call(ctx, agent.CallThaw, nil, nil) //nolint:errcheck // a guest that does not answer is ended by watch
	}, nil
}

// InVolume implements driver.VolumeServer.
func (c *container) InVolume(rel string) string { return path.Join(agent.VolumePath, rel) }

// Full implements driver.VolumeServer.
func (c *container) Full(ctx context.Context) (bool, error) {
	if !c.hasVolume() {
		return false, nil
	}
	var s agent.VolumeState
	if err := c.machine.root.Call(ctx, agent.CallVolume, nil, &s); err != nil {
		return false, c.lost(err)
	}
	return s.LeastFree < max(fullBytes, s.Size/fullPart) || s.LeastFiles == 0, nil
}

// settleVolume has the volume's disk be whole before its machine is killed.
func (c *container) settleVolume(ctx context.Context) {
	if !c.hasVolume() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeTimeout)
	defer cancel()
	if _, err := c.Freeze(ctx); err != nil && !core.IsKind(err, core.Lost) {
		c.machine.Note("the volume could not be settled before the end: " + err.Error())
	}
}

// volumeIsGone ends a machine that has not reached the one with its volume for so
// long: its programs would wait for ever.
func (c *container) volumeIsGone(silence time.Duration) bool {
	if c.volume == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), silence)
	defer cancel()
	var s agent.VolumeState
	if err := c.machine.root.Call(ctx, agent.CallVolume, nil, &s); err != nil || s.Silent < silence {
		return false
	}
	c.machine.Note(fmt.Sprintf("node 0's guest, which has the volume, was not reached for %v, and the guest was ended", s.Silent.Round(time.Second)))
	c.machine.Kill()
	return true
}
