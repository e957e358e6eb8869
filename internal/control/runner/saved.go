package runner

import (
	"context"
	"fmt"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// readSaved reads what a checkpoint, which has been brought to the head, says of
// its virtual machines.
func (st *staging) readSaved(ctx context.Context, k driver.Checkpoint, remote string) (*protocol.Saved, error) {
	var dir string
	if st.rec.of.sub.Job.Store == "" {
		dir = k.Dir
	} else {
		dir = st.rec.of.c.Store.RunDir(st.rec.of.run.ID)
		t := driver.Transfer{Remote: path.Join(remote, protocol.SavedFile), Local: filepath.Join(dir, protocol.SavedFile)}
		if err := headlink.FetchFile(ctx, st.at.lease, t, checkpoint.MostSaved); err != nil {
			return nil, st.at.headFiles().Invalid(err)
		}
	}
	s, err := checkpoint.ReadSaved(dir)
	if err == nil && s.Nodes != len(st.at.lease.Hosts()) {
		err = fmt.Errorf("it has %d virtual machines, and there are %d hosts", s.Nodes, len(st.at.lease.Hosts()))
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read checkpoint of run", Object: st.rec.of.run.ID, Err: err}
	}
	return s, nil
}

// savedImage is the image of the run's saved machines, where the cache has it:
// what the Beefile names may mean another one by now, or be gone.
func (d *drive) savedImage(ctx context.Context) (core.Image, bool) {
	if !d.sub.Job.SavesVM() {
		return core.Image{}, false
	}
	dir := d.c.Store.RunDir(d.run.ID) // of the one that was brought from a store last
	if d.sub.Job.Store == "" {
		list, err := d.c.Kept().OpenDir(d.c.Kept().Dir(d.run.ID)).List(ctx)
		if err != nil || len(list) == 0 {
			return core.Image{}, false
		}
		dir = list[len(list)-1].Dir
	}
	s, err := checkpoint.ReadSaved(dir)
	if err != nil {
		return core.Image{}, false
	}
	return s.Image, d.c.Images.Has(s.Image.ID)
}
