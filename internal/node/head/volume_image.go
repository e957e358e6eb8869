package head

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// imageVolume is the run's volume where it is a data image of node 0, whose guest serves it
// to the others.
type imageVolume struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	current *container.Current
	node    Node
	unlock  func() // releases the image; nil: there is none
}

// make makes the data image.
func (d *imageVolume) make(ctx context.Context) error {
	dir := d.config.Host.Dir
	tools, release, err := d.node.Tools(ctx)
	if err != nil {
		return err
	}
	defer release()
	least, err := d.fill(ctx, tools)
	if err != nil {
		return err
	}
	size, err := imageSize(dir, d.plan.VM.VolumeSize)
	if err == nil && d.plan.VM.VolumeSize == 0 && size < least {
		size, err = imageSize(dir, least)
	}
	if err != nil {
		return err
	}
	file := plan.VolumeImagePath(dir)
	err = tools.Make(ctx, file, plan.VolumeDir(dir), size)
	if core.IsKind(err, core.Invalid) {
		err = &core.Error{Kind: core.Invalid, Op: "make the volume on", Object: d.config.Host.Name, Err: err, Remedy: "Raise `volume: {size: …}`. " + core.Remedy(err)}
	}
	if err != nil {
		return err
	}
	return d.lock()
}

// lock keeps others from the data image as long as this process lives, or until
// its machine has ended.
func (d *imageVolume) lock() (err error) {
	d.unlock, err = dataimage.Lock(plan.VolumeImagePath(d.config.Host.Dir))
	return err
}

// fill puts what the user's data image holds into VolumeDir, where inputs are
// and stay, and gives that image's size. A head that was killed meanwhile does it
// again, so nothing that was there is moved away.
func (d *imageVolume) fill(ctx context.Context, tools dataimage.Tools) (size int64, err error) {
	dir := d.config.Host.Dir
	file, volume := plan.VolumeSourcePath(dir), plan.VolumeDir(dir)
	if d.plan.VM.VolumeFrom == "" {
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
	if err == nil && digest != d.plan.VM.VolumeFrom {
		err = &core.Error{
			Kind: core.Permanent, Op: "fill the volume from", Object: file, Err: fmt.Errorf("it holds %s, and held %s on the submitting machine", digest, d.plan.VM.VolumeFrom),
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
	fsutil.TryRemoveAll(file) // it only takes space
	return image.Size(), nil
}

// server returns the machine that has the data image.
func (d *imageVolume) server() (driver.Guest, error) {
	b := d.current.Get()
	if b != nil {
		if g := b.Guest(); g != nil && g.VolumeDisk() != nil {
			return g, nil
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "reach the volume", Err: errors.New("its virtual machine does not run (yet, or any more)"), Remedy: core.RemedyAgain}
}

// change runs a command of the guest's own on a file of the volume.
func (d *imageVolume) change(ctx context.Context, command ...string) error {
	g, err := d.server()
	if err != nil {
		return err
	}
	last := len(command) - 1
	rel, _ := d.plan.InVolume(command[last])
	command[last] = path.Join(g.InGuest(d.plan.Volume), rel)
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

// askTimeout bounds a question to a guest that has much to do.
const askTimeout = 30 * time.Second

// warnOfFull reports which key to raise when the volume was full.
func (d *imageVolume) warnOfFull() {
	if !d.plan.UsesDataImage() {
		return
	}
	g, err := d.server()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	if full, err := g.VolumeDisk().Full(ctx); err == nil && full {
		d.journal.Say(core.PhaseRun, "warning: the volume, a data image, was full, and writes failed for want of space: raise `volume: {size: …}` in the Beefile")
	}
}

// unloadSpeed, in bytes a second, is what copying a data image's content into a
// directory beside it is reckoned with.
const unloadSpeed = 100 << 20

// unload puts what the data image holds where all that follows looks for
// it: into VolumeDir. All of it where the run continues from it, else what its
// outputs name. The image stays until then. Where it was saved with its machine, what
// is left here is of no use to anyone.
func (d *imageVolume) unload(saved, wanted bool, globs []string) error {
	dir := d.config.Host.Dir
	file, volume := plan.VolumeImagePath(dir), plan.VolumeDir(dir)
	if d.unlock == nil {
		return nil
	}
	d.unlock()
	switch {
	case saved:
		fsutil.TryRemoveAll(file) // it only takes space
		return nil
	case wanted:
		globs = nil
	case len(globs) == 0: // nobody wants what it holds
		return fsutil.RemoveAll(file)
	}
	ctx := context.Background()
	tools, release, err := d.node.Tools(ctx)
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
	fsutil.TryRemoveAll(file) // it only takes space
	return nil
}

// copyTo copies what the data image holds at one moment, and reports whether nobody
// had written to the files of a checkpoint for a while then. Meanwhile writes wait.
func (d *imageVolume) copyTo(ctx context.Context, g driver.Guest, fresh string) (done bool, err error) {
	thaw, err := g.VolumeDisk().Freeze(ctx)
	if err != nil {
		return false, err
	}
	defer thaw()
	image, err := dataimage.Open(plan.VolumeImagePath(d.config.Host.Dir))
	if err != nil {
		return false, err
	}
	defer image.Close()
	newest, found, err := d.newestOf(ctx, image)
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
func (d *imageVolume) newestNow(ctx context.Context) (newest time.Time, found bool, err error) {
	g, err := d.server()
	if err != nil {
		return newest, false, err
	}
	thaw, err := g.VolumeDisk().Freeze(ctx)
	if err != nil {
		return newest, false, err
	}
	defer thaw()
	image, err := dataimage.Open(plan.VolumeImagePath(d.config.Host.Dir))
	if err != nil {
		return newest, false, err
	}
	defer image.Close()
	return d.newestOf(ctx, image)
}

// newestOf gives when the files of a checkpoint, and directories in it, were last
// written to, by the guest's clock, and whether there are any files.
func (d *imageVolume) newestOf(ctx context.Context, image *dataimage.Image) (newest time.Time, found bool, err error) {
	globs := checkpointGlobs(d.plan)
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
