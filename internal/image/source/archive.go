package source

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"
)

// files are the members of an archive or of a directory, by their paths.
type files interface {
	open(name string) (*io.SectionReader, io.Closer, error)
}

// Layout finds an image in a directory of the OCI image layout; tag may be
// empty where there is one image only.
func Layout(ctx context.Context, dir, tag string, want v1.Platform) (*Image, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	i, err := fromLayout(ctx, layoutDir{root}, tag, want)
	if err != nil {
		root.Close()
		return nil, err
	}
	i.close = root.Close
	return i, nil
}

// Archive finds an image in a tar archive, as `docker save`, `podman save`
// and others write them. The image owns f from then on.
func Archive(ctx context.Context, f *os.File, tag string, want v1.Platform) (*Image, error) {
	i, err := fromArchive(ctx, f, tag, want)
	if err != nil {
		f.Close()
		return nil, err
	}
	i.close = f.Close
	return i, nil
}

func fromArchive(ctx context.Context, f *os.File, tag string, want v1.Platform) (*Image, error) {
	index, err := openArchive(f)
	if err != nil {
		return nil, err
	}
	if index.isLayout() {
		return fromLayout(ctx, index, tag, want)
	}
	return fromDocker(index, tag)
}

// What shows in an archive of docker's, and in a layout, which images there are.
const (
	dockerIndex = "manifest.json"
	layoutIndex = "index.json"
)

// openArchive finds out what is where in an archive of either format.
func openArchive(f *os.File) (*tarIndex, error) {
	index, err := readIndex(f)
	if err != nil {
		return nil, noArchive(f, err)
	}
	if !index.has(dockerIndex) && !index.has(layoutIndex) {
		return nil, noArchive(f, errors.New("it holds neither "+dockerIndex+" nor "+layoutIndex))
	}
	return index, nil
}

func noArchive(f *os.File, err error) error {
	head := make([]byte, 512)
	n, _ := f.ReadAt(head, 0) // what cannot be read has no known beginning
	if known := fileError(head[:n]); known != nil {
		known.Op, known.Object = "read image archive", f.Name()
		return known
	}
	return &core.Error{Kind: core.Invalid, Op: "read image archive", Object: f.Name(), Err: err, Remedy: "Make it with `docker save` or `podman save`."}
}

func fromLayout(ctx context.Context, in files, tag string, want v1.Platform) (*Image, error) {
	get := func(_ context.Context, d v1.Descriptor, offset int64) (io.ReadCloser, error) {
		if d.Digest.Algorithm != "sha256" {
			return nil, invalid("read", fmt.Errorf("digest %s is of an unknown kind", d.Digest))
		}
		return section(in, "blobs/sha256/"+d.Digest.Hex, offset)
	}
	raw, err := small(in, layoutIndex)
	if err != nil {
		return nil, err
	}
	entries, list, err := indexEntries(raw)
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 && len(list) > 0 {
		return nil, kindError(string(list[0].MediaType))
	}
	if tag == "" && len(entries) != 1 || tag != "" && len(called(list, tag)) == 0 {
		return nil, noneCalled(tag, entries)
	}
	manifest, err := choose(ctx, raw, want, tag, get)
	if err != nil {
		return nil, err
	}
	return assemble(ctx, manifest, get)
}

// fromDocker reads the format of `docker save`. It has no manifest as
// registries have; the one made up here follows from the configuration, so
// that an image has one id, however its archive was packed.
func fromDocker(in files, tag string) (*Image, error) {
	list, err := dockerList(in)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(list, func(m dockerImage) bool { return matches(m.RepoTags, tag) })
	if n, is := placeOf(tag); is && n < len(list) {
		at = n
	} else if tag == "" && len(list) == 1 {
		at = 0
	}
	if at < 0 {
		return nil, noneCalled(tag, dockerEntries(list))
	}
	config, err := small(in, list[at].Config)
	if err != nil {
		return nil, err
	}
	var file v1.ConfigFile
	if err := json.Unmarshal(config, &file); err != nil {
		return nil, invalid("read image configuration", err)
	}
	diffs, layers := file.RootFS.DiffIDs, list[at].Layers
	if len(diffs) != len(layers) {
		return nil, invalid("read image configuration", fmt.Errorf("it names %d layers, the archive has %d", len(diffs), len(layers)))
	}
	i := &Image{Config: config, File: &file}
	if i.Manifest, err = manifestOf(config, diffs); err != nil {
		return nil, err
	}
	for n, d := range diffs {
		r, c, err := in.open(layers[n])
		if err != nil {
			return nil, err
		}
		c.Close()
		i.Layers = append(i.Layers, Layer{
			DiffID: d.String(), Size: r.Size(),
			Open: func(_ context.Context, offset int64) (io.ReadCloser, error) { return section(in, layers[n], offset) },
		})
	}
	return i, nil
}

// dockerImage is one image of manifest.json.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func dockerList(in files) ([]dockerImage, error) {
	raw, err := small(in, dockerIndex)
	if err != nil {
		return nil, err
	}
	var list []dockerImage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, invalid("read "+dockerIndex, err)
	}
	return list, nil
}

// Empty gives the image that has no files.
func Empty(platform v1.Platform) (*Image, error) {
	i := &Image{File: &v1.ConfigFile{OS: platform.OS, Architecture: platform.Architecture, RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{}}}}
	var err error
	if i.Config, err = json.Marshal(i.File); err == nil {
		i.Manifest, err = manifestOf(i.Config, nil)
	}
	return i, err
}

// manifestOf makes a manifest up, of uncompressed layers with these digests.
func manifestOf(config []byte, layers []v1.Hash) ([]byte, error) {
	m := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Layers: []v1.Descriptor{},
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config))},
	}
	var err error
	if m.Config.Digest, err = v1.NewHash(digest(config)); err != nil {
		return nil, err
	}
	for _, d := range layers {
		m.Layers = append(m.Layers, v1.Descriptor{MediaType: types.OCIUncompressedLayer, Digest: d})
	}
	return json.Marshal(m)
}

func matches(tags []string, want string) bool {
	for _, t := range tags {
		if want != "" && (t == want || strings.HasSuffix(t, "/"+want) || strings.HasSuffix(t, ":"+want)) {
			return true
		}
	}
	return false
}

// small reads a document.
func small(in files, name string) ([]byte, error) {
	r, c, err := in.open(name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if r.Size() > maxDocument {
		return nil, invalid("read "+name, fmt.Errorf("%d bytes are too many", r.Size()))
	}
	raw := make([]byte, r.Size())
	_, err = io.ReadFull(r, raw)
	return raw, err
}

func section(in files, name string, offset int64) (io.ReadCloser, error) {
	r, c, err := in.open(name)
	if err != nil {
		return nil, err
	}
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		c.Close()
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{r, c}, nil
}

// layoutDir is a directory; nothing outside of it is read.
type layoutDir struct{ root *os.Root }

func (l layoutDir) open(name string) (*io.SectionReader, io.Closer, error) {
	f, err := l.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO's other end may never come
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err != nil { // such as a link that leads out
		return nil, nil, invalid("read", err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = invalid("read", fmt.Errorf("%s is no plain file", name))
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return io.NewSectionReader(f, 0, info.Size()), f, nil
}

// tarIndex knows where in an archive each member is.
type tarIndex struct {
	f       *os.File
	members map[string]member
}

type member struct {
	at, size int64
	link     string
}

const maxMembers = 100_000

func readIndex(f *os.File) (*tarIndex, error) {
	x := &tarIndex{f: f, members: map[string]member{}}
	t := tar.NewReader(f) // f is a Seeker, so content is skipped
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return x, nil
		}
		if err != nil {
			return nil, err
		}
		if len(x.members) > maxMembers {
			return nil, errors.New("it has too many members")
		}
		name := path.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			at, err := f.Seek(0, io.SeekCurrent)
			if err != nil {
				return nil, err
			}
			x.members[name] = member{at: at, size: h.Size}
		case tar.TypeSymlink: // old versions of docker have layers once
			x.members[name] = member{link: path.Join(path.Dir(name), h.Linkname)}
		case tar.TypeLink:
			x.members[name] = member{link: path.Clean(h.Linkname)}
		}
	}
}

func (x *tarIndex) has(name string) bool { _, is := x.members[name]; return is }

// isLayout distinguishes an archive of a layout from docker's, which newer ones are both.
func (x *tarIndex) isLayout() bool { return !x.has(dockerIndex) }

func (x *tarIndex) open(name string) (*io.SectionReader, io.Closer, error) {
	name = path.Clean(name)
	for range 8 {
		m, ok := x.members[name]
		if !ok {
			return nil, nil, &fs.PathError{Op: "find in archive", Path: name, Err: fs.ErrNotExist}
		}
		if m.link == "" {
			return io.NewSectionReader(x.f, m.at, m.size), io.NopCloser(nil), nil
		}
		name = m.link
	}
	return nil, nil, invalid("read archive", errors.New("its links go round"))
}
