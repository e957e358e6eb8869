package head

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// defaultImage is what a data image can hold where the Beefile does not say,
// and its host has twice as much.
const defaultImage = 20 << 30

// errNoVolume ends the start of guests whose volume does not come up.
var errNoVolume = errors.New("node 0's guest, which has the volume, did not come up")

// chooseVolume settles how the guests have the volume, and makes the data image
// of what is in VolumeDir, where it is to be one.
func (h *Head) chooseVolume(ctx context.Context) error {
	v := h.plan.VM
	if v == nil {
		return nil
	}
	asked := v.Volume
	if v.Volume = volumeFor(v, h.volumes.shared || h.plan.SavesVM(), h.config.Size); asked != v.Volume && v.Volume == plan.VolumeImage {
		h.journal.Say(core.PhaseStart, "the hosts share no file system: the volume is a data image of node 0, which the others mount")
	}
	if v.Volume != plan.VolumeImage || h.plan.Restore { // it is among what was saved
		return nil
	}
	if h.config.Size > 1 && !fabricWanted(h.plan, h.config.Size) {
		return &core.Error{Kind: core.Invalid, Op: "make the volume", Err: errors.New("guests without a network cannot share a data image"), Remedy: "Leave `fabric: none` out of `vm:`, or `dataimage` out of `volume:`."}
	}
	return h.image.make(ctx)
}

// volumeFor is how guests shall have the volume where nobody has reported it. Those
// that are saved have it on disks of their own, as if they shared it.
func volumeFor(v *plan.VM, shared bool, size int) string {
	switch {
	case v.Volume != plan.VolumeAuto && v.Volume != "":
		return v.Volume
	case !shared && size > 1 && v.Fabric != fabric.None:
		return plan.VolumeImage
	}
	return plan.VolumeHosts
}

// empty reports whether a directory holds nothing.
func empty(dir string) bool {
	r, err := fsutil.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer r.Close()
	names, err := r.ReadDir(".")
	return err == nil && len(names) == 0
}

// imageSize is that of a data image in a directory. One that its host could
// not hold is refused: it would break in the middle of the job.
func imageSize(dir string, wanted int64) (int64, error) {
	free, err := fsutil.Space(dir)
	if err != nil {
		return 0, err
	}
	switch {
	case wanted == 0:
		return max(min(defaultImage, free/2), dataimage.LeastSize), nil
	case wanted > free:
		return 0, &core.Error{
			Kind: core.Invalid, Op: "make the volume in", Object: dir, Err: fmt.Errorf("a data image of %d MiB is wanted, and %d MiB are free", wanted>>20, free>>20),
			Remedy: "Lower `volume: {size: …}`, or name another `scratch:` for the site.",
		}
	}
	return wanted, nil
}
