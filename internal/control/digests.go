package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// digestsName, in a run's directory, is the note of what its checkpoints elsewhere are: a
// store, or an export, may hold something else by now.
const digestsName = "digests.json"

// digests is that note.
type digests struct {
	// Kept are the digests of the manifests in the run's store, by generation; "": one that
	// was being kept when its controller died.
	Kept map[string]string `json:"kept,omitempty"`
	// Exported are those of exports of its virtual machines, oldest first.
	Exported []string `json:"exported,omitempty"`
}

const (
	mostDigests  = 8 << 20
	mostExported = 100
)

func (c *Controller) digests(run string) (digests, bool, error) {
	var s digests
	raw, err := fsutil.ReadFile(c.Store.RunDir(run), digestsName, mostDigests)
	if errors.Is(err, fs.ErrNotExist) {
		return s, false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		return s, false, fmt.Errorf("read the digests of the checkpoints of run %s: %w", run, err)
	}
	return s, s.Kept != nil, nil
}

func (c *Controller) putDigests(run string, s digests) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(c.Store.RunDir(run), digestsName), raw, 0o600)
}

// elsewhere reports whether the run's checkpoints lie where others may write.
func (d *drive) elsewhere() bool { return d.sub.Job.Store != "" }

// expectKeep notes that a checkpoint is about to be kept: should this process die, the store
// may have it whole, and its digest is not known.
func (d *drive) expectKeep(g driver.Generation) error {
	return d.changeDigests(func(s *digests) bool {
		_, known := s.Kept[g.String()]
		if !known {
			s.Kept[g.String()] = ""
		}
		return !known
	})
}

// noteDigest notes what has been kept, before the site's copy may go.
func (d *drive) noteDigest(g driver.Generation, m driver.Manifest) error {
	return d.changeDigests(func(s *digests) bool {
		is := m.Digest()
		changed := s.Kept[g.String()] != is
		s.Kept[g.String()] = is
		return changed
	})
}

// believe notes what a store has of a run that is new here: nothing tells whether it is
// what the other installation kept.
func (d *drive) believe(list []driver.Checkpoint) error {
	return d.changeDigests(func(s *digests) bool {
		for _, k := range list {
			if !k.Broken {
				s.Kept[k.String()] = k.Manifest.Digest()
			}
		}
		return true
	})
}

// changeDigests changes the note where the run's checkpoints lie elsewhere.
func (d *drive) changeDigests(change func(*digests) bool) error {
	if !d.elsewhere() {
		return nil
	}
	d.digesting.Lock()
	defer d.digesting.Unlock()
	s, _, err := d.c.digests(d.run.ID)
	if err != nil {
		return err
	}
	if s.Kept == nil {
		s.Kept = map[string]string{}
	}
	if !change(&s) {
		return nil
	}
	return d.c.putDigests(d.run.ID, s)
}

// compared calls broken what a store has in place of the checkpoints that it was given.
// Of a run from before digests were noted, what is there is noted now.
func (d *drive) compared(ctx context.Context, list []driver.Checkpoint) ([]driver.Checkpoint, error) {
	if !d.elsewhere() {
		return list, nil
	}
	s, known, err := d.c.digests(d.run.ID)
	if err != nil {
		return nil, err
	}
	if !known {
		if len(list) == 0 {
			return list, nil
		}
		return list, d.believe(list)
	}
	list = slices.Clone(list)
	for i, k := range list {
		want, noted := s.Kept[k.String()]
		switch {
		case k.Broken || noted && want == "" || noted && want == k.Manifest.Digest():
		default:
			list[i].Broken = true
			d.recordSeen(ctx, event.CheckpointChanged{Place: k.Place})
		}
	}
	return list, nil
}

// sameKept compares what a store says that it has kept with the tree on the site.
func (a *attempt) sameKept(ctx context.Context, g driver.Generation, m driver.Manifest, remote string) error {
	if err := m.Valid(g); err != nil {
		return &core.Error{Kind: core.Permanent, Err: fmt.Errorf("the store says what cannot be of checkpoint %s: %w", g, err)}
	}
	if a.checked() {
		return nil
	}
	err := a.insist(ctx, func() error {
		return a.same(ctx, driver.Checkpoint{Generation: g, Manifest: m}, tree{a: a, remote: remote})
	})
	if errors.Is(err, errOther) {
		return &core.Error{Kind: core.Permanent, Err: errors.New("what is there is not what the site has"), Remedy: "See who may write to the store."}
	}
	return err
}

// sameRestored compares what a store has sent with the checkpoint that it was given.
func (a *attempt) sameRestored(ctx context.Context, k driver.Checkpoint, remote string) error {
	done := a.sameAs == k.Manifest.Digest()
	a.sameAs = ""
	if a.checked() || done {
		return nil
	}
	err := a.insist(ctx, func() error { return a.same(ctx, k, tree{a: a, remote: remote}) })
	if errors.Is(err, errOther) {
		return errors.Join(driver.ErrDamaged, err)
	}
	return err
}

// checked reports whether nothing on the way to the run's checkpoints could have changed
// them unseen.
func (a *attempt) checked() bool {
	if !a.elsewhere() {
		return true
	}
	return a.where.ChecksContent()
}

// noteExport notes what was saved into a directory of the user's.
func (c *Controller) noteExport(run string, m driver.Manifest) error {
	s, _, err := c.digests(run)
	if err != nil {
		return err
	}
	s.Exported = append(s.Exported, m.Digest())
	s.Exported = s.Exported[max(0, len(s.Exported)-mostExported):]
	return c.putDigests(run, s)
}

// exported reports whether this installation has saved what lies in an export.
func (c *Controller) exported(run string, k driver.Checkpoint) bool {
	s, _, err := c.digests(run)
	return err == nil && slices.Contains(s.Exported, k.Manifest.Digest())
}

// submitted reports whether a run of this installation has a job, as it is read from a
// record.
func (c *Controller) submitted(ctx context.Context, run string, job spec.Job, dir string) bool {
	known, err := c.Store.Run(ctx, run)
	if err != nil {
		return false
	}
	sub, err := SubmissionOf(known)
	if err != nil {
		return false
	}
	if sub, err = sub.foreign(run, dir); err != nil {
		return false
	}
	a, aerr := json.Marshal(sub.Job)
	b, berr := json.Marshal(job)
	return aerr == nil && berr == nil && string(a) == string(b)
}
