// Package s3 is the store of checkpoints that holds objects: S3, and whatever
// speaks as it does. A volume's data are cut into chunks by their content; those
// that are new are packed into objects of some megabytes, which are never changed
// and are named after what they hold. What a checkpoint consists of is in its
// manifest, which is written last; what no manifest refers to is removed after.
//
//	<prefix>/<user>@<run>/run.json            record of the run
//	<prefix>/<user>@<run>/manifests/<N>       what checkpoint N consists of
//	<prefix>/<user>@<run>/trees/<digest>      its volume, with names in place of data
//	<prefix>/<user>@<run>/packs/<bits>-<digest>  chunks, and their index at the end
//	<prefix>/<user>@<run>/bad/<bits>-<digest>    note that a pack is damaged: it is not used again
//
// What hosts have stored by signed requests has ".<digest of their site>" after its name.
//
// It knows no sites, and nothing of S3 but Objects.
package s3

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// Objects is what the store needs of the holder of its objects. Names are
// relative to its prefix.
type Objects interface {
	// Put makes an object, whole or not at all, in place of one of that name.
	Put(ctx context.Context, name string, data []byte) error
	// Get gives length bytes of an object from an offset on, or its last bytes,
	// as many as there are, where the offset is negative; all of it where length
	// is 0, and never more than an object can have. NotFound where there is none.
	Get(ctx context.Context, name string, from, length int64) ([]byte, error)
	// List gives all objects whose name has a prefix, with their sizes.
	List(ctx context.Context, prefix string) (map[string]int64, error)
	// Tops gives the first elements of all names.
	Tops(ctx context.Context) ([]string, error)
	// Delete removes objects. What is gone is success.
	Delete(ctx context.Context, names []string) error
	// Sign returns a URL by which another machine can read an object for a short time, or
	// store one of a size. Here reports that no other machine reaches the objects.
	Sign(ctx context.Context, op driver.ObjectOp, name string, size int64) (url string, err error)
	Here() bool
}

// New returns the store of objects. name is it as its user wrote it.
func New(name string, objects Objects) driver.Store { return &bucket{name, objects} }

type bucket struct {
	name    string
	objects Objects
}

// String implements driver.Store.
func (p *bucket) String() string { return p.name }

// Close implements driver.Store.
func (p *bucket) Close() error { return nil }

// ChecksContent implements driver.Store: digests name all parts of a tree, from its
// manifest on.
func (p *bucket) ChecksContent() bool { return true }

// SharedDirectory implements driver.Store.
func (p *bucket) SharedDirectory() driver.SharedDirectory { return nil }

// Connector implements driver.Store.
func (p *bucket) Connector() driver.Connector { return nil }

// Bucket implements driver.Store.
func (p *bucket) Bucket() driver.Bucket {
	if p.objects.Here() {
		return nil
	}
	return p
}

// Run implements driver.Store.
func (p *bucket) Run(name string) driver.Checkpoints { return &checkpoints{p, name + "/"} }

// Runs implements driver.Store.
func (p *bucket) Runs(ctx context.Context) ([]string, error) {
	tops, err := p.objects.Tops(ctx)
	tops = slices.DeleteFunc(tops, func(name string) bool { _, _, ok := driver.ParseRunName(name); return !ok })
	slices.Sort(tops)
	return tops, err
}

// Parts of the names of a run's objects.
const (
	manifests = "manifests/"
	trees     = "trees/"
	packs     = "packs/"
	bad       = "bad/" // names of packs in which damage was found
	record    = "run.json"
)

// checkpoints are those of one run in a bucket.
type checkpoints struct {
	*bucket
	prefix string
}

// Note implements driver.Checkpoints.
func (s *checkpoints) Note(ctx context.Context, raw []byte) error {
	return s.objects.Put(ctx, s.prefix+record, raw)
}

// Noted implements driver.Checkpoints.
func (s *checkpoints) Noted(ctx context.Context) ([]byte, error) {
	raw, err := s.objects.Get(ctx, s.prefix+record, 0, store.MostRecord)
	if core.IsKind(err, core.NotFound) {
		return nil, nil
	}
	return raw, err
}

// Remove implements driver.Checkpoints: the record goes last, so that what is left
// when this is cut short is found.
func (s *checkpoints) Remove(ctx context.Context) error {
	all, err := s.objects.List(ctx, s.prefix)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(all))
	for name := range all {
		if name != s.prefix+record {
			names = append(names, name)
		}
	}
	if err := s.objects.Delete(ctx, names); err != nil {
		return err
	}
	return s.objects.Delete(ctx, []string{s.prefix + record})
}

// List implements driver.Checkpoints.
func (s *checkpoints) List(ctx context.Context) ([]driver.Checkpoint, error) {
	all, err := s.generations(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]driver.Checkpoint, len(all))
	for i, m := range all {
		list[i] = driver.Checkpoint{Generation: m.generation, Manifest: m.Manifest, Broken: m.broken, Place: s.at(m.generation)}
	}
	return list, store.CheckList(list)
}

func (s *checkpoints) at(g driver.Generation) string {
	name, query, is := strings.Cut(s.name, "?")
	name = strings.TrimSuffix(name, "/") + "/" + path.Join(s.prefix, manifests, g.String())
	if is {
		name += "?" + query
	}
	return name
}

// generations reads all manifests, oldest first.
func (s *checkpoints) generations(ctx context.Context) ([]manifest, error) {
	found, err := s.objects.List(ctx, s.prefix+manifests)
	if err != nil {
		return nil, err
	}
	if err := store.CheckSizes(slices.Collect(maps.Values(found))); err != nil {
		return nil, err
	}
	var list []manifest
	for name, size := range found {
		g, ok := driver.ParseGeneration(strings.TrimPrefix(name, s.prefix+manifests))
		if !ok || size == 0 {
			continue
		}
		raw, err := s.objects.Get(ctx, name, 0, size)
		if core.IsKind(err, core.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, parseManifest(g, raw))
	}
	slices.SortFunc(list, func(a, b manifest) int { return a.generation.Compare(b.generation) })
	return list, nil
}
