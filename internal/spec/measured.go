package spec

import (
	"maps"
	"path"
	"slices"

	"github.com/bee-hpc/bee/internal/measure"
)

// Progress is where a job's progress is read from.
type Progress struct {
	// Match is a pattern of lines of the output.
	Match string `yaml:"match" json:",omitempty"`
	// File is a path of a file of the job in place of that. It may be relative to the workdir.
	File string `yaml:"file" json:",omitempty"`
}

// measured finds patterns by which no number can be read.
func (jc *jobCheck) measured() {
	j, pattern := jc.job, func(at, text string, most int) {
		if _, err := measure.ParsePattern(text, most); err != nil {
			jc.report.at(at, "", "%s: %v", at, err)
		}
	}
	if p := j.Progress; p != nil && jc.report.allRead("progress") {
		switch {
		case p.Match != "" && p.File != "":
			jc.report.atKey("progress.file", "leave one of them out", "progress: only one of `match` and `file` can be given")
		case p.Match != "":
			pattern("progress.match", p.Match, measure.ProgressGroups)
		case p.File != "":
			jc.progressFile(p.File)
		default:
			jc.report.at("progress", "such as {match: 'step (\\d+) of (\\d+)'}", "progress: `match` or `file` is missing")
		}
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
