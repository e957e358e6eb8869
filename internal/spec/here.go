package spec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// CheckHere finds what the job takes from this machine and what is not there,
// or may not be read, and places on it that its outputs cannot come to. The commands of secrets are not tried.
func (t *Draft) CheckHere() {
	if !t.read {
		return
	}
	j := t.Job
	for i, in := range j.Inputs {
		at := fmt.Sprintf("inputs[%d].from", i)
		if in.From == "" || IsRemote(in.From) {
			continue
		}
		from := j.local(in.From)
		found, err := LocalMatches(from)
		if err != nil || len(found) == 0 {
			found = []string{from} // which is not there
		}
		for _, p := range found {
			if _, err := os.Lstat(p); len(j.After) > 0 && errors.Is(err, os.ErrNotExist) {
				continue // a run before this one may make it
			}
			if t.here(at, p) {
				t.inputHere(at, p)
			}
		}
	}
	for i, out := range j.Outputs {
		if IsRemote(out.To) {
			continue
		}
		t.takes(fmt.Sprintf("outputs[%d].to", i), j.local(out.To))
	}
	if b := j.Build; b != nil {
		for i, c := range b.Copy {
			if c.From != "" {
				t.here(fmt.Sprintf("build.copy[%d].from", i), j.local(c.From))
			}
		}
		t.dockerfileHere(b)
	} else {
		t.imageHere()
	}
	if from := j.Volume.From; from != "" {
		t.here("volume.from", j.local(from))
	}
	for key, s := range j.Secrets {
		at := "secrets." + key
		if s.File != "" {
			t.here(at+".file", j.local(s.File))
		}
		if _, set := os.LookupEnv(s.Env); s.Env != "" && !set {
			t.report.at(at+".env", "export it", "%s.env: the variable %s is not set", at, s.Env)
		}
	}
}

// here finds a file or directory that cannot be read.
func (t *Draft) here(at, path string) bool {
	err := unix.Access(path, unix.R_OK)
	if err == nil {
		return true
	}
	hint := ""
	switch {
	case !errors.Is(err, os.ErrNotExist):
	case t.report.flags[at] == "":
		hint = "relative paths start at the Beefile's directory"
	default:
		hint = "check the path: a relative one starts in the directory in which you are"
	}
	t.report.at(at, hint, "%s: %s: %v", at, path, err)
	return false
}

// takes finds a directory that cannot be made, or in which nothing can be.
func (t *Draft) takes(at, dir string) {
	there := dir
	info, err := os.Stat(there)
	for errors.Is(err, os.ErrNotExist) && there != filepath.Dir(there) {
		there = filepath.Dir(there)
		info, err = os.Stat(there)
	}
	switch {
	case err != nil:
		err = errors.Unwrap(err) // without the path
	case !info.IsDir():
		err = unix.ENOTDIR
	default:
		err = unix.Access(there, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		t.report.at(at, "name a directory in which you may write", "%s: %s: %v", at, there, err)
	}
}

// dockerfileHere finds a context without its Dockerfile.
func (t *Draft) dockerfileHere(b *Build) {
	if b.Context == "" {
		return
	}
	dir, at := t.Job.local(b.Context), "build.context"
	if _, mapping := t.report.places[at]; !mapping {
		at = "build"
	}
	if !t.here(at, dir) || !t.report.wasRead("build.dockerfile") {
		return
	}
	if b.Dockerfile != "" {
		at = "build.dockerfile"
	}
	t.here(at, b.DockerfileIn(dir))
}

// DockerfileIn is the build's Dockerfile where its context is a directory.
func (b *Build) DockerfileIn(context string) string {
	file := b.Dockerfile
	if file == "" {
		file = "Dockerfile"
	}
	if filepath.IsAbs(file) {
		return file
	}
	return filepath.Join(context, file)
}

// LocalMatches gives the local paths that an input means: the very one, where
// there is such a file, else what it matches as a pattern, but for hidden files.
func LocalMatches(path string) ([]string, error) {
	if _, err := os.Lstat(path); err == nil {
		return []string{path}, nil
	}
	found, err := filepath.Glob(path)
	return slices.DeleteFunc(found, func(name string) bool { return matchesHidden(path, name) }), err
}

// MadeFiles are the places to which outputs come, as true, and the directories that these are in.
type MadeFiles map[string]bool

// Add adds the place of an output, as an absolute path.
func (m MadeFiles) Add(place string) {
	place = filepath.Clean(place)
	m[place] = true
	for dir := filepath.Dir(place); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, is := m[dir]; is { // and all that it is in
			return
		}
		m[dir] = false
	}
}

// May reports whether what a path or a pattern means may come from outputs.
func (m MadeFiles) May(path string) bool {
	if at := strings.IndexAny(path, `*?[\`); at >= 0 {
		path = path[:strings.LastIndex(path[:at], "/")+1]
	}
	path = filepath.Clean(path)
	if _, is := m[path]; is { // it is such a place, or has one in it
		return true
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if m[dir] {
			return true
		}
	}
	return false
}

// NotHere returns a file that the job takes from this machine, that is not here and that no output
// makes; "": there is none. Its paths are absolute.
func (j *Job) NotHere(made MadeFiles) string {
	for _, in := range j.Inputs {
		if in.From == "" || IsRemote(in.From) || made.May(in.From) {
			continue
		}
		if found, err := LocalMatches(in.From); err != nil || len(found) == 0 {
			return in.From
		}
	}
	if !IsLocalImage(j.Image) {
		return ""
	}
	_, rest, _ := strings.Cut(ImageFrom(j.Dir, j.Image), ":")
	path, _ := SplitPath(rest)
	if _, err := os.Lstat(path); err != nil && !made.May(path) {
		return path
	}
	return ""
}

// matchesHidden reports whether a wildcard of a pattern matches the dot of a hidden file,
// which none does in a shell.
func matchesHidden(pattern, name string) bool {
	pattern, name = filepath.Clean(pattern), filepath.Clean(name)
	patterns, names := strings.Split(pattern, "/"), strings.Split(name, "/")
	for i := range min(len(patterns), len(names)) {
		p := strings.TrimPrefix(patterns[i], `\`)
		if strings.HasPrefix(names[i], ".") && !strings.HasPrefix(p, ".") {
			return true
		}
	}
	return false
}

// imageHere finds an archive or a layout that is not there.
func (t *Draft) imageHere() {
	if !IsLocalImage(t.Job.Image) {
		return
	}
	_, rest, _ := strings.Cut(ImageFrom(t.Job.Dir, t.Job.Image), ":")
	path, _ := SplitPath(rest)
	t.here("image", path)
}
