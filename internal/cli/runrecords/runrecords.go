// Package runrecords makes state directories with runs on record, for tests of commands.
package runrecords

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Open returns the store of a state directory with runs on record, each submitted a second
// after the one before.
func Open(t testing.TB, dir string, runs ...state.Run) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for i, r := range runs {
		r.Created = time.Now().Add(time.Duration(i) * time.Second)
		if r.Submission == nil {
			r.Submission = []byte("{}")
		}
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// PiBeefile has a key of each kind that `bee show` prints.
const PiBeefile = "image: lab/pi:2\nlabels: {project: cfd}\nnodes: 2\nenv: {STEPS: \"10 000\"}\nsecrets: {TOKEN: {env: MYTOKEN}}\nrun: ./pi | tee pi.txt\noutputs: [pi.txt]\n"

// Succeeded is a run aaaa1111 of a Beefile. change may alter its submission; nil: none.
func Succeeded(t testing.TB, beefile string, change func(*submission.Submission)) state.Run {
	t.Helper()
	job, err := spec.ParseJob("pi.yaml", []byte(beefile), "/home/ann/pi")
	if err != nil {
		t.Fatal(err)
	}
	sub := submission.Submission{Version: 1, Job: *job, Origin: submission.Origin{Beefile: "/home/ann/pi/pi.yaml", Dir: "/home/ann", Version: "0.9", User: "ann"}}
	if change != nil {
		change(&sub)
	}
	raw, err := json.Marshal(sub)
	if err != nil {
		t.Fatal(err)
	}
	return state.Run{ID: "aaaa1111", Name: job.Name, State: state.Succeeded, Image: "sha256:0123", Submission: raw}
}
