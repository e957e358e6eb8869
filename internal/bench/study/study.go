// Package study reads study files: which application is measured, in which environments,
// over which parameters, and which of its figures count. A study is data, read by the
// parser of Beefiles; the package starts nothing and knows no host.
package study

import (
	"path/filepath"

	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/spec"
)

// Study is a checked study file.
type Study struct {
	Name  string `yaml:"study"`
	Title string `yaml:"title"`
	// Source is the paper or the page that the experiment is from.
	Source string `yaml:"source"`
	// StandIn names what is measured in place of what the paper measured; empty: the same.
	StandIn string `yaml:"stand_in"`
	Job     Job    `yaml:"job"`
	// Vary has the values of each variable. A point is one combination of them.
	Vary map[string][]Value `yaml:"vary"`
	// Zip names variables whose values go together, one by one, in place of all combinations.
	Zip [][]string `yaml:"zip"`
	// When is a jq expression over a point's variables and its environment; a combination
	// stays where it is true.
	When string `yaml:"when"`
	// Sizes have other values of variables, by the name of a size.
	Sizes        map[string]map[string][]Value `yaml:"sizes"`
	Environments map[string]Environment        `yaml:"environments"`
	Contrasts    []Contrast                    `yaml:"contrasts"`
	Copies       Copies                        `yaml:"copies"`
	Metrics      map[string]Metric             `yaml:"metrics"`
	// Check are conditions of a right answer: a wrong one is a failed measurement.
	Check   []Check           `yaml:"check"`
	Sources map[string]Source `yaml:"sources"`
	Fair    []string          `yaml:"fair"`
	Claims  []Claim           `yaml:"claims"`
	Method  Method            `yaml:"method"`

	// Baseline is the environment that the others are compared with.
	Baseline string `yaml:"-"`
	// The names of variables, environments and metrics in the order of the file.
	Variables, EnvironmentNames, MetricNames []string `yaml:"-"`
	// Dir is the directory at which relative paths start.
	Dir string `yaml:"-"`

	base  spec.Part        // the job's keys, of the file itself or of the Beefile that it names
	given map[string]Given // sources by name
}

// Job is any Beefile keys, or the name of a Beefile and keys that replace its own.
type Job struct {
	File string    `yaml:"file"`
	Keys spec.Part `yaml:",inline"`
}

// Environment is a way to run the job: Beefile keys that replace the job's.
type Environment struct {
	// Runtime is that of a Beefile, or native or lxc.
	Runtime string `yaml:"runtime"`
	// Native is `image` (default), the image's programs, or `host`, what the host has.
	Native string `yaml:"native"`
	Site   string `yaml:"site"`
	// Bee is the absolute path of another bee program that runs the job, such as an older version.
	Bee string `yaml:"bee"`
	// OtherBinaries means that its programs may differ from those of the others.
	OtherBinaries bool `yaml:"other_binaries"`
	// OnlyNamed leaves the environment out unless the user names it.
	OnlyNamed bool `yaml:"only_named"`
	// Untested means that the authors of the study have never measured it.
	Untested bool      `yaml:"untested"`
	PerHost  int       `yaml:"per_host"`
	Limit    Limit     `yaml:"limit"`
	Keys     spec.Part `yaml:",inline"`
}

// Limit bounds what an environment may use of a host.
type Limit struct {
	// Cores is a number, or a variable.
	Cores  Value     `yaml:"cores"`
	Memory spec.Size `yaml:"memory"`
}

// Contrast compares the values of a variable, or the environments, with one of them.
type Contrast struct {
	Vary    string `yaml:"vary"`
	Against Value  `yaml:"against"`
}

// Copies are instances of the job that start together.
type Copies struct {
	Count  Value  `yaml:"count"`
	Metric string `yaml:"metric"` // sum or each
}

// Source is a program that the user has the sources of. It is built in the job's image.
type Source struct {
	// About is the project and its versions.
	About string `yaml:"about"`
	// Packages are those that the build needs, besides those of the image.
	Packages []string `yaml:"packages"`
	// Build are commands in the directory of the sources.
	Build []string `yaml:"build"`
	// StandIn names what is measured without the sources; empty: nothing can be.
	StandIn string `yaml:"stand_in"`
}

// Method says how figures are taken and compared.
type Method struct {
	Name   string   `yaml:"name"`
	Margin Fraction `yaml:"margin"`
	Blocks Blocks   `yaml:"blocks"`
	Budget Duration `yaml:"budget"`
	// Reuse is block if the points of a block share containers and guests, else none.
	Reuse string `yaml:"reuse"`
	// Summary is the figure that the paper prints, for the method `published`.
	Summary string `yaml:"summary"`
	// Compare is how many environments are compared with the baseline at most, unless the user names
	// them; 0: all that work.
	Compare int `yaml:"compare"`
}

// The words of Environment.Native.
const (
	NativeImage = "image"
	NativeHost  = "host"
)

// The words of Method.Reuse.
const (
	ReuseNone  = "none"
	ReuseBlock = "block"
)

// The methods.
const (
	Robust    = "robust"
	Beserra   = "beserra2016"
	Published = "published"
)

// EnvironmentVariable is the name of the environment among the variables of contrasts and
// conditions.
const EnvironmentVariable = "environment"

// The defaults of a method, and the bounds of a study.
const (
	defaultMargin = 0.05
	defaultLeast  = 10
	defaultMost   = 32
	maxBlocks     = 10_000
	maxPoints     = 1000
	maxMeasured   = 5000 // points by environments
)

// Load reads a study file.
func Load(file string) (*Study, error) {
	data, err := spec.ReadText(file)
	if err != nil {
		return nil, spec.FileError("study file", file, err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	return Parse(file, data, dir)
}

// Parse reads a study's text. Its relative paths start at dir. The error, of kind Invalid,
// holds all that is wrong.
func Parse(file string, data []byte, dir string) (*Study, error) {
	return spec.ReadDocument(file, data, func(d *spec.Document, s *Study) {
		s.Dir = dir
		s.complete(d)
		s.check(d)
	})
}

// complete fills in defaults and the order of names.
func (s *Study) complete(d *spec.Document) {
	s.Variables = d.Sort("vary", keys(s.Vary))
	s.EnvironmentNames = d.Sort("environments", keys(s.Environments))
	s.MetricNames = d.Sort("metrics", keys(s.Metrics))
	m := &s.Method
	if m.Name == "" {
		m.Name = Robust
	}
	if m.Margin == 0 {
		m.Margin = defaultMargin
	}
	if m.Blocks == (Blocks{}) {
		m.Blocks = Blocks{defaultLeast, defaultMost}
		if m.Name == Beserra {
			m.Blocks = Blocks{stats.BeserraRuns, stats.BeserraRuns}
		}
	}
	if m.Summary == "" {
		m.Summary = string(stats.ByMean)
	}
	if m.Reuse == "" {
		m.Reuse = ReuseNone
	}
	for name, e := range s.Environments {
		if e.Bee != "" && !filepath.IsAbs(e.Bee) {
			e.Bee = filepath.Join(s.Dir, e.Bee)
			s.Environments[name] = e
		}
	}
	if s.Copies.Count == "" {
		s.Copies.Count = "1"
	}
	if len(s.EnvironmentNames) > 0 {
		s.Baseline = s.EnvironmentNames[0]
	}
	for _, c := range s.Contrasts {
		if c.Vary == EnvironmentVariable {
			s.Baseline = string(c.Against)
			break
		}
	}
	if len(s.MetricNames) == 1 {
		name := s.MetricNames[0]
		m := s.Metrics[name]
		m.Primary = true
		s.Metrics[name] = m
	}
	for name, m := range s.Metrics {
		if b, is := builtins()[m.Builtin]; is {
			m.Unit, m.Better = b.unit, b.better
			s.Metrics[name] = m
		}
	}
}

func keys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	return names
}
