package spec

import (
	"fmt"
	"path"
	"strings"
)

// PackedCase is a case of an array that shares a lease with others.
type PackedCase struct {
	Number int    `json:"number"` // in its array
	Run    string `json:"run"`    // the id of its own record
	// Collects means that it has outputs, which are collected when the pack has ended.
	Collects bool `json:"collects,omitempty"`
	// Saves means that its Beefile has `checkpoint:`, as each pack has one.
	Saves bool `json:"saves,omitempty"`
	// The others are as in Job. Cores and Memory are alike for all of a pack.
	Cores   int               `json:"cores,omitempty"`
	Memory  Size              `json:"memory,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	Workdir string            `json:"workdir,omitempty"`
	Setup   *Command          `json:"setup,omitempty"`
	Command *Command          `json:"command,omitempty"`
	Post    *Command          `json:"post,omitempty"`
	Resume  *Command          `json:"resume,omitempty"`
}

// PacksAtOnce returns how many of the packs of an array run at the same time, and how many cases of
// each. Together these are at most as many cases as may run at once, with as few leases as that takes.
// 0: all, for the argument and the results.
func PacksAtOnce(cases, pack, packs int) (atOnce, each int) {
	switch {
	case cases > 0:
		atOnce = (cases + pack - 1) / pack
		return atOnce, cases / atOnce
	case packs > mostTogether:
		return mostTogether, 0
	}
	return 0, 0
}

// pack finds what packed cases cannot have.
func (jc *jobCheck) pack() {
	if a := jc.job.Array; a == nil || a.Pack == 0 {
		return
	}
	jc.job.notInPack(jc.refuse)
}

// refuse finds a key that packed cases cannot have.
func (jc *jobCheck) refuse(wrong bool, key, hint string) {
	if wrong {
		jc.report.atKey(key, hint, "%s: cases of a pack cannot have it", key)
	}
}

// NotInPack returns a key of a case that packed cases cannot have, such as one with a value of
// the case; "": there is none.
func (j *Job) NotInPack() (found string) {
	j.notInPack(func(wrong bool, key, _ string) {
		if wrong && found == "" {
			found = key
		}
	})
	return found
}

// InVolume returns where in the volume an output is; false: it is outside of that.
func (j *Job) InVolume(o Output) (string, bool) {
	from := o.From
	if !path.IsAbs(from) {
		from = path.Join(j.Volume.Path, from)
		if j.Workdir != "" {
			from = path.Join(j.Workdir, o.From)
		}
	}
	return strings.CutPrefix(path.Clean(from), strings.TrimSuffix(path.Clean(j.Volume.Path), "/")+"/")
}

func (j *Job) notInPack(refuse func(wrong bool, key, hint string)) {
	refuse(j.Nodes != 1, "nodes", "leave it out: a case of a pack has cores of one node")
	refuse(j.VM != nil, "vm", "leave out `array.pack`")
	refuse(j.Volume.Kind != "" || j.Volume.From != "", "volume", "leave out `array.pack`")
	refuse(j.Timeout > 0, "timeout", "leave it out, and write `timeout 10m COMMAND` in `run:`")
	refuse(j.Retry > 0, "retry", "leave it out: `bee retry` runs failed cases again")
	refuse(j.Restarts, "restarts", "leave it out: `bee retry` runs failed cases again")
	if c := j.Checkpoint; c != nil {
		refuse(c.File != "" || c.Command != nil || c.Every > 0 || len(c.Paths) > 0, "checkpoint", "write only `signal` and `grace`")
	}
	for i, in := range j.Inputs {
		refuse(path.Clean(in.To) == path.Clean(j.Volume.Path) || strings.HasPrefix(path.Clean(in.To), path.Clean(j.Volume.Path)+"/"), fmt.Sprintf("inputs[%d]", i), "write a `to:` outside of the volume, such as /data, which all cases read")
	}
	for i, o := range j.Outputs {
		_, is := j.InVolume(o)
		refuse(!is && o.From != "", fmt.Sprintf("outputs[%d]", i), "name a path in the volume")
	}
}
