package s3

import (
	"context"
	"io"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Restore implements driver.Checkpoints. What can be found out without reading all
// of it is looked at before anything is sent; each chunk is checked on its way.
func (s *checkpoints) Restore(ctx context.Context, k driver.Checkpoint, to driver.Sink) error {
	m, err := s.find(ctx, k)
	if err != nil {
		return err
	}
	stock, err := s.load(ctx, m.Packs, true)
	if err != nil {
		return err
	}
	tree, err := to.Receive(ctx)
	if err != nil {
		return err
	}
	defer tree.Close()
	known, err := treesync.ReadKnown(tree)
	if err != nil {
		return err
	}
	var sent error
	err = treesync.Deliver(tree, func(w io.Writer) error {
		sent = treesync.Unshelve(ctx, w, &reader{ctx: ctx, store: s, left: m.Tree}, known, stock, nil)
		return sent
	})
	if err != nil && isDamage(sent) {
		return sent
	}
	return err
}

// Check implements driver.Checkpoints: every object is there, of its size. Their content is
// checked by Restore.
func (s *checkpoints) Check(ctx context.Context, k driver.Checkpoint) error {
	_, err := s.find(ctx, k)
	return err
}

// find returns the manifest of a checkpoint whose objects are all there.
func (s *checkpoints) find(ctx context.Context, k driver.Checkpoint) (manifest, error) {
	all, err := s.generations(ctx)
	if err != nil {
		return manifest{}, err
	}
	i := slices.IndexFunc(all, func(m manifest) bool { return m.generation == k.Generation })
	if i < 0 || all[i].broken || all[i].Manifest.Digest() != k.Manifest.Digest() {
		return manifest{}, driver.ErrDamaged
	}
	return all[i], s.present(ctx, all[i])
}

// present makes sure that every object of a checkpoint is there, of its size.
func (s *checkpoints) present(ctx context.Context, m manifest) error {
	there, err := s.objects.List(ctx, s.prefix)
	if err != nil {
		return err
	}
	for prefix, list := range map[string][]object{packs: m.Packs, trees: m.Tree} {
		for _, o := range list {
			if size, is := there[s.prefix+prefix+o.Name]; !is || size != o.Size || size < 0 || size > mostObject {
				return damaged("an object is gone, or not of its size", prefix+o.Name)
			}
		}
	}
	return nil
}

// reader reads a tree from its pieces, each checked against its name.
type reader struct {
	ctx   context.Context // a Reader's
	store *checkpoints
	left  []object
	buf   []byte
}

// Read implements io.Reader.
func (r *reader) Read(b []byte) (int, error) {
	for len(r.buf) == 0 {
		if len(r.left) == 0 {
			return 0, io.EOF
		}
		o := r.left[0]
		raw, err := r.store.objects.Get(r.ctx, r.store.prefix+trees+o.Name, 0, 0)
		if core.IsKind(err, core.NotFound) || err == nil && digest(raw) != contentOf(o.Name) {
			return 0, damaged("a part of the tree is not what it was", o.Name)
		}
		if err != nil {
			return 0, err
		}
		r.buf, r.left = raw, r.left[1:]
	}
	n := copy(b, r.buf)
	r.buf = r.buf[n:]
	return n, nil
}

// collect removes the checkpoints that are not kept any more, and then every
// object that none of the others refers to.
func (s *checkpoints) collect(ctx context.Context) error {
	all, err := s.generations(ctx)
	if err != nil {
		return err
	}
	surplus, all := store.Surplus(all, func(m manifest) (driver.Generation, bool) { return m.generation, m.broken })
	var gone []string
	for _, m := range surplus {
		gone = append(gone, s.prefix+manifests+m.generation.String())
	}
	if err := s.objects.Delete(ctx, gone); err != nil {
		return err
	}
	used := map[string]bool{}
	for _, m := range all {
		for _, o := range m.Packs {
			used[s.prefix+packs+o.Name] = true
		}
		for _, o := range m.Tree {
			used[s.prefix+trees+o.Name] = true
		}
	}
	gone = nil
	for _, prefix := range []string{packs, trees} {
		found, err := s.objects.List(ctx, s.prefix+prefix)
		if err != nil {
			return err
		}
		for name := range found {
			if !used[name] {
				gone = append(gone, name)
			}
		}
	}
	return s.objects.Delete(ctx, gone)
}
