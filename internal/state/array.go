package state

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Case is a run's place in an array.
type Case struct {
	Array  string // its id
	Name   string // the array's
	Number int    // from 1
	// AtOnce is how many cases of the array run at the same time; 0: all.
	AtOnce int `json:",omitempty"`
	// Pack is the run whose lease the case shares, and whose controller records its state;
	// "": it has its own.
	Pack string `json:",omitempty"`
}

// Array is a set of runs that were submitted together, its cases. A case that was removed
// counts no more.
type Array struct {
	ID, Name string
	Created  time.Time
	Ended    time.Time // the last end of a case; zero: none has ended
	// States are how many of its cases are in which state.
	States map[RunState]int
}

// Cases returns how many there are.
func (a Array) Cases() int {
	n := 0
	for _, count := range a.States {
		n += count
	}
	return n
}

// Over returns how many cases are over.
func (a Array) Over() int { return a.States[Succeeded] + a.States[Failed] + a.States[Stopped] }

// State returns that of the array: it is over when all of its cases are, and has succeeded
// when all have.
func (a Array) State() RunState {
	for _, s := range []RunState{Running, Queued, SetAside, Suspended, Failed, Stopped} {
		if a.States[s] > 0 {
			return s
		}
	}
	return Succeeded
}

// Arrays are the arrays of a store.
type Arrays struct{ s *Store }

// Arrays returns all arrays.
func (s *Store) Arrays() Arrays { return Arrays{s} }

const addCases = `
ALTER TABLE runs ADD COLUMN array_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN array_name TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN case_number INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_by_array ON runs(array_id, case_number) WHERE array_id<>'';
CREATE INDEX runs_by_array_name ON runs(array_name) WHERE array_id<>'';
`

// addArrayIndexes have lists read no case of an array: how many of them are in which state is
// in an index, and the other runs have indexes without them.
const addArrayIndexes = `
CREATE INDEX runs_of_arrays ON runs(array_id, state, array_name, created, ended) WHERE array_id<>'';
CREATE INDEX runs_alone ON runs(created) WHERE array_id='';
CREATE INDEX runs_alone_by_state ON runs(state) WHERE array_id='';
`

// addTurns has the cases of an array found whose turn has come, and no other case read.
const addTurns = `
ALTER TABLE runs ADD COLUMN case_at_once INTEGER NOT NULL DEFAULT 0;
CREATE INDEX runs_in_turn ON runs(array_id, case_number, state) WHERE array_id<>'' AND ` + notOver + `;
CREATE INDEX runs_of_arrays_by_end ON runs(array_id, ended) WHERE array_id<>'';
`

// lastEnd is when a case of an array has ended last.
const lastEnd = "SELECT CAST(COALESCE(MAX(ended), 0) AS INTEGER) FROM runs WHERE array_id=? AND array_id<>''"

// liveCases are the cases of an array that are not over.
const liveCases = "array_id=?1 AND array_id<>'' AND " + notOver

// inTurn is the number of the last case of an array whose turn has come: of the cases before
// it, fewer are not over than run at once. NULL: the turn of all has come.
const inTurn = "(SELECT case_number FROM runs WHERE " + liveCases + ` ORDER BY case_number
LIMIT CASE (SELECT case_at_once FROM runs WHERE ` + liveCases + ` LIMIT 1) WHEN 0 THEN 0 ELSE 1 END
OFFSET IFNULL((SELECT case_at_once FROM runs WHERE ` + liveCases + ` LIMIT 1), 1)-1)`

// addPacks has the cases found that share the lease of a run.
const addPacks = `
ALTER TABLE runs ADD COLUMN pack_run TEXT NOT NULL DEFAULT '';
DROP INDEX runs_in_turn;
CREATE INDEX runs_in_turn ON runs(array_id, case_number, state, pack_run) WHERE array_id<>'' AND ` + notOver + `;
CREATE INDEX runs_of_packs ON runs(pack_run, state) WHERE pack_run<>'';
`

// addCaseAttempts has it known which results of cases are lost with an attempt of their pack.
const addCaseAttempts = "ALTER TABLE runs ADD COLUMN case_attempt INTEGER NOT NULL DEFAULT 0;"

// addCollected has it known of which cases the outputs are here. A result without an attempt, of an
// earlier bee, counts as one of the last attempt, with which it may be lost.
const addCollected = `
ALTER TABLE runs ADD COLUMN case_collected INTEGER NOT NULL DEFAULT 0;
UPDATE runs SET case_attempt=(SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=runs.pack_run)
WHERE pack_run<>'' AND case_attempt=0 AND (exit_code IS NOT NULL OR message<>'') AND ` + notOver + `;
`

// Packed returns the ids of the cases that share the lease of a run, and are not over.
func (a Arrays) Packed(ctx context.Context, run string) ([]string, error) {
	return ids(ctx, a.s.db, "SELECT id FROM runs WHERE pack_run=? AND pack_run<>'' AND "+notOver, run)
}

// Packs returns the runs whose leases the cases of an array share, in their order.
func (a Arrays) Packs(ctx context.Context, array string) ([]Run, error) {
	return a.s.runs(ctx, "WHERE id IN (SELECT pack_run FROM runs WHERE array_id=? AND array_id<>'' AND pack_run<>'') ORDER BY case_number", array)
}

// hasFailed is the condition of cases that have failed, also of a pack that is not over.
const hasFailed = "(state='failed' OR pack_run<>'' AND " + notOver + " AND (exit_code<>0 OR message<>'' AND kind<>'stopped'))"

// FailedBeside returns how many cases of an array have failed, but for those that a run shares its
// lease with, and that are not over.
func (a Arrays) FailedBeside(ctx context.Context, run string) (int, error) {
	count, err := rows(ctx, a.s.db, func(scan func(...any) error) (n int, err error) {
		err = scan(&n)
		return n, err
	}, "SELECT COUNT(*) FROM runs WHERE array_id=(SELECT array_id FROM runs WHERE pack_run=?1 AND pack_run<>'' LIMIT 1) AND array_id<>'' AND "+hasFailed+" AND NOT (pack_run=?1 AND "+notOver+")", run)
	if err != nil {
		return 0, fmt.Errorf("count the failed cases beside run %s: %w", run, err)
	}
	return count[0], nil
}

// OfPack returns the array whose cases share the lease of a run; "": there are none.
func (a Arrays) OfPack(ctx context.Context, run string) (string, error) {
	list, err := ids(ctx, a.s.db, "SELECT array_id FROM runs WHERE pack_run=? AND pack_run<>'' LIMIT 1", run)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0], nil
}

// ownEnd is the condition of cases that end by what they have ended with, and not as their pack:
// they have no outputs that the pack may have failed to collect, or these are here.
const ownEnd = "(exit_code<>0 OR exit_code=0 AND (?2='succeeded' OR ?2='stopped' AND case_collected<>0) OR message<>'')"

// carry has the cases of a pack follow its state: they are suspended or set aside with it, and end with it.
func (t *tx) carry(ctx context.Context, run Run) error {
	var err error
	switch {
	case run.State.Final():
		err = t.endPack(ctx, run)
	case run.State.Resumable():
		err = t.exec(ctx, "UPDATE runs SET state=?3, suspended=?2 WHERE pack_run=?1 AND pack_run<>'' AND "+notOver, run.ID, run.Suspended, run.State)
	default:
		err = t.exec(ctx, "UPDATE runs SET state=CASE WHEN exit_code IS NULL AND message='' THEN 'queued' ELSE 'running' END, suspended='' WHERE pack_run=? AND pack_run<>'' AND state IN ('suspended','set aside')", run.ID)
	}
	if err != nil {
		return fmt.Errorf("record the cases of run %s: %w", run.ID, err)
	}
	return nil
}

// endPack ends the cases of a run that has ended.
func (t *tx) endPack(ctx context.Context, run Run) error {
	return t.exec(ctx, `UPDATE runs SET ended=?3, state=CASE WHEN `+ownEnd+` THEN CASE WHEN exit_code=0 THEN 'succeeded' WHEN exit_code IS NULL AND kind='stopped' THEN 'stopped' ELSE 'failed' END ELSE ?2 END,
  kind=CASE WHEN `+ownEnd+` THEN kind ELSE ?4 END, message=CASE WHEN `+ownEnd+` THEN message ELSE ?5 END, remedy=CASE WHEN `+ownEnd+` THEN remedy ELSE ?6 END,
  exit_code=CASE WHEN `+ownEnd+` THEN exit_code END
WHERE pack_run=?1 AND pack_run<>'' AND `+notOver, run.ID, run.State, run.Ended.UnixNano(), run.Kind, run.Message, run.Remedy)
}

// PausePack records that no case of a run computes, as an attempt has ended: those without a
// result wait for the next one.
func (a Arrays) PausePack(ctx context.Context, run string) error {
	return a.s.db.exec(ctx, "UPDATE runs SET state='queued' WHERE pack_run=? AND pack_run<>'' AND state='running' AND exit_code IS NULL AND message=''", run)
}

// Collected records that the outputs of cases of a pack are here, which have ended with code 0 and
// have these numbers.
func (a Arrays) Collected(ctx context.Context, pack string, numbers []int) error {
	raw, err := json.Marshal(numbers)
	if err == nil {
		err = a.s.db.exec(ctx, "UPDATE runs SET case_collected=1 WHERE pack_run=? AND pack_run<>'' AND exit_code=0 AND case_number IN (SELECT value FROM json_each(?)) AND "+notOver, pack, string(raw))
	}
	if err != nil {
		return fmt.Errorf("record whose outputs are here of run %s: %w", pack, err)
	}
	return nil
}

// Withdraw records that results of cases are lost, of a pack that has got them in an attempt on
// a site: these cases run again. With a number, they are of that case alone, whose attempt may be
// unknown (0). The histories of the cases and of the pack name them, once for each attempt.
func (a Arrays) Withdraw(ctx context.Context, pack string, attempt, number int, site string) error {
	type lost struct {
		run    string
		number int
	}
	err := a.s.db.change(ctx, func(ctx context.Context, t *tx) error {
		list, err := txRows(ctx, t, func(scan func(...any) error) (c lost, err error) {
			err = scan(&c.run, &c.number)
			return c, err
		}, `UPDATE runs SET state='queued', exit_code=NULL, kind='', message='', remedy='', case_attempt=0, case_collected=0
WHERE pack_run=?1 AND pack_run<>'' AND case_attempt=?2 AND (case_attempt>0 AND ?3=0 OR case_number=?3) AND (exit_code IS NOT NULL OR message<>'') AND `+notOver+` RETURNING id, case_number`, pack, attempt, number)
		if err != nil || len(list) == 0 {
			return err
		}
		known, err := t.namedLost(ctx, pack, attempt)
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(c lost) bool { return known[c.number] })
		slices.SortFunc(list, func(a, b lost) int { return cmp.Compare(a.number, b.number) })
		for some := range slices.Chunk(list, event.MaxList) {
			named := event.CasesLost{Site: site}
			for _, c := range some {
				named.Cases = append(named.Cases, c.number)
				if _, err := t.event(ctx, event.Event{Run: c.run, Fields: event.CasesLost{Site: site, Cases: []int{c.number}}}); err != nil {
					return err
				}
			}
			if _, err := t.event(ctx, event.Event{Run: pack, Attempt: attempt, Fields: named}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("withdraw results of cases of run %s: %w", pack, err)
	}
	return nil
}

// namedLost returns the cases that the history of a pack names as lost with an attempt.
func (t *tx) namedLost(ctx context.Context, pack string, attempt int) (map[int]bool, error) {
	events, err := txRows(ctx, t, scanEvent, "SELECT "+eventValues+" FROM events WHERE run=? AND attempt=? AND kind=?", pack, attempt, event.KindCasesLost)
	named := map[int]bool{}
	for _, e := range events {
		if lost, is := e.Fields.(event.CasesLost); is {
			for _, n := range lost.Cases {
				named[n] = true
			}
		}
	}
	return named, err
}

// dueCases are those whose turn has come, and that need a controller. Of the others none is read.
const dueCases = "SELECT id FROM runs WHERE " + liveCases + " AND case_number<=IFNULL(" + inTurn + ", 1<<40) AND pack_run='' AND " + needsController + " ORDER BY case_number"

// liveArrays are the arrays that are not over and whose cases have controllers. Only the index is read.
const liveArrays = "SELECT DISTINCT array_id FROM runs INDEXED BY runs_in_turn WHERE array_id<>'' AND pack_run='' AND " + notOver

// live are the cases of an array that are not over, before a number.
const live = "array_id=? AND array_id<>'' AND case_number<? AND " + notOver

// countCases begins the query of arrays. It reads the index alone.
const countCases = "SELECT array_id, array_name, state, COUNT(*), CAST(MIN(created) AS INTEGER), CAST(MAX(COALESCE(ended, 0)) AS INTEGER) FROM runs WHERE array_id<>'' AND "

// All returns the arrays, newest first; active: only those that are not over.
func (a Arrays) All(ctx context.Context, active bool) ([]Array, error) {
	list, err := a.list(ctx, "TRUE")
	if active {
		list = slices.DeleteFunc(list, func(o Array) bool { return o.State().Final() })
	}
	return list, err
}

// First returns the first case of an array that is on record.
func (a Arrays) First(ctx context.Context, id string) (Run, error) {
	list, err := a.s.runs(ctx, "WHERE array_id=? AND array_id<>'' ORDER BY case_number LIMIT 1", id)
	if err != nil || len(list) == 0 {
		return Run{}, err
	}
	return list[0], nil
}

// list returns arrays, newest first.
func (a Arrays) list(ctx context.Context, where string, args ...any) ([]Array, error) {
	type count struct {
		id, name       string
		state          RunState
		runs           int
		created, ended int64
	}
	counts, err := rows(ctx, a.s.db, func(scan func(...any) error) (c count, err error) {
		err = scan(&c.id, &c.name, &c.state, &c.runs, &c.created, &c.ended)
		return c, err
	}, countCases+where+" GROUP BY array_id, state", args...)
	if err != nil {
		return nil, fmt.Errorf("count the cases of arrays: %w", err)
	}
	var list []Array
	for _, c := range counts {
		i := slices.IndexFunc(list, func(o Array) bool { return o.ID == c.id })
		if i < 0 {
			i, list = len(list), append(list, Array{ID: c.id, Name: c.name, Created: time.Unix(0, c.created), States: map[RunState]int{}})
		}
		list[i].States[c.state] += c.runs
		if at := time.Unix(0, c.created); at.Before(list[i].Created) {
			list[i].Created = at
		}
		if at := time.Unix(0, c.ended); c.ended > 0 && at.After(list[i].Ended) {
			list[i].Ended = at
		}
	}
	slices.SortFunc(list, func(a, b Array) int { return b.Created.Compare(a.Created) })
	return list, nil
}

// Array returns an array by its id; without cases: there is none.
func (a Arrays) Array(ctx context.Context, id string) (Array, error) {
	list, err := a.list(ctx, "array_id=?", id)
	if err != nil || len(list) == 0 {
		return Array{}, err
	}
	return list[0], nil
}

// Find returns the array that a user means by its id or name; without an id: the word means
// a run, or nothing. Of arrays and runs of one name it means the one that FindRun would.
func (a Arrays) Find(ctx context.Context, word string, why Meaning) (Array, error) {
	found, err := a.Array(ctx, word)
	if err != nil || found.ID != "" || word == "" {
		return found, err
	}
	if run, err := ids(ctx, a.s.db, "SELECT id FROM runs WHERE id=?", word); err != nil || len(run) > 0 {
		return Array{}, err
	}
	arrays, err := a.list(ctx, "array_name=?", word)
	if err != nil || len(arrays) == 0 {
		return Array{}, err
	}
	runs, err := a.s.runs(ctx, ofName, word)
	if err != nil {
		return Array{}, err
	}
	all := slices.Clone(arrays)
	for _, r := range runs {
		all = append(all, Array{Created: r.Created, States: map[RunState]int{r.State: 1}})
	}
	slices.SortStableFunc(all, func(a, b Array) int { return b.Created.Compare(a.Created) })
	if why == ToSee {
		return all[0], nil
	}
	several := all
	if why != ToForget {
		if several = slices.DeleteFunc(slices.Clone(all), func(o Array) bool { return o.State().Final() }); len(several) == 0 {
			several = all[:1]
		}
	}
	if len(several) == 1 {
		return several[0], nil
	}
	return Array{}, &core.Error{
		Kind: core.Invalid, Op: "find array", Object: word, Err: fmt.Errorf("%d arrays and runs have that name", len(several)),
		Remedy: fmt.Sprintf("Give the id of the one that you mean, such as %s.", arrays[0].ID),
	}
}

// Runs returns the cases of an array in their order.
func (a Arrays) Runs(ctx context.Context, id string) ([]Run, error) {
	return a.s.runs(ctx, "WHERE array_id=? AND array_id<>'' ORDER BY case_number", id)
}

// Page returns so many cases of an array, in their order, after one with a number; 0: the first.
func (a Arrays) Page(ctx context.Context, id string, after, limit int) ([]Run, error) {
	return a.s.runs(ctx, "WHERE array_id=? AND array_id<>'' AND case_number>? ORDER BY case_number LIMIT ?", id, after, limit)
}

// Turn reports whether a case may begin, of an array of which only so many run at once: of
// the cases before it, fewer than that are not over. It has been so since the time returned, or
// for longer.
func (a Arrays) Turn(ctx context.Context, c Case, atOnce int) (is bool, since time.Time, err error) {
	before, err := ids(ctx, a.s.db, "SELECT id FROM runs WHERE "+live+" LIMIT ?", c.Array, c.Number, atOnce)
	if err != nil || len(before) >= atOnce {
		return false, time.Time{}, err
	}
	ends, err := rows(ctx, a.s.db, func(scan func(...any) error) (at int64, err error) {
		err = scan(&at)
		return at, err
	}, lastEnd, c.Array)
	if err != nil || len(ends) == 0 {
		return err == nil, time.Time{}, err
	}
	return true, time.Unix(0, ends[0]), nil
}

// Due returns the ids of those cases of an array whose turn has come, and that need a
// controller, in their order.
func (a Arrays) Due(ctx context.Context, id string) ([]string, error) {
	list, err := ids(ctx, a.s.db, dueCases, id)
	if err != nil {
		return nil, fmt.Errorf("find the cases of array %s whose turn has come: %w", id, err)
	}
	return list, nil
}

// StopWaiting ends those cases of an array whose turn has not come, with the reason, and
// returns their ids. They have no attempt, and their turn never comes: no controller
// begins one.
func (a Arrays) StopWaiting(ctx context.Context, id string, why Stop) (list []string, err error) {
	err = a.s.db.change(ctx, func(ctx context.Context, t *tx) error {
		list, err = t.stopWaiting(ctx, id, why)
		return err
	})
	return list, err
}

// Stop is why cases are stopped that have not begun.
type Stop struct{ Kind, Message, Remedy string }

func (t *tx) stopWaiting(ctx context.Context, array string, why Stop) ([]string, error) {
	list, err := txRows(ctx, t, func(scan func(...any) error) (id string, err error) {
		err = scan(&id)
		return id, err
	}, `UPDATE runs SET state='stopped', ended=?2, kind=?3, message=?4, remedy=?5
WHERE `+liveCases+` AND state='queued' AND case_number>`+inTurn+` AND NOT EXISTS (SELECT 1 FROM attempts WHERE run=runs.id) RETURNING id`,
		array, time.Now().UnixNano(), why.Kind, core.Printable(why.Message, maxText), core.Printable(why.Remedy, maxText))
	for i := 0; i < len(list) && err == nil; i++ {
		if err = t.exec(ctx, answerAtEnd, Stopped, list[i]); err == nil { // of packs, the cases end as well
			err = t.endPack(ctx, Run{ID: list[i], State: Stopped, Ended: time.Now(), Kind: why.Kind, Message: core.Printable(why.Message, maxText), Remedy: core.Printable(why.Remedy, maxText)})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("stop the cases of array %s that wait for their turn: %w", array, err)
	}
	return list, nil
}

// Beside returns the ids of the cases of a run's array, in their order; none: it is in none.
func (a Arrays) Beside(ctx context.Context, run string, onlyLive bool) ([]string, error) {
	query := "SELECT id FROM runs WHERE array_id=(SELECT array_id FROM runs WHERE id=?) AND array_id<>''"
	if onlyLive {
		query += " AND " + notOver
	}
	return ids(ctx, a.s.db, query+" ORDER BY case_number", run)
}

// refuse is the error of a word that means an array where a run is wanted; nil: it means none.
func (a Arrays) refuse(ctx context.Context, word string) error {
	array, err := a.Find(ctx, word, ToSee)
	if err != nil || array.ID == "" {
		return err
	}
	return &core.Error{
		Kind: core.Invalid, Op: "find run", Object: word, Err: errors.New("it is an array of runs, and one is wanted"),
		Remedy: "`bee ps " + word + "` lists its cases: name one of them.",
	}
}

// authorArray begins the author of requests of an array. No user's name has a colon.
const authorArray = "array:"

// OfArray reports whether a request is of the array of the run, and not of a user.
func (r Request) OfArray() bool { return strings.HasPrefix(r.Author, authorArray) }

// stopCases asks those cases of an array to stop that have not begun, if so many cases have
// failed. A case that waits for its next attempt has begun. One whose turn has not come ends
// at once: no controller would read the request.
func (t *tx) stopCases(ctx context.Context, counted, array string, failed int, why Stop) error {
	count, err := txRows(ctx, t, func(scan func(...any) error) (n int, err error) {
		err = scan(&n)
		return n, err
	}, "SELECT COUNT(*) FROM runs WHERE array_id=? AND array_id<>'' AND "+hasFailed, counted)
	if err != nil {
		return fmt.Errorf("count the failed cases of array %s: %w", counted, err)
	}
	if count[0] < failed {
		return nil
	}
	if _, err := t.stopWaiting(ctx, array, why); err != nil {
		return err
	}
	err = t.exec(ctx, `INSERT INTO requests (run, attempt, kind, author, asked)
SELECT id, (SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=runs.id), 'stop', ?2, ?3 FROM runs
WHERE `+liveCases+` AND state='queued' AND NOT EXISTS (SELECT 1 FROM requests WHERE run=runs.id AND kind='stop' AND result='')
  AND NOT EXISTS (SELECT 1 FROM attempts WHERE run=runs.id AND result<>'')`,
		array, authorArray+array, time.Now().UnixNano())
	if err != nil {
		return fmt.Errorf("stop the cases of array %s: %w", array, err)
	}
	return nil
}
