package control

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Bounds of a record that another installation has written, or anybody who can write to
// the store: more than any run has.
const (
	mostRecord   = 16 << 20
	mostAttempts = 20000
	mostHosts    = 100000
	longestName  = 256
)

// parseRecord reads the record of a run in a store, by the id in its name there.
func parseRecord(id string, raw []byte) (retention.Record, error) {
	var r retention.Record
	fail := func(kind core.Kind, err error, remedy string) (retention.Record, error) {
		return retention.Record{}, &core.Error{Kind: kind, Op: "read the record of run", Object: id, Err: err, Remedy: remedy}
	}
	if len(raw) > mostRecord {
		return fail(core.Invalid, fmt.Errorf("it has %d bytes; at most %d are read", len(raw), mostRecord), "It is not one that bee has written: do not use this run.")
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := core.DecodeJSON(raw, &version); err != nil {
		return fail(core.Invalid, err, "The store is damaged there.")
	}
	if version.Version != retention.RecordVersion {
		return fail(core.Unsupported, fmt.Errorf("it has version %d, this bee knows %d", version.Version, retention.RecordVersion), "Use the version of bee that wrote it.")
	}
	if err := core.DecodeJSON(raw, &r); err != nil {
		return fail(core.Invalid, err, "The store is damaged there.")
	}
	if !state.IsID(r.Run.ID) || r.Run.ID != id {
		return fail(core.Invalid, fmt.Errorf("it is of run %q", r.Run.ID), "It is not one that bee has written for this run: do not use it.")
	}
	return r, nil
}

// adopted makes a suspended run of this installation of a record. Only what a run needs
// to continue is taken from it, and the job is checked as one of a Beefile; its paths start
// at dir.
func adopted(r retention.Record, dir string) (state.Run, []state.Attempt, Submission, error) {
	sub, err := foreignSubmission(r.Run.ID, r.Run.Submission, dir)
	if err != nil {
		return state.Run{}, nil, sub, err
	}
	run := state.Run{
		ID: r.Run.ID, Name: sub.Job.Name, State: state.Suspended, Suspended: state.ReasonAdopted, Created: began(r.Run.Created),
		SetupDone: r.Run.SetupDone, Kind: core.Lost.String(),
	}
	if isImageID(r.Run.Image) {
		run.Image = r.Run.Image
	}
	if len(r.Attempts) > mostAttempts {
		return run, nil, sub, foreignError(run.ID, fmt.Errorf("it has %d attempts", len(r.Attempts)))
	}
	attempts := make([]state.Attempt, 0, len(r.Attempts))
	seen := map[int]bool{}
	for _, a := range r.Attempts {
		if a.N < 1 || a.N > math.MaxInt32 || seen[a.N] || len(a.Hosts) > mostHosts {
			return run, nil, sub, foreignError(run.ID, fmt.Errorf("attempt %d cannot be", a.N))
		}
		seen[a.N] = true
		attempts = append(attempts, foreignAttempt(run.ID, a))
	}
	slices.SortFunc(attempts, func(a, b state.Attempt) int { return a.N - b.N })
	return run, attempts, sub, nil
}

// foreignAttempt keeps of an attempt of another installation what is reported of it, and
// what the next one is planned by.
func foreignAttempt(run string, a state.Attempt) state.Attempt {
	kept := state.Attempt{
		Run: run, N: a.N, Site: plain(a.Site), Provider: plain(a.Provider), State: known(a.State, state.AttemptStates(), state.Closed), Autostart: state.NoAutostart,
		Result: known(a.Result, state.Results(), state.NoResult), Verdict: known(a.Verdict, state.Verdicts(), state.NoVerdict),
		Started: began(a.Started), Ended: moment(a.Ended),
		Record: state.Record{
			NoProgress: a.NoProgress, From: plain(a.From),
			Saving: duration(a.Saving), Bringing: duration(a.Bringing), Margin: duration(a.Margin), ExitCode: a.ExitCode,
			Kind: plain(a.Kind), Message: plain(a.Message),
		},
	}
	if a.Lease != nil {
		kept.Lease = &core.Handle{} // only that there was one
	}
	for _, h := range a.Hosts {
		kept.Hosts = append(kept.Hosts, core.Host{Name: plain(h.Name)})
	}
	return kept
}

// known returns v where it is one of all, and otherwise where another installation wrote v.
func known[T comparable](v T, all []T, otherwise T) T {
	if slices.Contains(all, v) {
		return v
	}
	return otherwise
}

// foreignSubmission reads the submission of a run from a record or an export.
func foreignSubmission(run string, raw json.RawMessage, dir string) (Submission, error) {
	var s Submission
	if err := core.DecodeJSON(raw, &s); err != nil {
		return s, foreignError(run, err)
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
		return s, foreignError(run, err)
	}
	kept := Submission{Version: s.Version, Job: *job, InGuest: s.InGuest, Pull: "missing"}
	if s.Machines != "" {
		if !state.IsID(s.Machines) {
			return s, foreignError(run, fmt.Errorf("its machines are of run %q", s.Machines))
		}
		kept.Machines = s.Machines
	}
	for _, site := range s.Sites { // by name alone: what they are, this user's sites file says
		kept.Sites = append(kept.Sites, spec.Site{Name: plain(site.Name)})
	}
	return kept, nil
}

func foreignError(run string, err error) error {
	return &core.Error{Kind: core.Invalid, Op: "read the record of run", Object: run, Err: err, Remedy: "It is not one that bee has written, or it is damaged: do not use this run."}
}

// isImageID reports whether text can be an image's id.
func isImageID(text string) bool {
	text = strings.TrimPrefix(text, "sha256:")
	return text != "" && len(text) <= longestName && strings.Trim(text, "0123456789abcdef") == ""
}

// plain is a text that another user wrote as one that can be printed: of bounded length,
// without control characters.
func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for i := range text {
		if i > longestName {
			return text[:i]
		}
	}
	return text
}

// moment is a time that another user wrote, where it can be one.
func moment(t time.Time) time.Time {
	if t.Year() < 2000 || t.After(time.Now().Add(24*time.Hour)) {
		return time.Time{}
	}
	return t
}

// began is moment for what has begun at some time, if only now.
func began(t time.Time) time.Time {
	if t = moment(t); t.IsZero() {
		return time.Now()
	}
	return t
}

// duration is one that another user wrote, where it can be one.
func duration(d time.Duration) time.Duration {
	const most = 10 * 365 * 24 * time.Hour
	return min(max(d, 0), most)
}
