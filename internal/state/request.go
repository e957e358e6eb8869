package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os/user"
	"time"
)

// RequestKind is what a user asked of a run.
type RequestKind string

// The kinds of requests.
const (
	RequestStop           RequestKind = "stop"       // end the run, whichever attempt it has
	RequestMove           RequestKind = "move"       // continue on other sites, or leave the queue
	RequestResume         RequestKind = "resume"     // continue a run that is suspended, or set aside
	RequestCheckpoint     RequestKind = "checkpoint" // write a checkpoint now
	RequestSiteLost       RequestKind = "site_lost"  // continue without the site of the attempt
	RequestWithoutOutputs RequestKind = "without_outputs"
)

// RequestResult is what became of a request.
type RequestResult string

// The results of requests.
const (
	RequestOpen      RequestResult = ""
	RequestDone      RequestResult = "done"
	RequestRefused   RequestResult = "refused"
	RequestOvertaken RequestResult = "overtaken" // by a later request, the next attempt, or the run's end
)

// Request is what a user asked of a run. It acts on its attempt only, never on a later one:
// a stop alone is for the run.
type Request struct {
	ID      int64
	Run     string
	Attempt int // 0: the run has had none
	// IfLast is set where the request is for Attempt only if that is the run's last one. Else it
	// is overtaken at once.
	IfLast bool
	Kind   RequestKind
	Author string
	Asked  time.Time
	// Sites are those on which the run continues; opaque here.
	Sites  json.RawMessage
	Result RequestResult
	Why    string // it was refused
}

const addRequests = `
CREATE TABLE requests (
  id INTEGER PRIMARY KEY, run TEXT NOT NULL, attempt INTEGER NOT NULL, kind TEXT NOT NULL, author TEXT NOT NULL,
  asked INTEGER NOT NULL, sites BLOB, result TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '');
CREATE INDEX requests_open ON requests(run) WHERE result='';
INSERT INTO requests (run, attempt, kind, author, asked, sites)
  SELECT id, CASE WHEN said->>'$.leave' THEN last ELSE COALESCE(said->>'$.attempt', last) END,
    CASE WHEN said->>'$.leave' THEN 'move' WHEN said->>'$.without' THEN 'without_outputs' ELSE 'site_lost' END,
    '', 0, CAST(said->'$.sites' AS BLOB)
  FROM (SELECT id, CAST(site_lost AS TEXT) AS said, (SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=id) AS last
        FROM runs WHERE site_lost IS NOT NULL) WHERE json_valid(said);
ALTER TABLE runs DROP COLUMN site_lost;
`

// requestStops makes each stop a request. What was open for a run that is over is overtaken.
const requestStops = `
INSERT INTO requests (run, attempt, kind, author, asked, result)
  SELECT id, (SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=id), 'stop', '', 0, CASE state WHEN 'stopped' THEN 'done' ELSE '' END
  FROM runs WHERE CAST(stop_asked AS INTEGER)<>0;
UPDATE requests SET result='overtaken' WHERE result='' AND run IN (SELECT id FROM runs WHERE state IN ('succeeded','failed','stopped'));
DROP INDEX runs_to_stop;
ALTER TABLE runs DROP COLUMN stop_asked;
`

// Requests are what users asked of the runs of a store.
type Requests struct{ db *conn }

// Requests returns those of all runs.
func (s *Store) Requests() Requests { return Requests{s.db} }

// isLast is the condition that attempt 5 of run 1 is its last one.
const isLast = "?5=(SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=?1)"

// Ask records a request. It overtakes the open ones of its kind; one that names sites, also
// those of an open move. One of a run that is over is overtaken itself, and one of an attempt
// after which there is another, where that counts. A stop is recorded with the run's last attempt.
func (q Requests) Ask(ctx context.Context, r Request) (Request, error) {
	r.Asked = time.Now()
	if u, err := user.Current(); err == nil && r.Author == "" {
		r.Author = u.Username
	}
	err := q.db.change(ctx, func(ctx context.Context, t *tx) error {
		overtake := "UPDATE requests SET result='overtaken' WHERE run=?1 AND result='' AND (kind=?2 OR ?3 AND kind='move') AND (NOT ?4 OR " + isLast + ")"
		if err := t.exec(ctx, overtake, r.Run, r.Kind, len(r.Sites) > 0, r.IfLast, r.Attempt); err != nil {
			return err
		}
		_, err := txRows(ctx, t, func(scan func(...any) error) (struct{}, error) {
			return struct{}{}, scan(&r.ID, &r.Attempt, &r.Result)
		}, `INSERT INTO requests (run, attempt, kind, author, asked, sites, result)
VALUES (?1, CASE WHEN ?3='stop' AND NOT ?7 THEN (SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=?1) ELSE ?2 END, ?3, ?4, ?5, ?6,
  CASE WHEN EXISTS (SELECT 1 FROM runs WHERE id=?1 AND state IN ('succeeded','failed','stopped'))
    OR ?7 AND ?2<>(SELECT COALESCE(MAX(n), 0) FROM attempts WHERE run=?1) THEN 'overtaken' ELSE '' END)
RETURNING id, attempt, result`,
			r.Run, r.Attempt, r.Kind, r.Author, r.Asked.UnixNano(), []byte(r.Sites), r.IfLast)
		return err
	})
	if err != nil {
		return r, fmt.Errorf("record a request of run %s: %w", r.Run, err)
	}
	return r, nil
}

// AskStop records that the user wants the run to end.
func (q Requests) AskStop(ctx context.Context, run string) error {
	_, err := q.Ask(ctx, Request{Run: run, Kind: RequestStop})
	return err
}

// Stopping gives those runs that are not over and that their user wants to end. It
// reads no more of them than that: a process that controls some asks every few seconds, for
// all of them at once.
func (q Requests) Stopping(ctx context.Context) ([]string, error) {
	return ids(ctx, q.db, "SELECT DISTINCT run FROM requests WHERE kind='stop' AND result=''")
}

const answerRequest = "UPDATE requests SET result=?, why=? WHERE id=? AND result=''"

// answerAtEnd answers what is still open of a run that is over.
const answerAtEnd = "UPDATE requests SET result=CASE WHEN ?='stopped' AND kind IN ('stop','without_outputs') THEN 'done' ELSE 'overtaken' END WHERE run=? AND result=''"

// answerCheckpoint answers a request for a checkpoint of an attempt that writes none any more.
const answerCheckpoint = "UPDATE requests SET result='overtaken' WHERE run=? AND attempt=? AND kind='checkpoint' AND result=''"

// Answer sets the result of an open request.
func (q Requests) Answer(ctx context.Context, id int64, result RequestResult, why string) error {
	return q.db.exec(ctx, answerRequest, result, why, id)
}

// Open returns the open request of a run of one kind; nil: none.
func (q Requests) Open(ctx context.Context, run string, kind RequestKind) (*Request, error) {
	list, err := q.list(ctx, "WHERE run=? AND kind=? AND result='' ORDER BY id DESC LIMIT 1", run, kind)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Of returns all requests of a run in their order.
func (q Requests) Of(ctx context.Context, run string) ([]Request, error) {
	return q.list(ctx, "WHERE run=? ORDER BY id", run)
}

func (q Requests) list(ctx context.Context, where string, args ...any) ([]Request, error) {
	list, err := rows(ctx, q.db, func(scan func(...any) error) (r Request, err error) {
		var (
			asked sql.NullInt64
			sites []byte
		)
		err = scan(&r.ID, &r.Run, &r.Attempt, &r.Kind, &r.Author, &asked, &sites, &r.Result, &r.Why)
		r.Asked, r.Sites = time.Unix(0, asked.Int64), sites
		return r, err
	}, "SELECT id, run, attempt, kind, author, asked, sites, result, why FROM requests "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list requests: %w", err)
	}
	return list, nil
}
