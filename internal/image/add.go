package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/image/unpack"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// parallel is how many layers come at once.
const parallel = 4

// add brings an image into the cache, unless it is there.
func (s *Store) add(ctx context.Context, ref string, src *source.Image, o PullOptions) (core.Image, error) {
	r := record{Created: time.Now(), Image: core.Image{ID: src.ID(), Ref: ref, OS: src.File.OS, Arch: src.File.Architecture, Config: configOf(src.File.Config)}, Document: src.Config}
	return s.makeOnce(ctx, r, o, func() (core.Image, error) { return s.addNew(ctx, r, src, o) })
}

// makeOnce gives the image of a record: as the cache has it, or by making it, which one
// process does at a time.
func (s *Store) makeOnce(ctx context.Context, r record, o PullOptions, make func() (core.Image, error)) (core.Image, error) {
	made := func() bool {
		_, ok := s.have(r.ID, r.Ref)
		return ok
	}
	for {
		if old, ok := s.have(r.ID, r.Ref); ok {
			return old, nil
		}
		lock, err := s.dir.lockToMake(ctx, r.ID, o, made)
		if err != nil {
			return core.Image{}, err
		}
		if lock == nil {
			continue
		}
		defer lock.Close()
		if old, ok := s.have(r.ID, r.Ref); ok { // another process was quicker
			return old, nil
		}
		return make()
	}
}

// addNew brings an image into the cache; the caller has the lock to make it.
func (s *Store) addNew(ctx context.Context, r record, src *source.Image, o PullOptions) (core.Image, error) {
	if err := s.dir.sweep(); err != nil {
		s.log.Debug("sweep image cache", "err", err)
	}
	w, err := s.dir.newWorkplace()
	if err != nil {
		return core.Image{}, err
	}
	defer w.end()
	u, err := s.unpackAll(ctx, w, src, o)
	if errors.Is(err, errDamaged) { // it may be what was left of an earlier pull, which is gone now
		u, err = s.unpackAll(ctx, w, src, o)
	}
	if err != nil {
		return core.Image{}, err
	}
	defer u.Close()
	if src.Remote {
		for _, l := range src.Layers {
			r.Layers = append(r.Layers, l.Digest)
		}
		if err := errors.Join(s.dir.publish(s.dir.path("blobs", src.ID()), src.Manifest), s.dir.publish(s.dir.path("blobs", src.ConfigDigest()), src.Config)); err != nil {
			return core.Image{}, err
		}
		r.Layers = append(r.Layers, src.ID(), src.ConfigDigest())
	}
	return s.finish(r, u, w)
}

// checkSpace refuses what cannot fit even in its compressed form.
func (s *Store) checkSpace(src *source.Image) error {
	var need int64
	for _, l := range src.Layers {
		need += l.Size
	}
	var st unix.Statfs_t
	if err := unix.Statfs(string(s.dir), &st); err != nil {
		return nil // then the write itself shows it
	}
	if free := int64(st.Bavail) * st.Bsize; free < need+s.limits.Spare {
		return &core.Error{
			Kind: core.Permanent, Op: "fetch image", Err: fmt.Errorf("it has %d MB, and %d MB are free below %s", need>>20, free>>20, s.dir),
			Remedy: unpack.RemedyFull,
		}
	}
	return nil
}

// have gives an image that the cache has.
func (s *Store) have(id, ref string) (core.Image, bool) {
	r, err := s.read(id)
	r.Ref = ref
	return r.Image, err == nil && s.Has(id)
}

// finish makes an unpacked image one of the cache's.
func (s *Store) finish(r record, u *unpack.Unpacker, w *workplace) (core.Image, error) {
	if err := u.Finish(); err != nil {
		return core.Image{}, err
	}
	r.Size = u.Bytes()
	raw, err := json.Marshal(r)
	if err != nil {
		return core.Image{}, err
	}
	if unusual := u.Unusual(); len(unusual) > 0 {
		list, err := json.Marshal(unusual)
		if err != nil {
			return core.Image{}, err
		}
		if err := s.dir.publish(s.dir.path("images", r.ID)+".odd", list); err != nil {
			return core.Image{}, err
		}
	}
	if err := s.dir.publish(s.dir.path("images", r.ID)+".json", raw); err != nil {
		return core.Image{}, err
	}
	// A tree that is there is taken as it is for ever, so it has to be whole after
	// a loss of power, too. One sync of all is many times quicker than one of each
	// file.
	if err := unix.Syncfs(int(w.lock.Fd())); err != nil {
		return core.Image{}, fmt.Errorf("sync %s: %w", s.dir, err)
	}
	return r.Image, moveTree(w.path(treeName), s.dir.path("trees", r.ID))
}

const treeName = "tree"

// moveTree makes a whole tree visible at once. The root has to be writable
// while it is renamed, and readable ever after.
func moveTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.Chmod(from, 0o700); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return errors.Join(os.Chmod(to, info.Mode()|0o500), os.Chtimes(to, info.ModTime(), info.ModTime()))
}

// unpackAll unpacks the layers, each as it comes, while others come.
func (s *Store) unpackAll(ctx context.Context, w *workplace, src *source.Image, o PullOptions) (*unpack.Unpacker, error) {
	if err := os.RemoveAll(w.path(treeName)); err != nil {
		return nil, err
	}
	if err := os.Mkdir(w.path(treeName), 0o700); err != nil {
		return nil, err
	}
	u, err := unpack.New(w.path(treeName), s.limits)
	if err != nil {
		return nil, err
	}
	if src.Remote {
		err = s.unpackRemote(ctx, u, src, o)
	} else {
		err = unpackLocal(ctx, u, src, o)
	}
	if err != nil {
		u.Close()
		return nil, err
	}
	return u, nil
}

func unpackLocal(ctx context.Context, u *unpack.Unpacker, src *source.Image, o PullOptions) error {
	p := newMeter(o, "unpacking", src.Layers)
	for _, l := range src.Layers {
		r, err := l.Open(ctx, 0)
		if err != nil {
			return err
		}
		sum := sha256.New()
		in := struct {
			io.Reader
			io.Closer
		}{io.TeeReader(&meterReader{r, p}, sum), r}
		diff, err := u.Blob(ctx, in)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return broken(l, err)
		}
		if err := check(l.DiffID, diff); err != nil {
			return err
		}
		// A compressed layer may have bytes behind its end; they count.
		if l.Digest != "" && l.Digest != diff {
			if err := check(l.Digest, "sha256:"+hex.EncodeToString(sum.Sum(nil))); err != nil {
				return err
			}
		}
	}
	return nil
}

const remedyDamaged = "The image is damaged; get it again from where it was made."

func check(want, got string) error {
	if want == got {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "verify layer", Object: want, Err: fmt.Errorf("its content has the digest %s", got), Remedy: remedyDamaged}
}

// broken is the error for a layer that has come as it is at its source, and cannot
// be unpacked.
func broken(l source.Layer, err error) error {
	_, ours := errors.AsType[*core.Error](err)
	if _, ofFiles := errors.AsType[unix.Errno](err); ours || ofFiles {
		return err
	}
	return &core.Error{Kind: core.Invalid, Op: "unpack layer", Object: l.DiffID, Err: err, Remedy: remedyDamaged}
}

func (s *Store) unpackRemote(ctx context.Context, u *unpack.Unpacker, src *source.Image, o PullOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.checkSpace(src); err != nil {
		return err
	}
	downloads := map[string]*download{}
	var order []*download // an image may have one layer twice
	m := newMeter(o, "fetching", src.Layers)
	for _, l := range src.Layers {
		if downloads[l.Digest] == nil {
			d := newDownload(s.dir, s.log, l, m.add)
			downloads[l.Digest] = d
			order = append(order, d)
		}
	}
	defer func() {
		for _, d := range order {
			d.end()
		}
	}()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		for _, l := range src.Layers {
			d := downloads[l.Digest]
			diff, err := u.Blob(ctx, d.reader(ctx))
			if err != nil {
				return d.blame(ctx, err)
			}
			select {
			case <-d.ended:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if d.err != nil {
				return d.err
			}
			if err := check(l.DiffID, diff); err != nil {
				return d.blame(ctx, err)
			}
		}
		return nil
	})
	g.Go(func() error {
		fetches, ctx := errgroup.WithContext(ctx)
		fetches.SetLimit(parallel)
		for _, d := range order {
			fetches.Go(func() error { return d.run(ctx) })
		}
		return fetches.Wait()
	})
	return g.Wait()
}

// meter adds up what has come, for progress.
type meter struct {
	mu          sync.Mutex
	what        string
	done, total int64
	report      func(string, int64, int64)
}

func newMeter(o PullOptions, what string, layers []source.Layer) *meter {
	m := &meter{what: what, report: o.Progress}
	seen := map[string]bool{}
	for _, l := range layers {
		if !seen[l.DiffID] {
			m.total += l.Size
		}
		seen[l.DiffID] = true
	}
	return m
}

func (m *meter) add(n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += n
	m.report(m.what, m.done, m.total)
}

type meterReader struct {
	r io.Reader
	m *meter
}

func (r *meterReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.m.add(int64(n))
	return n, err
}

func configOf(c v1.Config) core.ImageConfig {
	return core.ImageConfig{
		Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, Labels: c.Labels, StopSignal: c.StopSignal,
		Volumes: slices.Sorted(maps.Keys(c.Volumes)),
	}
}
