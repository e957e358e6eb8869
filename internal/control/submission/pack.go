package submission

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// packsSuffix is that of the id and the name of the array that the packs of an array are.
const packsSuffix = "packs"

// PacksOf returns the id of the array of the packs of an array.
func PacksOf(array string) string { return array + "." + packsSuffix }

// CasesOf returns the id of the array whose cases an array has, or has packs of.
func CasesOf(array string) string { return strings.TrimSuffix(array, "."+packsSuffix) }

// packsOf returns the runs whose leases the cases of an array share: they are an array of
// their own. Each case is recorded with its pack.
func packsOf(cases []state.Run, subs []Submission) ([]state.Run, error) {
	of := subs[0].Array
	var packs []state.Run
	groups := slices.Collect(slices.Chunk(subs, of.Pack))
	atOnce, each := spec.PacksAtOnce(of.AtOnce, of.Pack, len(groups))
	for i, group := range groups {
		place := ArrayCase{ID: PacksOf(of.ID), Name: of.Name + "." + packsSuffix, Number: i + 1, Of: len(groups), AtOnce: atOnce, StopAt: of.StopAt}
		pack := state.Run{
			ID: state.NewID(), Name: fmt.Sprintf("%s.%d", place.Name, place.Number), State: state.Queued, Created: cases[i*of.Pack].Created,
			Case: state.Case{Array: place.ID, Name: place.Name, Number: place.Number, AtOnce: place.AtOnce},
		}
		own := cases[i*of.Pack:][:len(group)]
		sub, err := packOf(group, own)
		if err != nil {
			return nil, err
		}
		sub.Job.Name, sub.Job.PackAtOnce, sub.Job.PackStopAt, sub.Array = pack.Name, each, of.StopAt, &place
		if pack.Submission, err = sub.Encode(); err != nil {
			return nil, err
		}
		for k := range own {
			own[k].Case.Pack, own[k].Case.AtOnce = pack.ID, 0 // the packs wait for their turn
		}
		packs = append(packs, pack)
	}
	return packs, nil
}

// packOf is the submission of a run that runs cases on one lease.
func packOf(group []Submission, cases []state.Run) (Submission, error) {
	pack := group[0]
	job := &pack.Job
	job.Outputs, job.Env, job.Setup, job.Post, job.Resume = nil, nil, nil, nil, nil
	job.Cores, job.Memory = 0, 0 // the lease has whole hosts
	if job.Checkpoint == nil {   // what has ended is one
		job.Checkpoint = &spec.Checkpoint{Grace: spec.LeastMargin}
	}
	for i := range group {
		own := group[i].Job
		if i > 0 && !reflect.DeepEqual(shared(group[0]), shared(group[i])) {
			return pack, &core.Error{
				Kind: core.Invalid, Op: "submit array", Object: group[i].Array.Name,
				Err:    fmt.Errorf("cases %d and %d of a pack differ in more than commands, env, labels and outputs", group[0].Array.Number, group[i].Array.Number),
				Remedy: "Leave out `array.pack`, or use no value of a case in other keys.",
			}
		}
		if key := own.NotInPack(); key != "" { // by a value of a case
			return pack, &core.Error{
				Kind: core.Invalid, Op: "submit array", Object: group[i].Array.Name, Err: fmt.Errorf("case %d has %s, which cases of a pack cannot have", group[i].Array.Number, key),
				Remedy: "Leave out `array.pack`, or change that.",
			}
		}
		workdir := own.Workdir
		if workdir == "" {
			workdir = own.Volume.Path
		}
		job.Pack = append(job.Pack, spec.PackedCase{
			Number: group[i].Array.Number, Run: cases[i].ID, Collects: len(own.Outputs) > 0, Saves: own.Checkpoint != nil, Cores: own.Cores, Memory: own.Memory, Env: own.Env, Workdir: workdir, Setup: own.Setup, Command: own.Run, Post: own.Post, Resume: own.Resume,
		})
		for _, o := range own.Outputs {
			rel, _ := own.InVolume(o) // which is checked above
			o.From = path.Join(own.Volume.Path, protocol.CaseDir(group[i].Array.Number), rel)
			job.Outputs = append(job.Outputs, o)
		}
	}
	return pack, nil
}

// shared is what all cases of a pack have in common.
func shared(s Submission) Submission {
	j := &s.Job
	j.Name, j.Env, j.Labels, j.Workdir, j.Setup, j.Run, j.Post, j.Resume, j.Outputs, j.Array = "", nil, nil, "", nil, nil, nil, nil, nil, nil
	s.Array, s.Origin = nil, Origin{}
	return s
}
