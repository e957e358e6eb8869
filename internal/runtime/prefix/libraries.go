package prefix

import (
	"debug/elf"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// mostText bounds a file of the image that is read as text.
const mostText = 1 << 20

// libraryDirs are the directories of the image where its loader searches, in its order
// (ld.so(8)), and those of musl.
func (p *Prefix) libraryDirs(searched string) []string {
	dirs := strings.FieldsFunc(searched, func(r rune) bool { return r == ':' || r == ';' })
	dirs = append(dirs, p.configured("/etc/ld.so.conf", 0)...)
	for _, d := range []string{"/lib", "/usr/lib"} {
		for _, e := range p.entries(d) {
			if strings.Contains(e.name, "-linux-gnu") {
				dirs = append(dirs, d+"/"+e.name)
			}
		}
	}
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/local/lib", "/usr/lib")
}

// configured reads ld.so.conf(5).
func (p *Prefix) configured(file string, depth int) (dirs []string) {
	for line := range strings.Lines(p.text(file)) {
		line, _, _ = strings.Cut(line, "#")
		pattern, include := strings.CutPrefix(strings.TrimSpace(line), "include ")
		pattern = strings.TrimSpace(pattern)
		switch {
		case !include && path.IsAbs(pattern):
			dirs = append(dirs, pattern)
		case include && depth < 4:
			if !path.IsAbs(pattern) {
				pattern = path.Join(path.Dir(file), pattern)
			}
			for _, e := range p.entries(path.Dir(pattern)) {
				if ok, err := path.Match(path.Base(pattern), e.name); err == nil && ok {
					dirs = append(dirs, p.configured(path.Join(path.Dir(pattern), e.name), depth+1)...)
				}
			}
		}
	}
	return dirs
}

// text is a small file of the image, or empty.
func (p *Prefix) text(inside string) string {
	host, info, err := p.in(inside)
	if err != nil || !info.Mode().IsRegular() || info.Size() > mostText {
		return ""
	}
	raw, err := os.ReadFile(host)
	if err != nil {
		return ""
	}
	return string(raw)
}

// linkLibraries puts all libraries in one directory, where the first of a name counts as it
// does for the loader. Directories beside them are what libraries load by their own place:
// the plugins of MPI and UCX, the modules of Python, libraries for newer processors.
//
// Those of /usr/lib come first: Debian's /usr/local/lib has a python3.11 with no Python.
func (p *Prefix) linkLibraries(dirs []string) error {
	err := p.linkAll([]string{"/usr/lib"}, fs.FileMode.IsDir)
	if err == nil {
		err = p.linkAll(dirs, fs.FileMode.IsDir)
	}
	if err == nil {
		err = p.linkAll(dirs, fs.FileMode.IsRegular)
	}
	if err == nil {
		err = p.linkPrivate(dirs)
	}
	return err
}

// linkPrivate adds the libraries of further directories that libraries name in their own
// headers, such as Ceph's of /usr/lib/x86_64-linux-gnu/ceph: the loader would search them on
// the host. A library of a name that is linked already is skipped.
func (p *Prefix) linkPrivate(dirs []string) error {
	searched := map[string]bool{}
	for _, dir := range dirs {
		searched[path.Clean(dir)] = true
	}
	for i := 0; i < len(p.linked); i++ { // grows meanwhile
		for _, dir := range p.named(p.linked[i]) {
			if searched[dir] || len(searched) > mostSearched {
				continue
			}
			searched[dir] = true
			if err := p.linkAll([]string{dir}, fs.FileMode.IsRegular); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostSearched bounds the directories where libraries are searched.
const mostSearched = 256

// named returns the directories that a library names in its header; none for what is no
// library.
func (p *Prefix) named(host string) []string {
	f, err := os.Open(host)
	if err != nil {
		return nil
	}
	defer f.Close()
	e, err := elf.NewFile(f)
	if err != nil {
		return nil
	}
	return p.runPath(e, host)
}

func (p *Prefix) linkAll(dirs []string, of func(fs.FileMode) bool) error {
	done := map[string]bool{}
	for _, dir := range dirs {
		real, is := p.dirIn(dir)
		if !is || done[real] {
			continue
		}
		done[real] = true
		for _, e := range p.entries(dir) {
			library := strings.Contains(e.name, ".so")
			if e.kind.IsRegular() && !library {
				continue
			}
			host, kind, err := p.find(e)
			if err != nil || !of(kind) || kind.IsRegular() && !library {
				continue
			}
			link := filepath.Join(p.dir, "lib", e.name)
			if err := placed(host, link); err != nil {
				return err
			}
			if kind.IsRegular() {
				p.linked = append(p.linked, host)
			}
		}
	}
	return nil
}

// variables are those by which libraries find what belongs to them, where the image has it.
func (p *Prefix) variables() (vars []string) {
	if dir := p.mpiPrefix(); dir != "" {
		vars = append(vars, "OPAL_PREFIX="+dir, "PRTE_PREFIX="+dir)
		if dir == p.dir { // of a distribution, whose settings choose transports; else the host's would
			etc := filepath.Join(p.dir, "etc")
			vars = append(vars, "OPAL_SYSCONFDIR="+filepath.Join(etc, "openmpi"), "PMIX_SYSCONFDIR="+etc, "PRTE_SYSCONFDIR="+etc)
		}
	}
	python := false
	for _, e := range p.entries("/usr/lib") {
		name := e.name
		python = python || strings.HasPrefix(name, "python3.")
		if !strings.Contains(name, "-linux-gnu") {
			continue
		}
		lib := filepath.Join(p.dir, "lib", name)
		if _, is := p.dirIn("/usr/lib/" + name + "/pmix2"); is {
			// Debian's library has its directories by whole paths, so the prefix alone is not enough.
			at := lib + "/pmix2"
			vars = append(vars, "PMIX_INSTALL_PREFIX="+at, "PMIX_PREFIX="+at, "PMIX_LIBDIR="+at+"/lib", "PMIX_DATADIR="+at+"/share")
		}
		if _, is := p.dirIn("/usr/lib/" + name + "/hwloc"); is {
			vars = append(vars, "HWLOC_PLUGINS_PATH="+lib+"/hwloc")
		}
	}
	if python { // whose compiled modules would be written into the image
		vars = append(vars, "PYTHONHOME="+p.dir, "PYTHONDONTWRITEBYTECODE=1")
	}
	return vars
}

// mpiPrefix is where Open MPI finds what belongs to it: the prefix for one in /usr, else the
// place of its launcher in the image. It is empty where the image has none.
func (p *Prefix) mpiPrefix() string {
	names, err := os.ReadDir(filepath.Join(p.dir, "bin"))
	if err != nil {
		return ""
	}
	for _, want := range []string{"orterun", "prterun", "mpirun"} {
		if !slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == want }) {
			continue
		}
		for _, dir := range []string{"/usr/bin", "/usr/local/bin"} {
			if _, _, err := p.in(dir + "/" + want); err == nil && dir == "/usr/bin" {
				return p.dir
			} else if err == nil {
				return filepath.Join(p.tree, path.Dir(dir))
			}
		}
	}
	return ""
}
