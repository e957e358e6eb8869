package source

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Entry is one image of an archive or a layout; for several platforms, it is still one.
type Entry struct {
	// Names are what it is called there; it may have none.
	Names []string
	// Tag is what Archive and Layout find it by.
	Tag string
}

// Called reports whether a tag finds it: by a whole name, or by the end of one.
func (e Entry) Called(tag string) bool { return e.Tag == tag || matches(e.Names, tag) }

// Contents gives the images in an archive.
func Contents(f *os.File) ([]Entry, error) {
	index, err := openArchive(f)
	if err != nil {
		return nil, err
	}
	if index.isLayout() {
		return layoutEntries(index)
	}
	list, err := dockerList(index)
	return dockerEntries(list), err
}

// LayoutContents gives the images in a directory of the OCI image layout.
func LayoutContents(dir string) ([]Entry, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return layoutEntries(layoutDir{root})
}

func dockerEntries(list []dockerImage) []Entry {
	var entries []Entry
	for n, m := range list {
		entries = append(entries, Entry{Names: m.RepoTags, Tag: tagAt(n)})
	}
	if len(entries) == 1 {
		entries[0].Tag = ""
	}
	return entries
}

func layoutEntries(in files) ([]Entry, error) {
	raw, err := small(in, layoutIndex)
	if err != nil {
		return nil, err
	}
	entries, _, err := indexEntries(raw)
	return entries, err
}

// indexEntries gives the images of a layout, and what its index lists: those of one
// name are one for several platforms, and so are those of none.
func indexEntries(raw []byte) (entries []Entry, list []v1.Descriptor, err error) {
	index, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, nil, invalid("read index", err)
	}
	at := map[string]int{} // of names and digests
	for n, d := range index.Manifests {
		name, digest := nameIn(d), d.Digest.String()
		_, known := at[name]
		i, same := at[digest]
		switch {
		case !isImage(d) || known: // for another platform
			continue
		case same && name != "":
			entries[i].Names = append(entries[i].Names, name)
		case name != "":
			i, entries = len(entries), append(entries, Entry{Names: []string{name}, Tag: name})
		default:
			i, entries = len(entries), append(entries, Entry{Tag: tagAt(n)})
		}
		at[name], at[digest] = i, i
	}
	if len(entries) == 1 && len(entries[0].Names) == 0 {
		entries[0].Tag = "" // by the platform
	}
	return entries, index.Manifests, nil
}

// isImage distinguishes images of an index from what else it may list, such as attestations.
func isImage(d v1.Descriptor) bool {
	kind := d.MediaType.IsIndex() || d.MediaType.IsImage() || d.MediaType == ""
	return kind && (d.Platform == nil || d.Platform.OS != "unknown") && d.Annotations["vnd.docker.reference.type"] == ""
}

// Annotations that name an image of a layout. The first is a whole name; the second may
// be no more than a tag.
const (
	imageName = "io.containerd.image.name"
	refName   = "org.opencontainers.image.ref.name"
)

func nameIn(d v1.Descriptor) string { return cmp.Or(d.Annotations[imageName], d.Annotations[refName]) }

// called gives what a tag finds in an index: by its whole name, else by the end of one,
// else by its place.
func called(list []v1.Descriptor, tag string) []v1.Descriptor {
	var whole, end []v1.Descriptor
	for _, d := range list {
		if !isImage(d) {
			continue
		}
		for _, name := range []string{d.Annotations[imageName], d.Annotations[refName]} {
			if name == tag {
				whole = append(whole, d)
			}
			if strings.HasSuffix(name, ":"+tag) {
				end = append(end, d)
			}
		}
	}
	if n, is := placeOf(tag); is && n < len(list) {
		end = append(end, list[n])
	}
	if len(whole) > 0 {
		return whole
	}
	return end
}

// tagAt finds an image by its place, from 0, as skopeo writes it.
func tagAt(n int) string { return "@" + strconv.Itoa(n) }

// placeOf is the inverse of tagAt.
func placeOf(tag string) (n int, is bool) {
	digits, is := strings.CutPrefix(tag, "@")
	n, err := strconv.Atoi(digits)
	return n, is && err == nil && n >= 0
}

// noneCalled is the error where a tag finds none of the images of an archive or layout,
// or there are several and no tag.
func noneCalled(tag string, entries []Entry) error {
	if len(entries) == 0 {
		return &core.Error{Kind: core.NotFound, Op: "find image", Err: errors.New("there is none in it"), Remedy: "Check the path."}
	}
	var names []string
	for _, e := range entries {
		names = append(names, cmp.Or(strings.Join(e.Names, ", "), e.Tag))
	}
	e := &core.Error{Kind: core.Invalid, Op: "find image", Err: errors.New("there are several: " + strings.Join(names, "; "))}
	if tag != "" {
		e.Kind, e.Err = core.NotFound, errors.New("there is none with the tag "+strconv.Quote(tag)+", but "+strings.Join(names, "; "))
	}
	e.Remedy = "Name one of them behind the path, such as PATH:" + append(slices.Clone(entries[0].Names), entries[0].Tag)[0] + "."
	return e
}
