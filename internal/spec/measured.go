package spec

import (
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/bee-hpc/bee/internal/measure"
)

// Progress is where a job's progress is read from. In a Beefile it may also be the program
// alone.
type Progress struct {
	// Program is one of measure.Programs, by whose output its progress is known.
	Program string `yaml:"program" json:",omitempty"`
	// Match is a pattern of lines of the output.
	Match string `yaml:"match" json:",omitempty"`
	// File is a path of a file of the job in place of that. It may be relative to the workdir.
	File string `yaml:"file" json:",omitempty"`
	// Total is that of which a number of Match or Program is a part; 0: it is read.
	Total float64 `yaml:"total" json:",omitempty"`
}

// progressForm is Progress without its own decode, so that object can fill it.
type progressForm Progress

func (p *Progress) decode(d *decoder, n ast.Node, path string) {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		d.object(n, reflect.ValueOf((*progressForm)(p)).Elem(), path)
	default:
		p.Program, _ = d.text(n, path)
	}
}

// measured finds patterns by which no number can be read.
func (jc *jobCheck) measured() {
	j, pattern := jc.job, func(at, text string, most int) {
		if _, err := measure.ParsePattern(text, most); err != nil {
			jc.report.at(at, "", "%s: %v", at, err)
		}
	}
	if j.Progress != nil && jc.report.allRead("progress") {
		jc.progress(pattern)
	}
	if n := len(j.Metrics); n > measure.MaxMetrics {
		jc.report.at("metrics", "", "metrics: a job has at most %d, not %d", measure.MaxMetrics, n)
	}
	for _, name := range slices.Sorted(maps.Keys(j.Metrics)) {
		if !fits("metrics", name) {
			jc.report.atKey("metrics."+name, "letters first, then digits and . _ - within", "metrics: %q is no name of a metric", name)
			continue
		}
		pattern("metrics."+name, j.Metrics[name], measure.MetricGroups)
	}
	if (j.Progress != nil || len(j.Metrics) > 0) && j.Array != nil && j.Array.Pack > 0 {
		key := "progress"
		if j.Progress == nil {
			key = "metrics"
		}
		jc.report.atKey(key, "leave it or `pack:` out", "%s: it is not read of cases that share a lease", key)
	}
}

// progress finds where no progress can be read from.
func (jc *jobCheck) progress(pattern func(at, text string, most int)) {
	p := jc.job.Progress
	within(jc.report, "progress.total", p.Total)
	if _, given := jc.report.places["progress.total"]; given && (p.File != "" || p.Total == 0) {
		jc.report.atKey("progress.total", "leave it out, or give more than 0 with `match` or `program`", "progress.total: of %v nothing is a part", p.Total)
	}
	given := 0
	for _, text := range []string{p.Program, p.Match, p.File} {
		if text != "" {
			given++
		}
	}
	switch {
	case given > 1:
		jc.report.at("progress", "leave the others out", "progress: only one of `program`, `match` and `file` can be given")
	case p.Program != "":
		jc.progressProgram()
	case p.Match != "" && p.Total > 0:
		pattern("progress.match", p.Match, 1)
	case p.Match != "":
		pattern("progress.match", p.Match, measure.ProgressGroups)
	case p.File != "":
		jc.progressFile(p.File)
	default:
		jc.report.at("progress", "such as gromacs, or {match: 'step (\\d+) of (\\d+)'}", "progress: `program`, `match` or `file` is missing")
	}
}

// progressProgram finds a program that is not known, or whose total cannot be read.
func (jc *jobCheck) progressProgram() {
	p, at := jc.job.Progress, "progress"
	if _, long := jc.report.places["progress.program"]; long {
		at = "progress.program"
	}
	if strings.ContainsAny(p.Program, "(\\") {
		jc.report.at(at, "write `{match: '…'}`", "%s: %q is a pattern, not the name of a program", at, p.Program)
		return
	}
	jc.report.oneOf(at, p.Program)
	file := measure.Source{Program: p.Program, Total: p.Total}.TotalFile()
	if file == "" || !jc.report.allRead("volume", "workdir", "vm") {
		return
	}
	if in := jc.job.inWorkdir(file); !below(in, jc.job.Volume.Path) || jc.job.inMount(in) || jc.job.Volume.Kind == VolumeImage {
		jc.report.at(at, "write `{program: "+p.Program+", total: …}`, or a `workdir` in the volume", "%s: the end of %s is read from %s, which does not lie in a volume that can be read", at, p.Program, in)
	}
}

// progressFile finds where a file of progress cannot be read.
func (jc *jobCheck) progressFile(file string) {
	j := jc.job
	if !jc.report.allRead("volume", "inputs", "workdir", "mounts") {
		return
	}
	in := j.inWorkdir(file)
	switch volume := path.Clean(j.Volume.Path); {
	case !path.IsAbs(in) || in == volume || !below(in, volume):
		jc.report.at("progress.file", "such as "+path.Join(volume, "progress"), "progress.file: %s does not lie in the volume %s", file, volume)
	case j.inMount(in):
		jc.report.at("progress.file", "a path in the volume", "progress.file: %s lies in a mount", file)
	case j.Volume.Kind == VolumeImage:
		jc.report.atKey("progress.file", "leave `volume: {kind: dataimage}` out, or use `match`", "progress.file: the volume is a disk of virtual machines, in which nothing is read while they run")
	}
}
