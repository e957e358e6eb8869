package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
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

func (p Places) digests(run string) (digests, bool, error) {
	var s digests
	raw, err := fsutil.ReadFile(p.State.RunDir(run), digestsName, mostDigests)
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

func (p Places) putDigests(run string, s digests) error {
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(p.State.RunDir(run), digestsName), raw, 0o600)
}

// Elsewhere reports whether the run's checkpoints lie where others may write.
func (c *Checkpoints) Elsewhere() bool { return c.store != "" }

// ExpectKeep notes that a checkpoint is about to be kept: should this process die, the store
// may have it whole, and its digest is not known. The digest of one that was kept before, and
// that the store has damaged, is not that of the copy which the store now makes.
func (c *Checkpoints) ExpectKeep(ctx context.Context, store driver.Checkpoints, g driver.Generation) error {
	return c.changeDigests(func(s *digests) (bool, error) {
		digest, known := s.Kept[g.String()]
		if digest != "" {
			damaged, err := isDamaged(ctx, store, g)
			if err != nil {
				return false, c.Failed("keep a checkpoint of run", err)
			}
			if !damaged {
				return false, nil
			}
		}
		s.Kept[g.String()] = ""
		return !known || digest != "", nil
	})
}

// isDamaged reports whether a store has only a part of a checkpoint, or nothing.
func isDamaged(ctx context.Context, store driver.Checkpoints, g driver.Generation) (bool, error) {
	list, err := store.List(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(list, func(k driver.Checkpoint) bool { return k.Generation == g })
	if i < 0 || list[i].Broken {
		return true, nil
	}
	err = store.Check(ctx, list[i])
	if errors.Is(err, driver.ErrDamaged) {
		return true, nil
	}
	return false, err
}

// NoteDigest notes what has been kept, before the site's copy may go.
func (c *Checkpoints) NoteDigest(g driver.Generation, m driver.Manifest) error {
	return c.changeDigests(func(s *digests) (bool, error) {
		is := m.Digest()
		changed := s.Kept[g.String()] != is
		s.Kept[g.String()] = is
		return changed, nil
	})
}

// Believe notes what a store has of a run that is new here: it is not known whether it is
// what the other installation kept.
func (c *Checkpoints) Believe(list []driver.Checkpoint) error {
	return c.changeDigests(func(s *digests) (bool, error) {
		for _, k := range list {
			if !k.Broken {
				s.Kept[k.String()] = k.Manifest.Digest()
			}
		}
		return true, nil
	})
}

// changeDigests changes the note where the run's checkpoints lie elsewhere. change reports
// whether the note has changed.
func (c *Checkpoints) changeDigests(change func(*digests) (bool, error)) error {
	if !c.Elsewhere() {
		return nil
	}
	c.digesting.Lock()
	defer c.digesting.Unlock()
	s, _, err := c.digests(c.run.ID)
	if err != nil {
		return err
	}
	if s.Kept == nil {
		s.Kept = map[string]string{}
	}
	if changed, err := change(&s); err != nil || !changed {
		return err
	}
	return c.putDigests(c.run.ID, s)
}

// compared marks as broken each checkpoint that is not the one that was stored there. For a
// run of a version that noted no digests, it notes those of what the store has.
func (c *Checkpoints) compared(ctx context.Context, list []driver.Checkpoint) ([]driver.Checkpoint, error) {
	if !c.Elsewhere() {
		return list, nil
	}
	s, known, err := c.digests(c.run.ID)
	if err != nil {
		return nil, err
	}
	if !known {
		if len(list) == 0 {
			return list, nil
		}
		return list, c.Believe(list)
	}
	list = slices.Clone(list)
	for i, k := range list {
		want, noted := s.Kept[k.String()]
		switch {
		case k.Broken || noted && want == "" || noted && want == k.Manifest.Digest():
		default:
			list[i].Broken = true
			if c.Changed != nil {
				c.Changed(ctx, k.Place)
			}
		}
	}
	return list, nil
}

// NoteExport notes what was saved into a directory of the user's.
func (p Places) NoteExport(run string, m driver.Manifest) error {
	s, _, err := p.digests(run)
	if err != nil {
		return err
	}
	s.Exported = append(s.Exported, m.Digest())
	s.Exported = s.Exported[max(0, len(s.Exported)-mostExported):]
	return p.putDigests(run, s)
}

// Exported reports whether this installation has written the checkpoint of an export.
func (p Places) Exported(run string, k driver.Checkpoint) bool {
	s, _, err := p.digests(run)
	return err == nil && slices.Contains(s.Exported, k.Manifest.Digest())
}
