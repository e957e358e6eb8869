package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// older is a workspace with runs of another bee, of which there is a copy: one whose nodes
// this bee speaks with, and one with whose nodes it does not. Another run has none yet.
func older(t *testing.T) (a *Workspace, errs *bytes.Buffer, kept state.Binary) {
	t.Helper()
	errs, dir := &bytes.Buffer{}, t.TempDir()
	a = New(&bytes.Buffer{}, errs, "test")
	a.StateDir, a.CacheDir = filepath.Join(dir, "state"), filepath.Join(dir, "cache")
	s, err := state.Open(t.Context(), a.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	program := []byte("#!/bin/sh\n")
	sum := sha256.Sum256(program)
	kept.Digest = hex.EncodeToString(sum[:])
	kept.Path = s.Binaries().Path(kept.Digest)
	if err := errors.Join(os.MkdirAll(filepath.Dir(kept.Path), 0o700), core.WriteProgram(kept.Path, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	for id, protocol := range map[string]int{"alike111": plan.Version, "other111": plan.Version + 1, "fresh111": 0} {
		err := s.PutRun(t.Context(), state.Run{ID: id, Name: id, State: state.Running, Created: time.Now(), Submission: []byte("{}")})
		if at := (state.Attempt{Run: id, N: 1, State: state.Computing, Started: time.Now(), Record: state.Record{Binary: kept.Digest, Protocol: protocol}}); err == nil && protocol > 0 {
			err = s.PutAttempt(t.Context(), at, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return a, errs, kept
}

// TestRunsOfAnOlderBee get a supervisor of its copy, as long as that is whole; this bee
// continues others.
func TestRunsOfAnOlderBee(t *testing.T) {
	a, errs, kept := older(t)
	s, err := a.OpenQuietly(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := map[string][]string{kept.Path: {"alike111", "other111"}, s.Binary: {"fresh111"}}
	if got, err := s.programs(t.Context(), []string{"alike111", "fresh111", "other111"}); err != nil || !reflect.DeepEqual(got, want) || errs.Len() > 0 {
		t.Errorf("got %v, %v, %q; want %v", got, err, errs, want)
	}
	if err := core.WriteProgram(kept.Path, []byte("#!/bin/s2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := s.programs(t.Context(), []string{"alike111", "other111"}); err != nil || len(got[s.Binary]) != 2 || !bytes.Contains(errs.Bytes(), []byte(kept.Path)) {
		t.Errorf("of a changed copy: %v, %v, %q", got, err, errs)
	}
}

// TestCommandsForNodesOfAnOlderBee are executed by its copy, if this bee does not speak with
// these nodes.
func TestCommandsForNodesOfAnOlderBee(t *testing.T) {
	a, _, kept := older(t)
	a.Args = []string{"exec", "other111", "--", "true"}
	var executed []string
	a.execute = func(path string, args []string) error {
		executed = append(executed, fmt.Sprint(path, args))
		return nil
	}
	open := func(id string) error {
		s, _, err := a.OpenRun(t.Context(), id)
		if err == nil {
			s.Close()
		}
		return err
	}
	if err := errors.Join(open("alike111"), open("fresh111")); err != nil || len(executed) > 0 {
		t.Errorf("of nodes that this bee speaks with: %v, %v", executed, err)
	}
	if err, want := open("other111"), []string{kept.Path + "[bee exec other111 -- true]"}; err != nil || !reflect.DeepEqual(executed, want) {
		t.Errorf("executed are %q, %v; want %q", executed, err, want)
	}
	if err := os.Remove(kept.Path); err != nil {
		t.Fatal(err)
	}
	if err := open("other111"); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" || len(executed) != 1 {
		t.Errorf("without the copy: %v, executed %v", err, executed)
	}
}
