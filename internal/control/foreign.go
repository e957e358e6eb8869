package control

import (
	"errors"
	"strings"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// adopted makes a suspended run of this installation of a record. Only what a run needs
// to continue is taken from it, and the job is checked as one of a Beefile; its paths start
// at dir.
func adopted(r retention.Record, dir string) (state.Run, []state.Attempt, submission.Submission, error) {
	sub, err := submission.ReadForeign(r.Run.ID, r.Run.Submission, dir)
	if err != nil {
		return state.Run{}, nil, sub, err
	}
	if len(sub.Job.Pack) > 0 {
		return state.Run{}, nil, sub, &core.Error{
			Kind: core.Unsupported, Op: opTakeOver, Object: r.Run.ID, Err: errors.New("its task is cases of an array, and the other installation has their records"),
			Remedy: "Submit the array's Beefile again.",
		}
	}
	run := state.Run{
		ID: r.Run.ID, Name: sub.Job.Name, State: state.Suspended, Suspended: state.ReasonAdopted, Created: retention.Began(r.Run.Created),
		SetupDone: r.Run.SetupDone, Kind: core.Lost.String(),
		Message: "it was adopted from another installation, and is not continued yet", Remedy: "`bee resume " + r.Run.ID + "` continues it.",
	}
	if isImageID(r.Run.Image) {
		run.Image = r.Run.Image
	}
	attempts, err := retention.ForeignAttempts(run.ID, r.Attempts)
	return run, attempts, sub, err
}

// isImageID reports whether text can be an image's id.
func isImageID(text string) bool {
	text = strings.TrimPrefix(text, "sha256:")
	return text != "" && len(text) <= retention.LongestName && strings.Trim(text, "0123456789abcdef") == ""
}
