package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// legacy has the flags that were an attempt's state before version 7 of the database, and
// are so in records beside runs and in stores.
type legacy struct {
	Launched  bool `json:"launched"`
	Recalled  bool `json:"recalled"`
	Fetched   bool `json:"fetched"`
	Moved     bool `json:"moved"`
	Idle      bool `json:"idle"`
	Fruitless bool `json:"vain"`
	Passed    bool `json:"passed"`
	Missed    bool `json:"missed"`
	Over      bool `json:"over"`
	Saved     bool `json:"saved"`
	GivenUp   bool `json:"given_up"`
	Released  bool
}

// derive sets the state of an attempt from those flags. An attempt that has another one
// after it was decided.
func (l legacy) derive(a *Attempt, followed bool) {
	a.Autostart = NoAutostart
	if !a.AutostartAt.IsZero() {
		a.Autostart = Enabling
	}
	a.NoProgress = l.Idle || l.Fruitless
	switch {
	case l.Released:
		a.State = Closed
	case l.GivenUp || l.Fetched || l.Recalled || followed || !a.ReleaseTried.IsZero():
		a.State = Releasing
	case l.Over && l.Saved:
		a.State = Keeping
	case l.Over:
		a.State = Collecting
	case l.Launched && a.HeadPhases != nil:
		a.State = Computing
	case l.Launched:
		a.State = Starting
	case a.Autostart.MayStart():
		a.State = InQueue
	case a.Lease != nil:
		a.State = Staging
	default:
		a.State = Acquiring
	}
	switch decided := a.Decided(); {
	case l.Saved:
		a.Result = Checkpointed
	case l.Over && a.ExitCode != nil:
		a.Result = Exited
	case l.Over && (l.Moved || a.Kind == core.Lost.String()):
		a.Result = Lost
	case l.Over:
		a.Result = TaskFailed
	case l.Launched && decided:
		a.Result = Unreported
	}
	if a.Decided() {
		a.Verdict = l.verdict(a)
	}
}

func (l legacy) verdict(a *Attempt) Verdict {
	switch {
	case l.Moved && l.Saved:
		return Continues
	case l.Moved:
		return ContinuesLost
	case l.Missed:
		return ExpiredUnused
	case l.Passed:
		return Skipped
	case a.Kind == core.Stopped.String():
		return StoppedByUser
	case a.ExitCode != nil && *a.ExitCode == 0:
		return Completed
	case a.ExitCode != nil:
		return CommandFailed
	case l.Fetched || l.GivenUp:
		return NotContinued
	case a.Kind != "":
		return Skipped
	}
	return Again
}

// UnmarshalJSON reads an attempt, also of a record from before it had a state.
func (a *Attempt) UnmarshalJSON(raw []byte) error {
	type plain Attempt
	if err := json.Unmarshal(raw, (*plain)(a)); err != nil || a.State != "" {
		return err
	}
	var l legacy
	if err := json.Unmarshal(raw, &l); err != nil {
		return err
	}
	l.derive(a, false)
	return nil
}

const addStates = `
DROP INDEX attempts_unreleased;
ALTER TABLE attempts ADD COLUMN state TEXT NOT NULL DEFAULT 'acquiring';
ALTER TABLE attempts ADD COLUMN autostart TEXT NOT NULL DEFAULT 'none';
ALTER TABLE attempts ADD COLUMN result TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN verdict TEXT NOT NULL DEFAULT '';
CREATE INDEX attempts_open ON attempts(state) WHERE state<>'closed';
`

// deriveStates sets the states of all attempts of a database of an earlier version.
func deriveStates(ctx context.Context, t *sql.Tx) error {
	rows, err := t.QueryContext(ctx, "SELECT "+attemptValues+", CAST(released AS INTEGER)<>0, EXISTS (SELECT 1 FROM attempts AS later WHERE later.run=attempts.run AND later.n>attempts.n) FROM attempts")
	if err != nil {
		return err
	}
	list, err := scanned(rows, func(scan func(...any) error) (Attempt, error) {
		var (
			l        legacy
			followed bool
			record   []byte
			released bool
		)
		a, err := scanAttempt(func(into ...any) error {
			defer func() { record = *into[len(into)-1].(*[]byte) }()
			return scan(append(into, &released, &followed)...)
		})
		if err != nil {
			return a, err
		}
		_ = json.Unmarshal(record, &l) // an unreadable record has no flags
		l.Released = released
		l.derive(&a, followed)
		return a, nil
	})
	if err != nil {
		return err
	}
	for _, a := range list {
		set := "UPDATE attempts SET state=?, autostart=?, result=?, verdict=? WHERE run=? AND n=?"
		if a.NoProgress {
			set = "UPDATE attempts SET record=CAST(json_set(CAST(record AS TEXT), '$.no_progress', json('true')) AS BLOB), " + strings.TrimPrefix(set, "UPDATE attempts SET ")
		}
		if _, err := t.ExecContext(ctx, set, a.State, a.Autostart, a.Result, a.Verdict, a.Run, a.N); err != nil {
			return err
		}
	}
	_, err = t.ExecContext(ctx, "ALTER TABLE attempts DROP COLUMN released")
	return err
}
