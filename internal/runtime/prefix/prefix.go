// Package prefix makes a directory by which programs of an unpacked image run on the bare
// host, with the image's own loader and libraries, without root and without a container:
//
//	bin/          a wrapper for each program in the image's PATH
//	lib/          links to its libraries and what is beside them
//	share/, etc/  links to the image's own
//	more/         wrappers of programs outside of the PATH
//
// All links of the image are resolved within it, so that /etc/alternatives is never the
// host's. Paths that a program has built in stay the host's. The package starts nothing.
package prefix

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// Variable is in the environment of every process that a prefix starts, for those who look
// at processes. Its value is a Mark as JSON.
const Variable = "BEE_PREFIX"

// Mark says where the files of a process belong.
type Mark struct {
	// Tree is the image's, and Binary the bee program.
	Tree   string `json:"tree"`
	Binary string `json:"binary"`
	// Places are directories of the host by their paths in a container.
	Places map[string]string `json:"places"`
	// Prefix is the directory of the prefix; empty: programs are those of the host.
	Prefix string `json:"prefix,omitempty"`
}

// Input is what a prefix is made of.
type Input struct {
	// Tree is the image's unpacked root file system, and Binary the bee program. Both are
	// paths without links.
	Tree, Binary string
	// Env is the job's environment, KEY=VALUE. Its PATH and LD_LIBRARY_PATH count.
	Env []string
	// Places are directories of the host by their paths in a container, such as /work.
	Places map[string]string
}

// Prefix is such a directory.
type Prefix struct {
	dir, tree string
	host      bool     // the programs are the host's, see OfHost
	places    []place  // the longest first
	own       []string // variables by which libraries find what belongs to them
	linked    []string // the libraries in lib/, where they lie

	mu      sync.Mutex        // of more and loaders
	more    map[string]string // wrappers by paths in the image
	loaders map[string]loader // by their paths in the image
}

type place struct{ inside, host string }

// mostEntries bounds the links and wrappers of a prefix.
const mostEntries = 200_000

// Make makes a prefix in a directory that does not exist.
func Make(dir string, in Input) (*Prefix, error) {
	if strings.ContainsAny(dir+in.Tree, ":\n") {
		return nil, fmt.Errorf("a loader cannot search in %q, whose name has a colon", dir)
	}
	p := &Prefix{dir: dir, tree: in.Tree, more: map[string]string{}, loaders: map[string]loader{}}
	p.places = append([]place{{sentPrefix, dir}}, placesOf(in)...)
	for _, d := range []string{"", "bin", "lib", "more"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o700); err != nil {
			return nil, err
		}
	}
	for name, inside := range map[string]string{"share": "/usr/share", "etc": "/etc"} {
		if to, is := p.dirIn(inside); is {
			if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		}
	}
	if err := p.linkLibraries(p.libraryDirs(valueOf(in.Env, "LD_LIBRARY_PATH"))); err != nil {
		return nil, fmt.Errorf("link the image's libraries: %w", err)
	}
	if err := p.wrapPrograms(filepath.SplitList(valueOf(in.Env, "PATH"))); err != nil {
		return nil, fmt.Errorf("wrap the image's programs: %w", err)
	}
	mark, err := json.Marshal(Mark{in.Tree, in.Binary, in.Places, dir})
	if err != nil {
		return nil, err
	}
	p.own = append(p.variables(), Variable+"="+string(mark))
	return p, nil
}

// placesOf are the places of a job, the longest first.
func placesOf(in Input) (places []place) {
	for inside, host := range in.Places {
		places = append(places, place{path.Clean(inside), host})
	}
	slices.SortFunc(places, func(a, b place) int { return len(b.inside) - len(a.inside) })
	return places
}

// in gives where a path in the image is on the host, links followed within the image.
func (p *Prefix) in(inside string) (string, fs.FileInfo, error) {
	host, err := securejoin.SecureJoin(p.tree, inside)
	if err != nil {
		return "", nil, err
	}
	info, err := os.Lstat(host)
	return host, info, err
}

func (p *Prefix) dirIn(inside string) (string, bool) {
	host, info, err := p.in(inside)
	return host, err == nil && info.IsDir()
}

// An entry is one of a directory of the image.
type entry struct {
	name, dir string // the directory's path in the image
	parent    string // and where it is on the host, without links
	kind      fs.FileMode
}

// entries returns what is in a directory of the image, by name; none where it is no directory.
func (p *Prefix) entries(inside string) []entry {
	host, is := p.dirIn(inside)
	if !is {
		return nil
	}
	d, err := os.Open(host)
	if err != nil {
		return nil
	}
	defer d.Close()
	list, _ := d.ReadDir(mostEntries) // what cannot be read is absent, and so reported where it is wanted
	all := make([]entry, len(list))
	for i, e := range list {
		all[i] = entry{e.Name(), inside, host, e.Type()}
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return all
}

// find gives where an entry is on the host, links followed within the image, and what it is.
// Only links are looked at, since an image has thousands of files.
func (p *Prefix) find(e entry) (string, fs.FileMode, error) {
	if e.kind != fs.ModeSymlink {
		return filepath.Join(e.parent, e.name), e.kind, nil
	}
	host, info, err := p.in(path.Join(e.dir, e.name))
	if err != nil {
		return "", 0, err
	}
	return host, info.Mode().Type(), nil
}

// placed puts a link in place unless there is one of that name already.
func placed(target, link string) error {
	if err := os.Symlink(target, link); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func valueOf(env []string, key string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, key+"="); ok {
			value = v
		}
	}
	return value
}
