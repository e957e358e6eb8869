package image

import (
	"cmp"
	"errors"
	"os"
	"sort"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/spec"
)

// ref gives the image that a reference meant when last asked. What was remembered
// before images for other platforms were refused does not count.
func (s *Store) ref(key, platform, ref string) (core.Image, bool) {
	id, called, err := s.refs.get(key, platform)
	if err != nil {
		return core.Image{}, false
	}
	i, ok := s.have(id, cmp.Or(ref, called))
	return i, ok && isFor(i, platform)
}

// isFor reports whether an image is for a platform, as far as both say.
func isFor(i core.Image, platform string) bool {
	system, arch, _ := strings.Cut(platform, "/")
	arch, _, _ = strings.Cut(arch, "/")
	return cmp.Or(i.OS, system) == system && (arch == "" || cmp.Or(i.Arch, arch) == arch)
}

// Get gives an image by id, by the beginning of one, or by reference.
func (s *Store) Get(word string) (core.Image, error) {
	if r, err := s.read(word); err == nil && s.Has(word) {
		return r.Image, nil
	}
	all, err := s.List()
	if err != nil {
		return core.Image{}, err
	}
	names, err := s.refs.names()
	if err != nil {
		return core.Image{}, err
	}
	var found, once []core.Image
	for _, i := range all {
		switch {
		case isCalled(i, names[i.ID], word):
			found = append(found, i)
		case i.Ref == word:
			once = append(once, i)
		}
	}
	if len(found) == 0 { // what it was got by counts as long as nothing else is called so
		found = once
	}
	switch len(found) {
	case 0:
		return core.Image{}, notHere(word)
	case 1:
		return found[0], nil
	}
	return core.Image{}, &core.Error{Kind: core.Invalid, Op: "find image", Object: word, Err: errors.New("several images are called so"), Remedy: "Give the id instead; `bee image ls` lists them."}
}

func isCalled(i core.Image, names []string, word string) bool {
	if len(hexOf(word)) >= 4 && strings.HasPrefix(hexOf(i.ID), hexOf(word)) {
		return true
	}
	full := ""
	if !spec.IsLocalImage(word) {
		if r, err := source.ParseRef(word, false); err == nil {
			full = r.Name()
		}
	}
	for _, n := range names {
		if n == word {
			return true
		}
		if r, err := source.ParseRef(n, false); full != "" && !spec.IsLocalImage(n) && err == nil && r.Name() == full {
			return true
		}
	}
	return false
}

// List gives all images, by reference.
func (s *Store) List() ([]core.Image, error) {
	entries, err := os.ReadDir(s.dir.folder("images"))
	if err != nil {
		return nil, err
	}
	var list []core.Image
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		if r, err := s.read(id); err == nil && s.Has(id) {
			list = append(list, r.Image)
		}
	}
	sort.Slice(list, func(i, j int) bool {
		return list[i].Ref < list[j].Ref || list[i].Ref == list[j].Ref && list[i].ID < list[j].ID
	})
	return list, nil
}

// Names gives all references that mean each image, by id.
func (s *Store) Names() (map[string][]string, error) {
	names, err := s.refs.names()
	for _, list := range names {
		sort.Strings(list)
	}
	return names, err
}
