package submission

import (
	"encoding/json"
	"fmt"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// ReadForeign reads the submission of a run from a record or an export.
func ReadForeign(run string, raw json.RawMessage, dir string) (Submission, error) {
	var s Submission
	if err := core.DecodeJSON(raw, &s); err != nil {
		return s, retention.ForeignError(run, err)
	}
	return s.Foreign(run, dir)
}

// Foreign keeps of a submission what the job is, checked again.
func (s Submission) Foreign(run, dir string) (Submission, error) {
	if !readable(s.Version) {
		return s, &core.Error{
			Kind: core.Unsupported, Op: "read the record of run", Object: run,
			Err: fmt.Errorf("it has version %d, this bee knows %d", s.Version, packedVersion), Remedy: "Use the version of bee that wrote it.",
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
