package vm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"golang.org/x/sys/unix"
)

// Limits under which a volume counts as full: what is smaller than a block of
// the usual kind is left in the best of cases.
const (
	fullBytes = 1 << 20
	fullPart  = 500 // of the whole
)

// freezeTimeout is for what is in the guest's memory to be written.
const freezeTimeout = 10 * time.Minute

// is reports whether a mount of the container is the volume.
func (v *Volume) is(m driver.Mount) bool { return v != nil && m.Source == v.Dir }

// here reports whether the data image is this machine's.
func (v *Volume) here() bool { return v != nil && v.Image != "" }

// was reports whether a machine that was saved had the same of a data image: its disk, or
// what another one exports, or none.
func (v *Volume) was(r record) bool {
	disk := slices.ContainsFunc(r.Disks, func(d savedDisk) bool { return d.Serial == api.DataDisk })
	mounted := slices.ContainsFunc(r.Mounts, func(m driver.Mount) bool { return m.Source == api.VolumePath })
	return disk == v.here() && mounted == (v != nil)
}

// disk is that of the machine that has the data image.
func (v *Volume) disk() qemu.Disk {
	return qemu.Disk{File: v.Image, Serial: api.DataDisk, Durable: true}
}

// room refuses a host on which a data image that was saved elsewhere could not take
// all the space that its guest believes to have.
func (v *Volume) room() error {
	var file unix.Stat_t
	var host unix.Statfs_t
	if err := errors.Join(unix.Stat(v.Image, &file), unix.Statfs(v.Image, &host)); err != nil {
		return err
	}
	if free, more := int64(host.Bavail)*host.Bsize, file.Size-file.Blocks*512; more > free {
		return &core.Error{
			Kind: core.Unsupported, Err: fmt.Errorf("the volume, a data image of %d MiB, may still take %d MiB, and %d MiB are free in %s", file.Size>>20, more>>20, free>>20, path.Dir(v.Image)),
			Remedy: "Free space there, or name another `scratch:` for the site. `volume: {size: …}` makes it smaller, for a new run.",
		}
	}
	return nil
}

// hasVolume reports whether this machine has the volume's disk.
func (c *container) hasVolume() bool { return c.volume.here() }

// VolumeDisk implements driver.Guest.
func (c *container) VolumeDisk() driver.VolumeDisk {
	if !c.hasVolume() {
		return nil
	}
	return c
}

// Freeze implements driver.VolumeDisk.
func (c *container) Freeze(ctx context.Context) (thaw func(), err error) {
	done, err := c.freeze(ctx)
	if err != nil {
		return nil, err
	}
	return func() { c.thaw(ctx); done() }, nil
}

// freeze is Freeze by one at a time, until done is called. What has begun in the guest goes
// on there: where it is given up it is undone, and only then others have their turn.
func (c *container) freeze(ctx context.Context) (done func(), err error) {
	select {
	case c.freezing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	over := func() { <-c.freezing }
	frozen := make(chan error, 1)
	go func() {
		_, err := rpc.Call(context.WithoutCancel(ctx), c.machine.root, api.CallFreeze, rpc.None{})
		frozen <- err
	}()
	select {
	case err := <-frozen:
		if err != nil {
			over()
			return nil, c.lost(err)
		}
		return over, nil
	case <-ctx.Done():
		go func() {
			defer over()
			if <-frozen == nil {
				c.thaw(ctx)
			}
		}()
		return nil, context.Cause(ctx)
	}
}

func (c *container) thaw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freezeTimeout)
	defer cancel()
	core.BestEffort(rpc.Call(ctx, c.machine.root, api.CallThaw, rpc.None{})) // a guest that does not answer is ended by watch
}

// Full implements driver.VolumeDisk.
func (c *container) Full(ctx context.Context) (bool, error) {
	if !c.hasVolume() {
		return false, nil
	}
	s, err := rpc.Call(ctx, c.machine.root, api.CallVolume, rpc.None{})
	if err != nil {
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
	done, err := c.freeze(ctx)
	switch {
	case err == nil:
		done() // it stays frozen: others may ask for the same, as who ends a container twice
	case !core.IsKind(err, core.Lost):
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
	s, err := rpc.Call(ctx, c.machine.root, api.CallVolume, rpc.None{})
	if err != nil || s.Silent < silence {
		return false
	}
	c.machine.Note(fmt.Sprintf("node 0's guest, which has the volume, was not reached for %v, and the guest was ended", s.Silent.Round(time.Second)))
	c.machine.Kill()
	return true
}
