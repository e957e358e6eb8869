package control

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/treesync"
)

// staging is one copy to the head: a local path, and where it belongs below
// the run's directory.
type staging struct {
	local, remote string
	input         int // its number among the job's
	// within is the directory out of which local must not lead when it is read, where a
	// link led there; "": that of the submission.
	within string
}

// missing is the job without those inputs that its checkpoint has: what they were made of
// at home may be gone by now.
func (a *attempt) missing() *spec.Job {
	if a.resumed {
		return withoutVolume(&a.sub.Job)
	}
	job := a.sub.Job
	return &job
}

// withoutVolume is a job without what its volume has at the beginning.
func withoutVolume(of *spec.Job) *spec.Job {
	job := *of
	job.Inputs = slices.DeleteFunc(slices.Clone(job.Inputs), func(in spec.Input) bool {
		_, inside := below(job.Volume.Path, path.Clean(in.To))
		return inside
	})
	job.Volume.From = ""
	return &job
}

// planInputs turns a job's inputs into copies that do not overlap, and into
// the binds of those whose target lies outside the volume.
//
// A directory's contents become the contents of its target. A file becomes
// the target itself, or a file in it where the target ends with a slash, is
// the volume, or the input is a glob. A link stands for what it leads to.
func planInputs(job *spec.Job) ([]staging, map[string]string, error) {
	binds := inputBinds(job)
	copies, err := planInputsAt(job, binds)
	return copies, binds, err
}

// planInputsAt is planInputs of a job with given binds: they are those of all its inputs,
// also where some are in its checkpoint.
func planInputsAt(job *spec.Job, binds map[string]string) ([]staging, error) {
	var copies []staging
	for i, in := range job.Inputs {
		matches, err := matchInput(in)
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
			target := inputTarget(job, in, name, isGlob, info.IsDir())
			copies = append(copies, staging{local: local, remote: inputPlace(job, binds, in, target), input: i})
		}
	}
	if from := job.Volume.From; from != "" {
		copies = append(copies, staging{local: from, remote: protocol.VolumeSourcePath("")})
	}
	return disjoint(copies)
}

// inputTarget is the path in the containers of a file or directory of an input.
func inputTarget(job *spec.Job, in spec.Input, name string, isGlob, isDir bool) string {
	target := path.Clean(in.To)
	if isGlob || !isDir && (strings.HasSuffix(in.To, "/") || target == job.Volume.Path) {
		return path.Join(target, name)
	}
	return target
}

// inputPlace is the place of that below the run's directory.
func inputPlace(job *spec.Job, binds map[string]string, in spec.Input, target string) string {
	if rel, ok := below(job.Volume.Path, target); ok {
		return path.Join("volume", rel)
	}
	bindAt := path.Clean(in.To) // what is bound, where the target is outside the volume
	rel, _ := below(bindAt, target)
	return path.Join("inputs", binds[bindAt], rel)
}

// counting gives what is told how much of a file or directory has been copied, and tells
// of how much in all. That of a directory is counted only while it is copied, if that
// takes long: nobody waits for it. end is to be called once nothing is told any more.
func counting(ctx context.Context, local string, say func(what string, done, total int64)) (told func(done int64), end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var total atomic.Int64
	var count sync.Once
	var counter sync.WaitGroup
	info, err := os.Stat(local)
	isDir := err != nil || info.IsDir()
	if !isDir {
		total.Store(info.Size())
	}
	begun := time.Now()
	told = func(done int64) {
		if isDir && time.Since(begun) > time.Second {
			count.Do(func() { counter.Go(func() { total.Store(treesync.Size(ctx, local)) }) })
		}
		say("copying "+local, done, total.Load())
	}
	return told, func() { cancel(); counter.Wait() }
}

// inputBinds gives the binds of a job's inputs, from the job alone: whoever takes
// an attempt over looks for outputs there, and need not have the inputs any more.
func inputBinds(job *spec.Job) map[string]string {
	binds := map[string]string{}
	for i, in := range job.Inputs {
		target := path.Clean(in.To)
		_, inVolume := below(job.Volume.Path, target)
		if _, bound := binds[target]; !inVolume && !bound {
			binds[target] = path.Join(strconv.Itoa(i), path.Base(target))
		}
	}
	return binds
}

func matchInput(in spec.Input) ([]string, error) {
	matches, err := spec.LocalMatches(in.From)
	if err != nil {
		return nil, inputError(in, err)
	}
	if len(matches) == 0 {
		return nil, inputError(in, errors.New("no such file or directory"))
	}
	return matches, nil
}

func inputError(in spec.Input, err error) error {
	return &core.Error{
		Kind: core.Invalid, Op: "read input", Object: in.From, Err: err,
		Remedy: "Check `inputs:` in the Beefile; relative paths start at the Beefile's directory.",
	}
}

// below gives target relative to dir, if it is dir or lies in it.
func below(dir, target string) (string, bool) {
	if target == dir {
		return "", true
	}
	rel, ok := strings.CutPrefix(target, strings.TrimSuffix(dir, "/")+"/")
	return rel, ok
}

// disjoint opens up directories into which another copy goes, so that no copy
// replaces what another brought; of two files for one place the later wins.
func disjoint(copies []staging) ([]staging, error) {
	for {
		places := make([]string, len(copies))
		for i, c := range copies {
			places[i] = c.remote
		}
		i, j, found := overlap(places)
		if !found {
			return copies, nil
		}
		outer, inner := copies[i], copies[j]
		entries, err := os.ReadDir(outer.local)
		switch {
		case err == nil:
			opened := make([]staging, len(entries))
			for k, e := range entries {
				opened[k] = staging{local: filepath.Join(outer.local, e.Name()), remote: path.Join(outer.remote, e.Name()), input: outer.input}
			}
			copies = slices.Replace(copies, i, i+1, opened...)
		case outer.remote == inner.remote:
			copies = slices.Delete(copies, min(i, j), min(i, j)+1)
		default:
			return nil, &core.Error{
				Kind: core.Invalid, Op: "plan input", Object: outer.local,
				Err:    errors.New("it is a file, and another input goes below its target"),
				Remedy: "Give one of the two another `to:`.",
			}
		}
	}
}

// overlap finds two places of which the inner is, or lies in, the outer.
func overlap(places []string) (outer, inner int, found bool) {
	order := make([]int, len(places))
	for i := range order {
		order[i] = i
	}
	// What lies in a place comes right behind it.
	slices.SortStableFunc(order, func(i, j int) int { return strings.Compare(places[i]+"/", places[j]+"/") })
	for at := range len(order) - 1 {
		if outer, inner = order[at], order[at+1]; strings.HasPrefix(places[inner]+"/", places[outer]+"/") {
			return outer, inner, true
		}
	}
	return 0, 0, false
}
