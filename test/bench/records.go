package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// manyRecords is how many runs an installation has that was used for years.
const manyRecords = 100_000

// records times the commands that look into the record, with many runs that
// are over and a few that are not.
func (b *bench) records(rounds int) error {
	dir := b.dir + "/records"
	if err := fill(dir); err != nil {
		return err
	}
	for _, c := range []struct {
		what string
		args []string
	}{{"`bee ps`", []string{"ps"}}, {"`bee ps -a --limit 20`", []string{"ps", "-a", "--limit", "20"}}} {
		many, err := b.median(rounds, append([]string{b.bee, "--state-dir", dir}, c.args...)...)
		if err != nil {
			return err
		}
		none, err := b.median(rounds, append([]string{b.bee, "--state-dir", b.dir + "/empty"}, c.args...)...)
		if err != nil {
			return err
		}
		b.row(c.what+", 100,000 recorded runs", many, "none recorded", none)
	}
	return nil
}

// fill records runs as their controllers leave them.
func fill(dir string) error {
	ctx := context.Background()
	s, err := state.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer s.Close()
	sub, err := json.Marshal(submission.Submission{Version: 1, Job: spec.Job{Name: "old", Nodes: 2}, Sites: []spec.Site{{Name: "local", Provider: "local"}}})
	if err != nil {
		return err
	}
	code := 0
	for i := range manyRecords {
		at := time.Unix(1_700_000_000+int64(i), 0)
		run := state.Run{ID: state.NewID(), Name: "old", State: state.Succeeded, Created: at, Ended: at.Add(time.Minute), ExitCode: &code, Submission: sub}
		if i%20_000 == 0 {
			run.State, run.ExitCode, run.Ended = state.Suspended, nil, time.Time{}
		}
		if err := s.PutRun(ctx, run); err != nil {
			return err
		}
		a := state.Attempt{
			Run: run.ID, N: 1, Site: "local", Provider: "local", State: state.Closed, Result: state.Exited, Verdict: state.Completed, Started: at, Ended: at.Add(time.Minute),
			Record: state.Record{Hosts: []core.Host{{Name: "h0"}, {Name: "h1"}}, ExitCode: &code},
		}
		if err := s.PutAttempt(ctx, a, false); err != nil {
			return err
		}
	}
	return nil
}
