package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
	"golang.org/x/sys/unix"
)

// defaultImage is what a data image can hold where the Beefile does not say,
// and its host has twice as much.
const defaultImage = 20 << 30

// errNoVolume ends the start of guests whose volume does not come up.
var errNoVolume = errors.New("node 0's guest, which has the volume, did not come up") //nolint:gochecknoglobals // a constant

// hasVolumeImage reports whether the volume is a data image.
func (h *head) hasVolumeImage() bool {
	return h.plan.VM != nil && h.plan.VM.Volume == plan.VolumeImage
}

// chooseVolume settles how the guests have the volume, and makes the data image
// of what is in VolumeDir, where it is to be one.
func (h *head) chooseVolume(ctx context.Context) error {
	v := h.plan.VM
	if v == nil {
		return nil
	}
	asked := v.Volume
	if v.Volume = volumeFor(v, h.shared || h.plan.SavesVM(), h.n.config.Size); asked != v.Volume && v.Volume == plan.VolumeImage {
		h.journal.say(core.PhaseStart, "the hosts share no file system: the volume is a data image of node 0, which the others mount")
	}
	if v.Volume != plan.VolumeImage || h.plan.Restore { // it is among what was saved
		return nil
	}
	if h.n.config.Size > 1 && !fabricWanted(h.plan, h.n.config.Size) {
		return &core.Error{Kind: core.Invalid, Op: "make the volume", Err: errors.New("guests without a network cannot share a data image"), Remedy: "Leave `fabric: none` out of `vm:`, or `dataimage` out of `volume:`."}
	}
	return h.makeImage(ctx)
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

// tools are e2fsprogs, the host's or the guest image's.
func (n *node) tools(ctx context.Context) (t dataimage.Tools, release func(), err error) {
	tree, release, err := n.images.Tree(ctx, n.known.job().VM.Guest.ID)
	return dataimage.Tools{Bundle: filepath.Join(tree, "qemu")}, release, err
}

// makeImage makes the data image.
func (h *head) makeImage(ctx context.Context) error {
	dir := h.n.config.Host.Dir
	tools, release, err := h.n.tools(ctx)
	if err != nil {
		return err
	}
	defer release()
	least, err := h.fillVolume(ctx, tools)
	if err != nil {
		return err
	}
	size, err := imageSize(dir, h.plan.VM.VolumeSize)
	if err == nil && h.plan.VM.VolumeSize == 0 && size < least {
		size, err = imageSize(dir, least)
	}
	if err != nil {
		return err
	}
	file := plan.VolumeImagePath(dir)
	err = tools.Make(ctx, file, plan.VolumeDir(dir), size)
	if core.IsKind(err, core.Invalid) {
		err = &core.Error{Kind: core.Invalid, Op: "make the volume on", Object: h.n.config.Host.Name, Err: err, Remedy: "Raise `volume: {size: …}`. " + core.Remedy(err)}
	}
	if err != nil {
		return err
	}
	return h.lockImage()
}

// lockImage keeps others from the data image as long as this process lives, or until
// its machine has ended.
func (h *head) lockImage() (err error) {
	h.unlockImage, err = dataimage.Lock(plan.VolumeImagePath(h.n.config.Host.Dir))
	return err
}

// fillVolume puts what the user's data image holds into VolumeDir, where inputs are
// and stay, and gives that image's size. A head that was killed meanwhile does it
// again, so nothing that was there is moved away.
func (h *head) fillVolume(ctx context.Context, tools dataimage.Tools) (size int64, err error) {
	dir := h.n.config.Host.Dir
	file, volume := plan.VolumeSourcePath(dir), plan.VolumeDir(dir)
	if h.plan.VM.VolumeFrom == "" {
		return 0, nil
	}
	image, err := tools.OpenRecovered(ctx, file)
	if core.IsKind(err, core.NotFound) { // a head that was killed has done it
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer image.Close()
	fresh := volume + ".new"
	if err := fsutil.RemoveAll(fresh); err != nil {
		return 0, err
	}
	if err := image.Unload(ctx, fresh, nil); err != nil {
		return 0, err
	}
	digest, err := dataimage.DigestOf(ctx, fresh)
	if err == nil && digest != h.plan.VM.VolumeFrom {
		err = &core.Error{
			Kind: core.Permanent, Op: "fill the volume from", Object: file, Err: fmt.Errorf("it holds %s, and held %s on the submitting machine", digest, h.plan.VM.VolumeFrom),
			Remedy: "Was the image of `volume: {from: …}` changed while it was copied? Run the job again.",
		}
	}
	if err != nil {
		return 0, err
	}
	if err := snapshot.Merge(fresh, volume); err != nil {
		return 0, err
	}
	if err := fsutil.RemoveAll(fresh); err != nil {
		return 0, err
	}
	fsutil.RemoveAll(file) //nolint:errcheck // it only takes space
	return image.Size(), nil
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

// leastRoom, in bytes, is less than what a virtual machine's disk grows by at a time.
const leastRoom = 64 << 10

// full reports whether nothing more can be written below a directory.
func full(dir string) bool {
	free, err := room(dir)
	return err == nil && free < leastRoom
}

// room is how much can still be written below a directory, in bytes.
func room(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return int64(st.Bavail) * st.Bsize, err
}

// imageSize is that of a data image in a directory. One that its host could
// not hold is refused: it would break in the middle of the job.
func imageSize(dir string, wanted int64) (int64, error) {
	free, err := room(dir)
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

// server returns the machine that has the data image.
func (h *head) server() (driver.Guest, error) {
	b := h.n.current.get()
	if b != nil {
		if g := b.Guest(); g != nil && g.VolumeDisk() != nil {
			return g, nil
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "reach the volume", Err: errors.New("its virtual machine does not run (yet, or any more)")}
}

// inVolume runs a command of the guest's own on a file of the volume.
func (h *head) inVolume(ctx context.Context, command ...string) error {
	g, err := h.server()
	if err != nil {
		return err
	}
	last := len(command) - 1
	rel, _ := h.plan.InVolume(command[last])
	command[last] = path.Join(g.InGuest(h.plan.Volume), rel)
	p, err := g.ExecInGuest(ctx, driver.Command{Args: command})
	if err != nil {
		return err
	}
	exit, err := p.Wait(ctx)
	if err == nil && exit.Code != 0 {
		err = fmt.Errorf("%s ended with code %d in the guest", command[0], exit.Code)
	}
	return err
}

// writeStopFile makes the job's stop file, which belongs to the user.
func (h *head) writeStopFile(ctx context.Context) error {
	if !h.hasVolumeImage() {
		tree, name, err := h.stopFile()
		if err != nil {
			return err
		}
		defer tree.Close()
		return tree.WriteFile(name, nil, 0o644)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if h.plan.Root {
		uid, gid = 0, 0
	}
	return h.inVolume(ctx, "install", "-m", "644", "-o", strconv.Itoa(uid), "-g", strconv.Itoa(gid), "/dev/null", h.plan.Checkpoint.File)
}

// askTimeout bounds a question to a guest that has much to do.
const askTimeout = 30 * time.Second

// warnOfFullVolume reports which key to raise when the volume was full.
func (h *head) warnOfFullVolume() {
	if !h.hasVolumeImage() || h.snapshot > 0 { // then its guest is halted
		return
	}
	g, err := h.server()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if full, err := g.VolumeDisk().Full(ctx); err == nil && full {
		h.journal.say(core.PhaseRun, "warning: the volume, a data image, was full, and writes failed for want of space: raise `volume: {size: …}` in the Beefile")
	}
}

// unloadSpeed, in bytes a second, is what copying a data image's content into a
// directory beside it is reckoned with.
const unloadSpeed = 100 << 20

// unloadVolume puts what the data image holds where all that follows looks for
// it: into VolumeDir. All of it where the run continues from it, else what its
// outputs name. The image stays until then. Where it was saved with its machine, what
// is left here is of no use to anyone.
func (h *head) unloadVolume() error {
	dir := h.n.config.Host.Dir
	file, volume := plan.VolumeImagePath(dir), plan.VolumeDir(dir)
	if h.unlockImage == nil {
		return nil
	}
	h.unlockImage()
	globs := h.volumeGlobs()
	switch {
	case h.snapshot > 0:
		fsutil.RemoveAll(file) //nolint:errcheck // it only takes space
		return nil
	case h.volumeWanted():
		globs = nil
	case len(globs) == 0: // nobody wants what it holds
		return fsutil.RemoveAll(file)
	}
	ctx := context.Background()
	tools, release, err := h.n.tools(ctx)
	if err != nil {
		return err
	}
	defer release()
	image, err := tools.OpenRecovered(ctx, file)
	if err != nil {
		return err
	}
	defer image.Close()
	fresh := volume + ".new"
	if err := fsutil.RemoveAll(fresh); err != nil {
		return err
	}
	err = image.Unload(ctx, fresh, globs)
	if err == nil && empty(fresh) { // where there is no output, the volume is kept
		err = image.Unload(ctx, fresh, nil)
	}
	if err != nil {
		return err
	}
	if err := fsutil.RemoveAll(volume); err != nil {
		return err
	}
	if err := fsutil.Rename(fresh, volume); err != nil {
		return err
	}
	fsutil.RemoveAll(file) //nolint:errcheck // it only takes space
	return nil
}

// tryImage copies what the data image holds at one moment, and reports whether nobody
// had written to the files of a checkpoint for a while then. Meanwhile writes wait.
func (h *head) tryImage(ctx context.Context, g driver.Guest, fresh string) (done bool, err error) {
	thaw, err := g.VolumeDisk().Freeze(ctx)
	if err != nil {
		return false, err
	}
	defer thaw()
	image, err := dataimage.Open(plan.VolumeImagePath(h.n.config.Host.Dir))
	if err != nil {
		return false, err
	}
	defer image.Close()
	newest, found, err := h.newestOf(ctx, image)
	if err != nil {
		return false, err
	}
	if !found {
		return false, errNothingYet
	}
	if time.Since(newest) < snapshot.Steady {
		return false, nil
	}
	return true, image.Unload(ctx, fresh, nil)
}

// newestNow is newestOf for the data image as it is now, which its guest holds still
// meanwhile.
func (h *head) newestNow(ctx context.Context) (newest time.Time, found bool, err error) {
	g, err := h.server()
	if err != nil {
		return newest, false, err
	}
	thaw, err := g.VolumeDisk().Freeze(ctx)
	if err != nil {
		return newest, false, err
	}
	defer thaw()
	image, err := dataimage.Open(plan.VolumeImagePath(h.n.config.Host.Dir))
	if err != nil {
		return newest, false, err
	}
	defer image.Close()
	return h.newestOf(ctx, image)
}

// newestOf gives when the files of a checkpoint, and directories in it, were last
// written to, by the guest's clock, and whether there are any files.
func (h *head) newestOf(ctx context.Context, image *dataimage.Image) (newest time.Time, found bool, err error) {
	globs := h.checkpointGlobs()
	files, err := image.Files(ctx)
	for _, f := range files {
		if !snapshot.Named(f.Path, globs) {
			continue
		}
		found = found || f.Kind != "dir"
		if f.Changed.After(newest) {
			newest = f.Changed
		}
	}
	return newest, found, err
}
