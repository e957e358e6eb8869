package inputs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// Copy is one copy to the head: a local path, and where it belongs below the run's directory.
type Copy struct {
	Local, Remote string
	Input         int // its number among the job's
	// Within is the directory out of which Local must not lead when it is read, where a
	// link led there; "": that of the submission.
	Within string
}

// WithoutVolume is a job without what its volume has at the beginning.
func WithoutVolume(of *spec.Job) *spec.Job {
	job := *of
	job.Inputs = slices.DeleteFunc(slices.Clone(job.Inputs), func(in spec.Input) bool {
		_, inside := Below(job.Volume.Path, path.Clean(in.To))
		return inside
	})
	job.Volume.From = ""
	return &job
}

// Plan turns a job's inputs into copies that do not overlap, and into
// the binds of those whose target lies outside the volume.
//
// A directory's contents become the contents of its target. A file becomes
// the target itself, or a file in it where the target ends with a slash, is
// the volume, or the input is a glob. A link stands for what it leads to.
func Plan(job *spec.Job) ([]Copy, map[string]string, error) {
	binds := Binds(job)
	copies, err := PlanAt(job, binds)
	return copies, binds, err
}

// PlanAt is Plan of a job with given binds: they are those of all its inputs,
// also where some are in its checkpoint. Inputs that runs left in their volumes are left out.
func PlanAt(job *spec.Job, binds map[string]string) ([]Copy, error) {
	var copies []Copy
	for i, in := range job.Inputs {
		if in.Earlier != (spec.RunPath{}) {
			continue // see BringEarlier
		}
		matches, err := matches(in)
		if err != nil {
			return nil, err
		}
		isGlob := len(matches) > 1 || matches[0] != in.From
		for _, local := range matches {
			name := filepath.Base(local)
			// A link would be copied as one: the job would have what it leads to
			// in place of a copy, or nothing.
			local, err := filepath.EvalSymlinks(local)
			if err != nil {
				return nil, inputError(in, err)
			}
			info, err := os.Stat(local)
			if err != nil {
				return nil, inputError(in, err)
			}
			target := Target(job, in, name, isGlob, info.IsDir())
			copies = append(copies, Copy{Local: local, Remote: Place(job, binds, in, target), Input: i})
		}
	}
	if from := job.Volume.From; from != "" {
		copies = append(copies, Copy{Local: from, Remote: protocol.VolumeSourcePath("")})
	}
	return disjoint(copies)
}

// Target is the path in the containers of a file or directory of an input.
func Target(job *spec.Job, in spec.Input, name string, isGlob, isDir bool) string {
	target := path.Clean(in.To)
	if isGlob || !isDir && (strings.HasSuffix(in.To, "/") || target == job.Volume.Path) {
		return path.Join(target, name)
	}
	return target
}

// Place is the place of that below the run's directory.
func Place(job *spec.Job, binds map[string]string, in spec.Input, target string) string {
	if rel, ok := Below(job.Volume.Path, target); ok {
		return path.Join("volume", rel)
	}
	bindAt := path.Clean(in.To) // what is bound, where the target is outside the volume
	rel, _ := Below(bindAt, target)
	return path.Join("inputs", binds[bindAt], rel)
}

// Binds returns the binds of a job's inputs, from the job alone: a controller that takes
// over an attempt looks for outputs there, and need not have the inputs any more.
func Binds(job *spec.Job) map[string]string {
	binds := map[string]string{}
	for i, in := range job.Inputs {
		target := path.Clean(in.To)
		_, inVolume := Below(job.Volume.Path, target)
		if _, bound := binds[target]; !inVolume && !bound {
			binds[target] = path.Join(strconv.Itoa(i), path.Base(target))
		}
	}
	return binds
}

func matches(in spec.Input) ([]string, error) {
	matches, err := spec.LocalMatches(in.From)
	if err != nil {
		return nil, inputError(in, err)
	}
	if len(matches) == 0 {
		return nil, inputError(in, errors.New("no such file or directory"))
	}
	return matches, nil
}

// inputError returns the error of an input that cannot be read.
func inputError(in spec.Input, err error) error {
	return &core.Error{
		Kind: core.Invalid, Op: "read input", Object: in.From, Err: err,
		Remedy: "Check `inputs:` in the Beefile; relative paths start at the Beefile's directory.",
	}
}

// Below returns target relative to dir, if it is dir or is below it.
func Below(dir, target string) (string, bool) {
	if target == dir {
		return "", true
	}
	rel, ok := strings.CutPrefix(target, strings.TrimSuffix(dir, "/")+"/")
	return rel, ok
}

// DirName is a name of a directory for what a text names.
func DirName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:8])
}
