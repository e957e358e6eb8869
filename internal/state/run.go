package state

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// RunState is the state of a run.
type RunState string

// The states of a run. The last three are final. SetAside is one whose controller has
// panicked, or cannot read its records: no other one takes it until its user resumes or
// ends it.
const (
	Queued    RunState = "queued"
	Running   RunState = "running"
	Suspended RunState = "suspended"
	SetAside  RunState = "set aside"
	Succeeded RunState = "succeeded"
	Failed    RunState = "failed"
	Stopped   RunState = "stopped"
)

// RunStates returns all states in their order.
func RunStates() []RunState {
	return []RunState{Queued, Running, Suspended, SetAside, Succeeded, Failed, Stopped}
}

// Final reports whether a run in this state is over.
func (s RunState) Final() bool { return s == Succeeded || s == Failed || s == Stopped }

// Resumable reports whether a run in this state continues only when its user resumes it.
func (s RunState) Resumable() bool { return s == Suspended || s == SetAside }

// SuspendReason is why a run is suspended.
type SuspendReason string

// The reasons. A run resumes by itself only for ReasonNoSite, when its sites file has a new
// site.
const (
	ReasonNoSite       SuspendReason = "no_site"        // no site could take it in time
	ReasonNoProgress   SuspendReason = "no_progress"    // attempts left its checkpoint as it was, or are too many
	ReasonTooShort     SuspendReason = "too_short"      // attempts ended soon after they began
	ReasonLostTooOften SuspendReason = "lost_too_often" // attempts were lost without a new checkpoint
	ReasonAdopted      SuspendReason = "adopted"        // it comes from another installation
	ReasonTicket       SuspendReason = "ticket"         // a machine that has its ticket continues it
)

// Run is the record of one execution of a Beefile.
type Run struct {
	ID    string
	Name  string
	State RunState
	// Suspended is why, in that state.
	Suspended SuspendReason `json:",omitempty"`
	Created   time.Time
	Ended     time.Time // zero while not final
	// ExitCode is the task's own, where Ran; see Kind for the rest.
	ExitCode *int
	// Kind, Message and Remedy are why a run failed without an exit code.
	Kind    string
	Message string
	Remedy  string
	// Image is the id of the resolved image, once known.
	Image     string
	SetupDone bool
	// StopAsked is set while a stop is an open request of the run: see Requests.AskStop.
	StopAsked bool
	// Submission is what the controller needs to carry the run out, opaque here.
	Submission json.RawMessage
	// Case is its place in an array, which never changes; zero: it is in none.
	Case Case `json:",omitzero"`
	// EndedIn is the attempt of its pack in which a case has got its result; 0: it has none.
	EndedIn int `json:",omitempty"`
}

// Job returns the id of the array that the run is a case of, or else of the run.
func (r Run) Job() string { return cmp.Or(r.Case.Array, r.ID) }

// maxText bounds the texts of a record, which may be another user's.
const maxText = 16 << 10

const runColumns = "id, name, state, created, ended, exit_code, kind, message, remedy, image, setup_done, submission, suspended, array_id, array_name, case_number, case_at_once, pack_run, case_attempt"

// runValues are those columns as they are read. A number that is none, in a damaged file,
// is 0: one bad record must not hide the others.
const runValues = "id, name, state, CAST(created AS INTEGER), CAST(ended AS INTEGER), CAST(exit_code AS INTEGER), kind, message, remedy, image, CAST(setup_done AS INTEGER)<>0, EXISTS (SELECT 1 FROM requests WHERE run=runs.id AND kind='stop' AND result=''), submission, suspended, array_id, array_name, CAST(case_number AS INTEGER), CAST(case_at_once AS INTEGER), pack_run, CAST(case_attempt AS INTEGER)"

func scanRun(scan func(...any) error) (Run, error) {
	var (
		r       Run
		created int64
		ended   sql.NullInt64
		code    sql.NullInt64
		sub     []byte
	)
	err := scan(&r.ID, &r.Name, &r.State, &created, &ended, &code, &r.Kind, &r.Message, &r.Remedy, &r.Image, &r.SetupDone, &r.StopAsked, &sub, &r.Suspended, &r.Case.Array, &r.Case.Name, &r.Case.Number, &r.Case.AtOnce, &r.Case.Pack, &r.EndedIn)
	if err != nil {
		return r, err
	}
	r.Created, r.Submission = time.Unix(0, created), sub
	if ended.Valid {
		r.Ended = time.Unix(0, ended.Int64)
	}
	if code.Valid {
		c := int(code.Int64)
		r.ExitCode = &c
	}
	return r, nil
}

// PutRun inserts or replaces a run's record, except what its user asks of it while another
// process has it: see Requests.Ask.
func (s *Store) PutRun(ctx context.Context, r Run) error {
	_, err := s.Write(ctx, Change{Run: &r})
	return err
}

func (t *tx) run(ctx context.Context, r Run) error {
	r.Message, r.Remedy = core.Printable(r.Message, maxText), core.Printable(r.Remedy, maxText)
	if r.State != Suspended {
		r.Suspended = ""
	}
	var ended, code any
	if !r.Ended.IsZero() {
		ended = r.Ended.UnixNano()
	}
	if r.ExitCode != nil {
		code = *r.ExitCode
	}
	return t.exec(ctx, `INSERT INTO runs (`+runColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
ON CONFLICT(id) DO UPDATE SET state=excluded.state, ended=excluded.ended, exit_code=excluded.exit_code, kind=excluded.kind,
message=excluded.message, remedy=excluded.remedy, image=excluded.image, setup_done=excluded.setup_done, submission=excluded.submission,
suspended=excluded.suspended, case_attempt=excluded.case_attempt`,
		r.ID, r.Name, r.State, r.Created.UnixNano(), ended, code, r.Kind, r.Message, r.Remedy, r.Image, r.SetupDone, []byte(r.Submission), r.Suspended, r.Case.Array, r.Case.Name, r.Case.Number, r.Case.AtOnce, r.Case.Pack, r.EndedIn)
}

// Run gives one run by its whole id.
func (s *Store) Run(ctx context.Context, id string) (Run, error) {
	list, err := s.runs(ctx, "WHERE id=?", id)
	if err == nil && len(list) == 0 {
		err = sql.ErrNoRows
	}
	if err != nil {
		return Run{}, notFound(err, "find run", id, "`bee ps -a` lists all runs.")
	}
	return list[0], nil
}

func ids(ctx context.Context, db *conn, query string, args ...any) ([]string, error) {
	return rows(ctx, db, func(scan func(...any) error) (id string, err error) {
		err = scan(&id)
		return id, err
	}, query, args...)
}

// Filter selects runs for Runs.
type Filter struct {
	// Active leaves out runs in a final state.
	Active bool
	// Alone leaves out the cases of arrays. None of them is read.
	Alone bool
	// Limit is the largest number of runs, newest first; 0 means all.
	Limit int
	// States, if there are any, leaves out runs in other states.
	States []RunState
	// Text, if not empty, leaves out runs in whose name or id it does not occur.
	Text string
	// Until, if set, leaves out runs that were created later.
	Until time.Time
}

// where returns the condition of a filter and its arguments.
func (f Filter) where() (conditions []string, args []any) {
	if f.Alone {
		conditions = append(conditions, "array_id=''")
	}
	if f.Active {
		conditions = append(conditions, notOver)
	}
	if len(f.States) > 0 {
		marks := strings.TrimPrefix(strings.Repeat(",?", len(f.States)), ",")
		if slices.ContainsFunc(f.States, RunState.Final) { // so many have it that the order of creation is quicker than their index (+)
			conditions = append(conditions, "+state IN ("+marks+")")
		} else {
			conditions = append(conditions, "state IN ("+marks+")")
		}
		for _, s := range f.States {
			args = append(args, s)
		}
	}
	if f.Text != "" {
		conditions = append(conditions, "(instr(lower(name), lower(?))>0 OR id=?)")
		args = append(args, f.Text, f.Text)
	}
	if !f.Until.IsZero() {
		conditions = append(conditions, "created<=?")
		args = append(args, f.Until.UnixNano())
	}
	return conditions, args
}

// notOver is the condition of runs that are not over.
const notOver = "state IN ('queued','running','suspended','set aside')"

// query is what follows the table in a query of the runs, with its arguments.
func (f Filter) query() (string, []any) {
	conditions, args := f.where()
	where := "ORDER BY "
	if len(conditions) > 0 {
		where = "WHERE " + strings.Join(conditions, " AND ") + " " + where
	}
	if f.Active {
		where += "+" // they are found by their index and then sorted: in the order of creation, all runs would be read
	}
	where += "created DESC"
	if f.Limit > 0 {
		where += fmt.Sprintf(" LIMIT %d", f.Limit)
	}
	return where, args
}

// Runs lists runs, newest first.
func (s *Store) Runs(ctx context.Context, f Filter) ([]Run, error) {
	where, args := f.query()
	return s.runs(ctx, where, args...)
}

func (s *Store) runs(ctx context.Context, where string, args ...any) ([]Run, error) {
	list, err := rows(ctx, s.db, scanRun, "SELECT "+runValues+" FROM runs "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return list, nil
}

// CountRuns returns how many runs are in which state.
func (s *Store) CountRuns(ctx context.Context) (map[RunState]int, error) {
	type count struct {
		state RunState
		runs  int
	}
	list, err := rows(ctx, s.db, func(scan func(...any) error) (c count, err error) {
		err = scan(&c.state, &c.runs)
		return c, err
	}, "SELECT state, COUNT(*) FROM runs GROUP BY state")
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	counts := map[RunState]int{}
	for _, c := range list {
		counts[c.state] = c.runs
	}
	return counts, nil
}

// Live returns the states of the runs that are not over, by id.
func Live(ctx context.Context, s *Store) (map[string]RunState, error) {
	live := map[string]RunState{}
	_, err := rows(ctx, s.db, func(scan func(...any) error) (none struct{}, err error) {
		var id string
		var in RunState
		err = scan(&id, &in)
		live[id] = in
		return none, err
	}, "SELECT id, state FROM runs WHERE "+notOver)
	if err != nil {
		return nil, fmt.Errorf("list the runs that are not over: %w", err)
	}
	return live, nil
}

// Suspended lists the runs that wait for a site, or for their user, oldest first.
func (s *Store) Suspended(ctx context.Context) ([]Run, error) {
	return s.runs(ctx, "WHERE state='suspended' ORDER BY created")
}

// needsController is the condition of runs that are not over and that a controller has to
// continue: also those that their user wants to continue or to end.
const needsController = "(state IN ('queued','running') OR EXISTS (SELECT 1 FROM requests WHERE run=runs.id AND kind IN ('stop','resume') AND result=''))"

// Unfinished gives the ids of all runs that a controller has to continue, also of those that
// their user wants to continue or to end. A case of an array is one once its turn has come.
func (s *Store) Unfinished(ctx context.Context) ([]string, error) {
	list, err := ids(ctx, s.db, "SELECT id FROM runs WHERE array_id='' AND "+notOver+" AND "+needsController+`
UNION SELECT run FROM requests WHERE result='' AND kind IN ('stop','resume') AND EXISTS (SELECT 1 FROM runs WHERE id=run AND array_id<>'' AND pack_run='' AND `+notOver+")")
	if err != nil {
		return nil, err
	}
	arrays, err := ids(ctx, s.db, liveArrays)
	if err != nil {
		return nil, err
	}
	for _, array := range arrays {
		due, err := s.Arrays().Due(ctx, array)
		if err != nil {
			return nil, err
		}
		list = append(list, due...)
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// RemoveRun forgets a run that is over. What it has not released belongs to no run from
// then on, and only a sweep finds it.
func (s *Store) RemoveRun(ctx context.Context, id string) error {
	err := s.db.do(ctx, func(ctx context.Context, db *sql.DB) error {
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		_, err1 := tx.ExecContext(ctx, "DELETE FROM attempts WHERE run=?", id)
		_, err2 := tx.ExecContext(ctx, "DELETE FROM runs WHERE id=?", id)
		_, err3 := tx.ExecContext(ctx, "DELETE FROM events WHERE run=?", id)
		_, err4 := tx.ExecContext(ctx, "DELETE FROM requests WHERE run=?", id)
		_, err5 := tx.ExecContext(ctx, "DELETE FROM written WHERE run=?", id)
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		return tx.Commit()
	})
	if err != nil {
		return fmt.Errorf("remove run %s: %w", id, err)
	}
	return nil
}
