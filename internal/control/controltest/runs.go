package controltest

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Movable is a job that may continue on another site.
func Movable() spec.Job {
	return spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Checkpoint: &spec.Checkpoint{}}
}

// InMachines is one whose virtual machines are saved.
func InMachines() spec.Job {
	j := Movable()
	j.VM, j.Checkpoint.Mode = &spec.VM{When: spec.VMAlways}, spec.CheckpointVM
	return j
}

// LeaveMachines makes what a head has saved.
func LeaveMachines(t *testing.T, dir, text string) {
	t.Helper()
	raw, err := json.Marshal(protocol.Saved{Run: "r", Nodes: 1, Guest: core.Image{ID: "guest"}, NIC: "saved", Image: core.Image{ID: "image", Config: core.ImageConfig{Cmd: []string{"run"}}}})
	if err == nil {
		err = errors.Join(os.MkdirAll(protocol.SavedPart(dir, 0), 0o755), os.WriteFile(filepath.Join(dir, protocol.SavedFile), raw, 0o644),
			os.WriteFile(filepath.Join(protocol.SavedPart(dir, 0), "memory"), []byte(text), 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// StartsAlone makes a site one that starts by itself what is left with it, after
// a time, unless it cannot be reached; what is done with its launch spec is listed.
func StartsAlone(site *Site, comes time.Duration, reachable func() bool) *[]string {
	begun, done := time.Now(), &[]string{}
	site.Ready = func() (driver.Waiting, error) {
		switch {
		case !reachable():
			return driver.Waiting{}, errors.New("no way there") // of any kind: only what the site says counts
		case time.Since(begun) >= comes:
			return driver.Waiting{Ready: true, Since: begun.Add(comes)}, nil
		}
		return driver.Waiting{Reason: "others are before us"}, nil
	}
	site.Alone = func(what string, raw []byte) error {
		*done = append(*done, what)
		if raw == nil { // commit, attend
			return nil
		}
		var o launch.Spec
		return json.Unmarshal(raw, &o)
	}
	site.LaunchError = errors.New("a controller launches what the site starts by itself")
	return done
}

// Always is for a site that can be reached.
func Always() bool { return true }

// EventsOf returns a run's history; of given kinds only, if there are any.
func EventsOf(t *testing.T, store *state.Store, run string, kinds ...event.Kind) []event.Event {
	t.Helper()
	list, err := store.History().Events(t.Context(), run, kinds...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Submit records a run over fake sites, and returns it with its lock, which ends with the test.
func Submit(t *testing.T, store *state.Store, job spec.Job, sites []string) (state.Run, *state.Lock) {
	t.Helper()
	run, lock, err := submission.Submit(t.Context(), store, submission.Submission{Job: job, Sites: Sites(sites...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Unlock() })
	return run, lock
}

// Sites are sites of the sites file.
func Sites(names ...string) []spec.Site {
	var list []spec.Site
	for _, n := range names {
		list = append(list, spec.Site{Name: n, Provider: "fake"})
	}
	return list
}
