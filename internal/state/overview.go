package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// mostOverviewed is how many runs EachRun reads at once.
const mostOverviewed = 2000

// runOverview is an attempt with its run, or a run that has none.
type runOverview struct {
	run     Run
	attempt *Attempt
}

// EachRun passes on every run with its attempts. Of a run it has the id, state, times and pack
// only, and of an attempt no lease: numbers of all runs need no more, and most of a record is the
// job. Runs that change meanwhile may be as before or after.
func (s *Store) EachRun(ctx context.Context, each func(Run, []Attempt) error) error {
	packed, err := rows(ctx, s.db, func(scan func(...any) error) (of [2]string, err error) {
		err = scan(&of[0], &of[1])
		return of, err
	}, "SELECT id, pack_run FROM runs WHERE pack_run<>''")
	if err != nil {
		return fmt.Errorf("list the cases of packs: %w", err)
	}
	packs := map[string]string{}
	for _, of := range packed {
		packs[of[0]] = of[1]
	}
	for after := ""; ; {
		part, err := rows(ctx, s.db, scanOverview, `SELECT r.id, r.state, CAST(r.created AS INTEGER), CAST(r.ended AS INTEGER),
  a.n, a.site, a.state, a.result, a.verdict, CAST(a.started AS INTEGER), CAST(a.ended AS INTEGER), a.record
FROM (SELECT id, state, created, ended FROM runs WHERE id>? ORDER BY id LIMIT ?) r LEFT JOIN attempts a ON a.run=r.id ORDER BY r.id, a.n`, after, mostOverviewed)
		if err != nil {
			return fmt.Errorf("list runs with their attempts: %w", err)
		}
		if len(part) == 0 {
			return nil
		}
		for i := 0; i < len(part); {
			run, attempts := part[i].run, []Attempt(nil)
			for ; i < len(part) && part[i].run.ID == run.ID; i++ {
				if at := part[i].attempt; at != nil {
					attempts = append(attempts, *at)
				}
			}
			run.Case.Pack = packs[run.ID]
			if err := each(run, attempts); err != nil {
				return err
			}
			after = run.ID
		}
	}
}

func scanOverview(scan func(...any) error) (o runOverview, err error) {
	var (
		created                      int64
		ended, n, started, left      sql.NullInt64
		site, state, result, verdict sql.NullString
		record                       []byte
	)
	if err := scan(&o.run.ID, &o.run.State, &created, &ended, &n, &site, &state, &result, &verdict, &started, &left, &record); err != nil {
		return o, err
	}
	o.run.Created = time.Unix(0, created)
	if ended.Valid {
		o.run.Ended = time.Unix(0, ended.Int64)
	}
	if !n.Valid {
		return o, nil
	}
	a := &Attempt{Run: o.run.ID, N: int(n.Int64), Site: site.String, State: AttemptState(state.String), Result: Result(result.String), Verdict: Verdict(verdict.String), Started: time.Unix(0, started.Int64)}
	if left.Valid {
		a.Ended = time.Unix(0, left.Int64)
	}
	a.read(record)
	o.attempt = a
	return o, nil
}
