package control

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// adopted makes a suspended run of this installation of a record. Only what a run needs
// to continue is taken from it, and the job is checked as one of a Beefile; its paths start
// at dir.
func adopted(r retention.Record, dir string) (state.Run, []state.Attempt, Submission, error) {
	sub, err := foreignSubmission(r.Run.ID, r.Run.Submission, dir)
	if err != nil {
		return state.Run{}, nil, sub, err
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

// foreignSubmission reads the submission of a run from a record or an export.
func foreignSubmission(run string, raw json.RawMessage, dir string) (Submission, error) {
	var s Submission
	if err := core.DecodeJSON(raw, &s); err != nil {
		return s, retention.ForeignError(run, err)
	}
	return s.foreign(run, dir)
}

// foreign keeps of a submission what the job is, checked again.
func (s Submission) foreign(run, dir string) (Submission, error) {
	if s.Version != submissionVersion {
		return s, &core.Error{
			Kind: core.Unsupported, Op: "read the record of run", Object: run,
			Err: fmt.Errorf("it has version %d, this bee knows %d", s.Version, submissionVersion), Remedy: "Use the version of bee that wrote it.",
		}
	}
	job, err := spec.FromRecord("record of run "+run, s.Job, dir)
	if err != nil {
		return s, retention.ForeignError(run, err)
	}
	kept := Submission{Version: s.Version, Job: *job, InGuest: s.InGuest, Pull: "missing"}
	if s.Machines != "" {
		if !state.IsID(s.Machines) {
			return s, retention.ForeignError(run, fmt.Errorf("its machines are of run %q", s.Machines))
		}
		kept.Machines = s.Machines
	}
	for _, site := range s.Sites { // by name alone: what they are, this user's sites file says
		kept.Sites = append(kept.Sites, spec.Site{Name: retention.Plain(site.Name)})
	}
	return kept, nil
}

// isImageID reports whether text can be an image's id.
func isImageID(text string) bool {
	text = strings.TrimPrefix(text, "sha256:")
	return text != "" && len(text) <= retention.LongestName && strings.Trim(text, "0123456789abcdef") == ""
}
