package runcmd

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// jobToRun reads the job of a run to repeat, or else the one that the arguments name.
func (a *Commands) jobToRun(c *cobra.Command, args []string, again string) (jobSource, error) {
	if again == "" {
		return a.jobOf(c, args)
	}
	if len(args) > 0 {
		return jobSource{}, &core.Error{
			Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: errors.New("--again repeats a run as it was, and " + strings.Join(args, " ") + " follows it"),
			Remedy: "Change the job by flags, or by its Beefile: `bee show --beefile " + again + " > job.yaml`.",
		}
	}
	s, err := a.OpenQuietly(c.Context())
	if err != nil {
		return jobSource{}, err
	}
	defer s.Close()
	cases, err := s.Cases(c.Context(), again, state.ToSee)
	if err != nil {
		return jobSource{}, err
	}
	if len(cases) > 0 {
		return repeatedCases(again, cases)
	}
	run, err := s.Store.FindRun(c.Context(), again, state.ToSee)
	if err != nil {
		return jobSource{}, err
	}
	return repeated(run)
}

// absolute is a path as it is seen from any directory.
func absolute(p string) string {
	if filepath.IsAbs(p) {
		return filepath.Clean(p)
	}
	return filepath.Join(workspace.WorkingDir(), p)
}

// setLabel puts KEY=VALUE on the run.
func setLabel(draft *spec.Draft, text string) {
	key, value, _ := strings.Cut(text, "=")
	if draft.Job.Labels == nil {
		draft.Job.Labels = map[string]string{}
	}
	draft.Job.Labels[key] = value
	draft.Flag("labels."+key, "--label")
}

// repeated is the job of a run as bee run repeats it. What a Beefile of another user was not
// allowed then is not allowed now.
func repeated(run state.Run) (jobSource, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return jobSource{}, err
	}
	text, err := sub.Job.Beefile()
	if err != nil {
		return jobSource{}, err
	}
	from := jobSource{draft: spec.DraftOf("run "+run.ID, text, sub.Job.Dir), what: "run " + run.ID, beefile: sub.Origin.Beefile, keepsLinks: sub.Own == ""}
	if sub.Within != "" {
		from.strange = "its Beefile was, when it was submitted"
	}
	return from, nil
}
