package image

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/spec"
)

// Imported is an image that was imported, and what it is called since then.
type Imported struct {
	core.Image
	Names []string
}

// Import imports the images of an archive or an OCI layout under the names that they
// have there, as `docker load` does: all, or the one whose tag is behind the path and a
// colon. Where one cannot be, it gives those that came before it, too.
func (s *Store) Import(ctx context.Context, path string, o PullOptions) ([]Imported, error) {
	file, tag := spec.SplitPath(path)
	ref := "docker-archive:" + file
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		ref = "oci:" + file
	}
	entries, at, done, err := locator{s.limits}.contents(file)
	if err != nil {
		return nil, pullError(ref, err)
	}
	defer done()
	if tag != "" {
		entries = slices.DeleteFunc(entries, func(e source.Entry) bool { return !e.Called(tag) })
	}
	if len(entries) != 1 && (tag != "" || len(entries) == 0) {
		entries = []source.Entry{{Tag: tag}} // looking for it reports what there is
	}
	var list []Imported
	for _, e := range entries {
		r := ref
		if e.Tag != "" {
			r += ":" + e.Tag
		}
		i, err := s.pullFrom(ctx, r, func() (*location, error) { return at(e.Tag) }, o)
		if err != nil {
			return list, err
		}
		named := Imported{Image: i}
		for _, name := range e.Names {
			if spec.CheckName("", name) != nil { // a path, an id or a digest cannot be given away
				continue
			}
			if err := s.Name(i.ID, name, o.Platform); err != nil {
				return list, err
			}
			named.Names = append(named.Names, name)
		}
		list = append(list, named)
	}
	return list, nil
}

// contents lists what an archive or a layout holds, and gives where each image of it
// is. An archive is decompressed once for all.
func (l locator) contents(path string) (entries []source.Entry, at func(tag string) (*location, error), done func(), err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if info.IsDir() {
		entries, err = source.LayoutContents(path)
		return entries, func(tag string) (*location, error) { return layoutAt(path, tag) }, func() {}, err
	}
	f, err := l.openPlain(path)
	if err != nil {
		return nil, nil, nil, err
	}
	if entries, err = source.Contents(f); err != nil {
		f.Close()
		return nil, nil, nil, err
	}
	again := func() (*os.File, error) { return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd())) }
	return entries, func(tag string) (*location, error) { return archiveAt(path, tag, again) }, func() { f.Close() }, nil
}

// Name gives an image of the cache a further name, by which Beefiles find it without
// asking a registry, for a platform; empty: this machine's. What was called so is not
// any more.
func (s *Store) Name(id, name, platform string) error {
	if err := spec.CheckName("", name); err != nil {
		return err
	}
	r, err := source.ParseRef(name, false)
	if err != nil {
		return err
	}
	return s.refs.set(r.Name(), PullOptions{Platform: platform}.filled().Platform, name, id)
}
