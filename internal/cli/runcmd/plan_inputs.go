package runcmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// explainInputs lists the inputs of a job that earlier runs left, and where each is now. beside are
// the jobs of its file.
func explainInputs(ctx context.Context, out io.Writer, s *workspace.Session, job *spec.Job, beside []jobSource) error {
	for _, in := range job.Inputs {
		if in.Earlier == (spec.RunPath{}) {
			continue
		}
		where, err := "a job of this file", error(nil)
		if !slices.ContainsFunc(beside, func(j jobSource) bool { return j.draft.Job.Name == in.Earlier.Run }) {
			where, err = submission.Whereabouts(ctx, s.Store, in)
		}
		if core.IsKind(err, core.NotFound) || core.IsKind(err, core.Invalid) || core.IsKind(err, core.Unsupported) {
			where = err.Error()
		} else if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(out, "input %s: %s, %s\n", output.Printable(in.To), output.Printable(in.Earlier.String()), output.Printable(where)); err != nil {
			return err
		}
	}
	return nil
}
