package runcmd

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// pipeline are jobs of one run each, but the last one, an array of two cases. The runs are
// called by their numbers.
func pipeline(count int) (jobs []submittedJob) {
	for i := range count {
		job := submittedJob{first: &submission.Submission{}, runs: []state.Run{{ID: strconv.Itoa(i)}}}
		if i == count-1 {
			job.first.Array = &submission.ArrayCase{ID: "array"}
			job.runs = append(job.runs, state.Run{ID: strconv.Itoa(i + 1)})
		}
		jobs = append(jobs, job)
	}
	return jobs
}

// TestOutputOfJobsOfWhichOneNeedsItsUser: that of those that have ended is shown to its end.
func TestOutputOfJobsOfWhichOneNeedsItsUser(t *testing.T) {
	a := jobsRunner{&Commands{Workspace: &workspace.Workspace{Console: &console.Console{Stdout: io.Discard, Stderr: io.Discard}}}}
	ended := errors.New("the end was shown")
	a.records.FollowSeveral = func(ctx context.Context, _ *workspace.Workspace, runs []string, until func(string) context.Context, _ bool) error {
		<-until(runs[1]).Done()
		if ctx.Err() == nil && until(runs[0]).Err() == nil {
			return ended
		}
		return nil
	}
	shown := jobsWatch{a: a, jobs: pipeline(3)}.follow(t.Context(), &sync.Mutex{})
	if err := shown([]state.Run{{ID: "0", State: state.Succeeded}, {ID: "1", State: state.Suspended}}); !errors.Is(err, ended) {
		t.Errorf("got %v", err)
	}
}

// TestOutputThatNobodyReads keeps nobody from leaving the jobs, or from being asked.
func TestOutputThatNobodyReads(t *testing.T) {
	read, full := io.Pipe()
	defer read.Close()
	a := jobsRunner{&Commands{Workspace: &workspace.Workspace{Console: &console.Console{Stdout: full, Stderr: io.Discard}}}}
	begun := make(chan bool)
	a.records.FollowSeveral = func(_ context.Context, w *workspace.Workspace, _ []string, _ func(string) context.Context, _ bool) error {
		close(begun)
		_, err := w.Stdout.Write([]byte("output"))
		return err
	}
	ctx, leave := context.WithCancel(t.Context())
	var closed sync.Mutex
	shown := jobsWatch{a: a, jobs: pipeline(2)}.follow(ctx, &closed)
	<-begun
	if _, err := read.Read(make([]byte, 1)); err != nil { // the rest is being written
		t.Fatal(err)
	}
	closed.Lock()
	leave()
	closed.Unlock()
	if err := shown(nil); err != nil {
		t.Error(err)
	}
}

// TestFlagsOfOneJob are refused for several.
func TestFlagsOfOneJob(t *testing.T) {
	var from jobSource
	for _, draft := range spec.DraftsOf("jobs.yaml", []byte("name: mesh\nimage: a\n---\nname: plot\nimage: a\n"), "/") {
		from.jobs = append(from.jobs, jobSource{draft: draft})
	}
	for _, c := range []struct {
		flag  string
		after []string
		wrong bool
	}{{"", nil, false}, {"", []string{"old:end", "mesh2"}, false}, {"", []string{"old", "mesh"}, true}, {"", []string{"plot:failure"}, true}, {oneJob, nil, true}, {"name", nil, true}} {
		o := runOptions{after: c.after, given: func(flag string) bool { return flag == c.flag }}
		if err := o.refuseOfOne(from); (err != nil) != c.wrong || c.wrong && core.Remedy(err) == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
