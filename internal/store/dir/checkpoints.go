// Package dir is the store in a directory, of a disk or of a shared file system: each
// checkpoint is a copy of the run's volume, and counts once its manifest is there, which is
// written last. A copy without a manifest was cut short.
package dir

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/store"
	"golang.org/x/sys/unix"
)

const (
	manifestName = "manifest.json"
	volumeName   = "volume"
	recordName   = "run.json"
)

// Checkpoints is the directory of one run: each checkpoint is a directory below, named after
// its generation, with a plain copy of the volume, for use with cp as well.
type Checkpoints string

// Volume is the directory with the copy of a checkpoint.
func (d Checkpoints) Volume(g driver.Generation) string {
	return filepath.Join(string(d), g.String(), volumeName)
}

// Check implements driver.Checkpoints.
func (d Checkpoints) Check(ctx context.Context, k driver.Checkpoint) error {
	own, err := d.open(ctx, k)
	if err == nil {
		err = own.Close()
	}
	return err
}

// open opens the directory of a checkpoint that is whole. No link leads there.
func (d Checkpoints) open(ctx context.Context, k driver.Checkpoint) (*fsutil.Root, error) {
	if k.Broken {
		return nil, driver.ErrDamaged
	}
	root, err := fsutil.OpenRoot(string(d))
	if err != nil {
		return nil, errors.Join(driver.ErrDamaged, err)
	}
	defer root.Close()
	own, err := root.Sub(k.Generation.String())
	if err != nil {
		return nil, errors.Join(driver.ErrDamaged, err)
	}
	volume, err := own.Sub(volumeName)
	if err == nil {
		defer volume.Close()
		var same bool
		if same, err = store.MatchesIn(ctx, volume, k.Manifest); err == nil && same {
			return own, nil
		}
	}
	own.Close()
	return nil, errors.Join(driver.ErrDamaged, err)
}

// plain finds out whether a checkpoint, if it is there, is in directories of the store:
// anyone who may write there could have put links in their place.
func (d Checkpoints) plain(g driver.Generation) error {
	root, err := fsutil.OpenRoot(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range []string{g.String(), filepath.Join(g.String(), volumeName)} {
		switch info, err := root.Lstat(name); {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case !info.IsDir():
			return displaced(root.Path(name))
		}
	}
	return nil
}

// displaced is the error of something else in the place of a directory.
func displaced(dir string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "use the directory", Object: dir, Err: unix.ENOTDIR,
		Remedy: "Another user or program has put something else in its place. See what it is, and who may write to the store.",
	}
}

// forget removes a checkpoint. Without its manifest it does not count, whatever is left of
// it.
func (d Stepped) forget(g driver.Generation) error {
	root, err := fsutil.OpenRoot(string(d.Checkpoints))
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(filepath.Join(g.String(), manifestName))
	if err != nil && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) { // then there is none
		return err
	}
	d.Between()
	if err := root.RemoveAll(g.String()); err != nil {
		return err
	}
	d.Between()
	return nil
}

// List implements driver.Checkpoints.
func (d Checkpoints) List(context.Context) ([]driver.Checkpoint, error) {
	names, err := namesIn(string(d))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list []driver.Checkpoint
	size := int64(0)
	for _, name := range names {
		g, ok := driver.ParseGeneration(name)
		if !ok {
			continue
		}
		if info, err := os.Lstat(filepath.Join(string(d), name, manifestName)); err == nil {
			if size += info.Size(); size > store.MostManifests {
				return nil, store.TooLarge()
			}
		}
		k := driver.Checkpoint{Generation: g, Place: d.Volume(g), Dir: d.Volume(g)}
		k.Manifest, err = d.manifest(g)
		switch {
		case errors.Is(err, fs.ErrNotExist): // cut short
			continue
		case errors.Is(err, errManifest):
			k.Manifest, k.Broken = driver.Manifest{Attempt: g.Attempt}, true
		case err != nil:
			return nil, err
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b driver.Checkpoint) int { return a.Compare(b.Generation) })
	return list, nil
}

// Keep implements driver.Checkpoints.
func (d Checkpoints) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (m driver.Manifest, made bool, err error) {
	return Stepped{Checkpoints: d, Between: func() {}}.Keep(ctx, g, site, from)
}

// Stepped is a Checkpoints that calls Between after each thing that Keep has written,
// for tests which die there.
type Stepped struct {
	Checkpoints
	Between func()
	// syncing, if there is one, is asked before each sync, which an error takes
	// the place of.
	syncing func() error
}

func (d Stepped) sync(dir string, how func(string) error) error {
	if d.syncing != nil {
		if err := d.syncing(); err != nil {
			return err
		}
	}
	return how(dir)
}

// Keep implements driver.Checkpoints.
func (d Stepped) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (m driver.Manifest, made bool, err error) {
	own := filepath.Join(string(d.Checkpoints), g.String())
	if err := d.plain(g); err != nil {
		return m, false, err
	}
	if m, err = d.manifest(g); err == nil {
		if d.Check(ctx, driver.Checkpoint{Generation: g, Manifest: m}) == nil {
			return m, false, nil
		}
		// Its maker did not get to its end; the site still has it whole.
		if err := os.Remove(filepath.Join(own, manifestName)); err != nil {
			return m, false, err
		}
	}
	begun := time.Now()
	if err := os.MkdirAll(own, 0o700); err != nil {
		return m, false, err
	}
	d.Between()
	before := ""
	if list, err := d.List(ctx); err == nil && len(list) > 0 && d.plain(list[len(list)-1].Generation) == nil {
		before = d.Volume(list[len(list)-1].Generation)
	}
	volume := d.Volume(g)
	if err := from.Fetch(ctx, volume, before); err != nil {
		return m, false, err
	}
	d.Between()
	m = driver.Manifest{Attempt: g.Attempt, Site: site, Taken: time.Now()}
	// What has come is kept, also if its attempt has ended meanwhile.
	is, err := store.Read(context.WithoutCancel(ctx), volume)
	if err != nil {
		return m, false, err
	}
	m.Files, m.Bytes, m.Shape = is.Files, is.Bytes, is.Shape
	// All of it has to be on the disk before the old site's copy goes.
	if err := d.sync(own, syncTree); err != nil {
		return m, false, err
	}
	d.Between()
	m.Took = time.Since(begun)
	raw, err := json.Marshal(m)
	if err != nil {
		return m, false, err
	}
	if err := fsutil.WriteFile(filepath.Join(own, manifestName), raw, 0o600); err != nil {
		return m, false, err
	}
	d.Between()
	// Else the loss of power might take the name back.
	if err := d.sync(own, fsutil.SyncDir); err != nil {
		return m, false, err
	}
	d.Between()
	return m, true, errors.Join(d.forgetOld(ctx), d.forgetCut(g))
}

// Restore implements driver.Checkpoints. The directory that was compared is the one that is
// sent, whatever takes its place meanwhile.
func (d Checkpoints) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	own, err := d.open(ctx, k)
	if err != nil {
		return err
	}
	defer own.Close()
	if err := to.Stage(ctx, filepath.Join(own.Pinned(), volumeName)); err != nil {
		return &core.Error{Kind: core.KindOf(err), Op: "restore", Object: d.Volume(k.Generation), Err: err, Remedy: core.Remedy(err)}
	}
	return nil
}

// Note implements driver.Checkpoints.
func (d Checkpoints) Note(_ context.Context, record []byte) error {
	if err := os.Mkdir(string(d), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return writeDurably(filepath.Join(string(d), recordName), record)
}

// Noted implements driver.Checkpoints.
func (d Checkpoints) Noted(context.Context) ([]byte, error) {
	raw, err := fsutil.ReadFile(string(d), recordName, store.MostRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return raw, err
}

// Remove implements driver.Checkpoints.
func (d Checkpoints) Remove(context.Context) error { return fsutil.RemoveAll(string(d)) }

func (d Stepped) forgetOld(ctx context.Context) error {
	list, err := d.List(ctx)
	if err != nil {
		return err
	}
	gone, _ := store.Surplus(list, func(k driver.Checkpoint) (driver.Generation, bool) { return k.Generation, k.Broken })
	for _, k := range gone {
		if err := d.forget(k.Generation); err != nil {
			return err
		}
	}
	return nil
}

// forgetCut removes what is there of checkpoints before one that is whole, and has no
// manifest: nobody continues with these any more.
func (d Stepped) forgetCut(whole driver.Generation) error {
	names, err := namesIn(string(d.Checkpoints))
	if err != nil {
		return err
	}
	for _, name := range names {
		g, is := driver.ParseGeneration(name)
		if !is || g.Compare(whole) >= 0 {
			continue
		}
		if _, err := d.manifest(g); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := fsutil.RemoveAll(filepath.Join(string(d.Checkpoints), name)); err != nil {
			return err
		}
		d.Between()
	}
	return nil
}

// errManifest distinguishes a manifest that cannot be read from one that is not there.
var errManifest = errors.New("the manifest cannot be read")

func (d Checkpoints) manifest(g driver.Generation) (driver.Manifest, error) {
	var m driver.Manifest
	raw, err := fsutil.ReadFile(string(d), filepath.Join(g.String(), manifestName), store.MostManifest)
	if err == nil && core.DecodeJSON(raw, &m) != nil {
		err = errManifest
	}
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) || fsutil.Spoiled(err) {
		err = errManifest
	}
	if err == nil && m.Valid(g) != nil {
		m, err = driver.Manifest{}, errManifest
	}
	return m, err
}

// writeDurably writes a small file so that it is there whole or not at all.
func writeDurably(name string, raw []byte) error {
	if err := fsutil.WriteFile(name, raw, 0o600); err != nil {
		return err
	}
	return fsutil.SyncDir(filepath.Dir(name))
}

// syncTree has everything on the disk's file system written out.
func syncTree(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Syncfs(int(f.Fd()))
}

// namesIn lists a directory that others may fill.
func namesIn(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(store.MostNames + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(names) > store.MostNames {
		return nil, store.TooMany(len(names))
	}
	return names, err
}
