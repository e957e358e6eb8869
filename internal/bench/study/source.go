package study

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// SourcesDir has the sources that a user gives, by their names, in the job's image.
const SourcesDir = "/src"

// Given are the sources of a program.
type Given struct {
	// Path is a directory, or an archive that tar reads.
	Path    string
	Archive bool
}

// Give builds a program of the study from the sources of a user.
func (s *Study) Give(name string, g Given) error {
	if _, is := s.Sources[name]; !is {
		return fmt.Errorf("the study has no source of that name, but %s", cmp.Or(strings.Join(slices.Sorted(maps.Keys(s.Sources)), ", "), "none at all"))
	}
	if s.given == nil {
		s.given = map[string]Given{}
	}
	s.given[name] = g
	return nil
}

// Missing returns an error for a program that was not given, and that nothing stands in for.
func (s *Study) Missing() error {
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		source := s.Sources[name]
		if _, is := s.given[name]; !is && source.StandIn == "" {
			return &core.Error{
				Kind: core.Invalid, Op: "measure study", Object: s.Name, Err: fmt.Errorf("the sources of %s are not given: %s", name, source.About),
				Remedy: "Name their directory by --source " + name + "=DIR, or an archive by --source " + name + "=https://…#sha256=DIGEST.",
			}
		}
	}
	return nil
}

// StandsIn names all that is measured in place of what the paper measured.
func (s *Study) StandsIn() string {
	var all []string
	if s.StandIn != "" {
		all = append(all, s.StandIn)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		if _, is := s.given[name]; !is && s.Sources[name].StandIn != "" {
			all = append(all, s.Sources[name].StandIn)
		}
	}
	return strings.Join(all, "; ")
}

// checkSources checks what a study says of sources.
func (s *Study) checkSources(d *spec.Document) {
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		source, at := s.Sources[name], "sources."+name
		if !nameForm.MatchString(name) {
			d.ProblemOfKey(at, "letters, digits, dots, dashes and underscores", "sources: %q is no name", name)
		}
		if source.About == "" && d.Read(at+".about") {
			d.ProblemOfKey(at, "add `about:`, the project and its versions", "%s: nothing says what it is", at)
		}
		if len(source.Build) == 0 && d.Read(at+".build") {
			d.ProblemOfKey(at, "such as build: [make, make install]", "%s: nothing says how it is built", at)
		}
		for _, p := range source.Packages {
			if !spec.IsPackage(p) {
				d.ProblemOfKey(at+".packages", "", "%s.packages: %q is no name of a package", at, p)
			}
		}
	}
}

// errNoPackages is for images that nothing can be built in.
var errNoPackages = &core.Error{Kind: core.Invalid, Op: "build sources", Err: errors.New("the job's image is not one of Debian packages"), Remedy: "Write `build: {debian: bookworm, packages: […]}` in place of `image:`."}

// build adds the given sources to a job's image.
func (s *Study) build(job *spec.Job) error {
	if job == nil || len(s.given) == 0 {
		return nil
	}
	b := job.Build
	if b == nil || b.Debian == "" {
		return errNoPackages
	}
	for _, name := range slices.Sorted(maps.Keys(s.given)) {
		g, source, dir := s.given[name], s.Sources[name], path.Join(SourcesDir, name)
		for _, p := range source.Packages {
			if !slices.Contains(b.Packages, p) {
				b.Packages = append(b.Packages, p)
			}
		}
		if g.Archive {
			archive := dir + ".archive"
			b.Copy = append(b.Copy, spec.Copy{From: g.Path, To: archive})
			b.Run = append(b.Run, "mkdir -p "+dir+" && tar --extract --strip-components=1 --no-same-owner --file="+archive+" --directory="+dir+" && rm "+archive)
		} else {
			b.Copy = append(b.Copy, spec.Copy{From: g.Path, To: dir})
		}
		for _, command := range source.Build {
			b.Run = append(b.Run, "cd "+dir+"\n"+command)
		}
	}
	return nil
}
