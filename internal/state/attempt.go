package state

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Attempt is the record of one stretch of a run on one lease.
type Attempt struct {
	Run      string
	N        int // from 1
	Site     string
	Provider string
	// Lease is nil from the intent until the lease is there.
	Lease *core.Handle
	// State is how far the attempt is, and Autostart how far its site is to start it by
	// itself. Result and Verdict are set once: what it ended with, and what that means
	// for the run. The verdict counts from Releasing on, or Lending.
	State     AttemptState
	Autostart Autostart
	Result    Result
	Verdict   Verdict
	Started   time.Time
	Ended     time.Time
	// Key is the wire.Key that its nodes and controllers share. No copy of the record
	// that leaves the database has it.
	Key []byte `json:"-"`
	Record
	// Unreadable is why Lease and Record are not what was recorded; nil: they are.
	Unreadable error `json:"-"`
}

// kept is what the database has of an attempt besides what can be asked for.
type kept struct {
	Record
	Key []byte `json:"key,omitempty"`
}

// Nameless is how much of the attempt's time until a moment no phase has. It is negative
// where a phase began before the attempt, as the image's may.
func (a Attempt) Nameless(until time.Time) time.Duration {
	rest := until.Sub(a.Started)
	for _, took := range a.Phases {
		rest -= took
	}
	return rest
}

// Record is the part of an attempt that only people read.
type Record struct {
	Why string `json:"why,omitempty"` // why this site
	// Price is that of its hosts; nil: it is not on record, or they cost nothing.
	Price   *Price      `json:"price,omitempty"`
	Hosts   []core.Host `json:"hosts,omitempty"`
	Runtime string      `json:"runtime,omitempty"`
	// Guest is the id of the image that its virtual machines boot.
	Guest    string                       `json:"guest,omitempty"`
	ExitCode *int                         `json:"exit_code,omitempty"`
	Kind     string                       `json:"kind,omitempty"`
	Message  string                       `json:"message,omitempty"`
	Remedy   string                       `json:"remedy,omitempty"`
	Phases   map[core.Phase]time.Duration `json:"phases,omitempty"`
	// HeadPhases are the head's that were over when it began the job's command, until
	// Phases has all of them.
	HeadPhases map[core.Phase]time.Duration `json:"head_phases,omitempty"`
	// Starting is how far its virtual machines are, by the head's last word, until all
	// have their containers.
	Starting string            `json:"starting,omitempty"`
	Nodes    []core.NodeReport `json:"nodes,omitempty"`
	// Expected is when the site meant to grant them, by its last word; zero: it
	// has named no time.
	Expected time.Time `json:"expected,omitzero"`
	// Granted is when the hosts were there, and SiteGranted the same by the site's clock;
	// zero: not known.
	Granted     time.Time `json:"granted,omitzero"`
	SiteGranted time.Time `json:"site_granted,omitzero"`
	// Billed is since when hosts have cost that the site had reserved, also those that never came; zero: from Granted.
	Billed time.Time `json:"billed,omitzero"`
	// TaskBegan is set once the user's command may have done something that is not simply
	// begun again elsewhere.
	TaskBegan bool `json:"task_began,omitempty"`
	// CheckpointAsked is when the head has asked the task for its checkpoint, by the head's
	// clock; zero: it has not, or the task continued since.
	CheckpointAsked time.Time `json:"checkpoint_asked,omitzero"`
	// Margin is how long before the end of its time the job is asked to save
	// itself; 0: its time has no end.
	Margin    time.Duration `json:"margin,omitempty"`
	MarginWhy string        `json:"margin_why,omitempty"`
	// Saving is how long its checkpoint took on the site, from asking for it,
	// and Bringing how long its transfer to the store.
	Saving   time.Duration `json:"saving,omitempty"`
	Bringing time.Duration `json:"bringing,omitempty"`
	// Answer is how the job ended after it was asked to write its checkpoint.
	Answer core.Answer `json:"answer,omitempty"`
	// AutostartAt is when the autostart was put on record.
	AutostartAt time.Time `json:"entrusted,omitzero"`
	// ReleaseTried is when a release last failed, so that a host which is gone
	// for good is not tried with every command.
	ReleaseTried time.Time `json:"release_tried,omitzero"`
	// Outputs are the collected ones, by directory.
	Outputs []Arrived `json:"outputs,omitempty"`
	// Unmatched are the outputs of which nothing was there, and what of others could not
	// leave the volume.
	Unmatched []string `json:"unmatched,omitempty"`
	// From identifies the checkpoint with which the attempt began, and Restored is the attempt of which
	// that is; 0: there was none, or it is not known. NoProgress is set for an attempt that left
	// nothing newer.
	From       string `json:"from,omitempty"`
	Restored   int    `json:"restored,omitempty"`
	NoProgress bool   `json:"no_progress,omitempty"`
	// Span is how long the attempt can compute at most, as then its head ends it,
	// or its site; 0: nobody does. It counts from Begun, when its nodes ran.
	Span  time.Duration `json:"span,omitempty"`
	Begun Moment        `json:"begun,omitzero"`
	// Binary is the digest of the bee that launched it, as in Binaries, and Protocol the
	// version in which that speaks with nodes; "" and 0: not known.
	Binary   string `json:"binary,omitempty"`
	Protocol int    `json:"protocol,omitempty"`
	// HostsEnd is why its hosts were gone before it had ended there; "": they were not, or it is not known.
	HostsEnd core.HostsEnd `json:"hosts_end,omitempty"`
	// Fenced is when the site was seen to have stopped its hosts, which had not answered: nothing computes there since.
	Fenced time.Time `json:"fenced,omitzero"`
}

// Arrived describes the outputs of an attempt that were collected into one directory.
type Arrived struct {
	To    string   `json:"to"`
	Count int      `json:"count"`
	Names []string `json:"names"` // of the first ones, in To
}

// Moment is a moment by a clock that nobody sets, and that continues while the
// machine sleeps. What lies between two of them is known within one boot.
type Moment struct {
	Boot string        `json:"boot"`
	Up   time.Duration `json:"up"` // since then
}

// Price is what a host of an attempt costs.
type Price struct {
	// Hour is the price of an hour, in Currency; "": that of the sites file.
	Hour     float64 `json:"hour"`
	Currency string  `json:"currency,omitempty"`
	// Hosts is how many were asked for; 0: not on record.
	Hosts int `json:"hosts,omitempty"`
	core.Billing
}

// Cost is what the attempt's hosts have cost until now, by the price on record, or else by the given one.
func (a *Attempt) Cost(price Price, now time.Time) float64 {
	if a.Price != nil {
		price = *a.Price
	}
	held, hosts := a.HostTime(now), time.Duration(len(a.Hosts))
	if !a.Billed.IsZero() {
		hosts = max(hosts, time.Duration(price.Hosts))
		held = a.since(a.Billed, now) * hosts
	}
	if held == 0 {
		return 0
	}
	if price.Boot > 0 && a.Billed.IsZero() {
		held += a.Phases[core.PhaseAcquire] * hosts
	}
	return max(held, price.Least*hosts).Hours() * price.Hour
}

// Currency is that of Cost.
func (a *Attempt) Currency(price Price) string {
	if a.Price != nil {
		price = *a.Price
	}
	return price.Currency
}

// HostTime is how long the attempt's hosts were held, added up; none where the
// clock was put back in the meantime.
func (a *Attempt) HostTime(now time.Time) time.Duration {
	if a.Granted.IsZero() || len(a.Hosts) == 0 {
		return 0
	}
	return a.since(a.Granted, now) * time.Duration(len(a.Hosts))
}

// since is the time from a moment to the attempt's end, or until now.
func (a *Attempt) since(from, now time.Time) time.Duration {
	if !a.Ended.IsZero() {
		now = a.Ended
	}
	return max(now.Sub(from), 0)
}

// PutAttempt inserts or replaces an attempt. durable makes it survive a power
// failure: set it when something outside this machine is about to be made.
func (s *Store) PutAttempt(ctx context.Context, a Attempt, durable bool) error {
	_, err := s.Write(ctx, Change{Attempt: &a, Durable: durable})
	return err
}

func (t *tx) attempt(ctx context.Context, a Attempt) error {
	var ended any
	if !a.Ended.IsZero() {
		ended = a.Ended.UnixNano()
	}
	if a.Unreadable != nil { // only this: another bee can perhaps read the rest
		return t.exec(ctx, "UPDATE attempts SET state=?, ended=? WHERE run=? AND n=?", a.State, ended, a.Run, a.N)
	}
	for _, text := range []*string{&a.Message, &a.Remedy, &a.Starting} {
		*text = core.Printable(*text, maxText)
	}
	record, err := json.Marshal(kept{a.Record, a.Key})
	if err != nil {
		return err
	}
	var lease []byte
	if a.Lease != nil {
		if lease, err = json.Marshal(a.Lease); err != nil {
			return err
		}
	}
	return t.exec(ctx, `INSERT OR REPLACE INTO attempts (run, n, site, provider, lease, state, autostart, result, verdict, started, ended, record)
VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`, a.Run, a.N, a.Site, a.Provider, lease, cmp.Or(a.State, Acquiring), cmp.Or(a.Autostart, NoAutostart), a.Result, a.Verdict, a.Started.UnixNano(), ended, record)
}

// Attempts gives a run's attempts in order.
func (s *Store) Attempts(ctx context.Context, run string) ([]Attempt, error) {
	return s.attempts(ctx, "WHERE run=? ORDER BY n", run)
}

// unreleased are the attempts that Unreleased gives. They are found by their index and then
// sorted (+): in the order of runs, all attempts there ever were would be read.
const unreleased = "WHERE state<>'closed' AND run NOT IN (SELECT id FROM runs WHERE state='set aside') ORDER BY +run, n"

// Unreleased gives every attempt that may still hold something on a site, but for those of
// runs that are set aside.
func (s *Store) Unreleased(ctx context.Context) ([]Attempt, error) {
	return s.attempts(ctx, unreleased)
}

func (s *Store) attempts(ctx context.Context, where string, args ...any) ([]Attempt, error) {
	list, err := rows(ctx, s.db, scanAttempt, "SELECT "+attemptValues+" FROM attempts "+where, args...)
	if err != nil {
		return nil, fmt.Errorf("list attempts: %w", err)
	}
	return list, nil
}

// attemptValues are the columns of an attempt. A number that is none, in a damaged file,
// is 0.
const attemptValues = "run, n, site, provider, lease, state, autostart, result, verdict, CAST(started AS INTEGER), CAST(ended AS INTEGER), record"

func scanAttempt(scan func(...any) error) (Attempt, error) {
	var (
		a             Attempt
		lease, record []byte
		started       int64
		ended         sql.NullInt64
	)
	if err := scan(&a.Run, &a.N, &a.Site, &a.Provider, &lease, &a.State, &a.Autostart, &a.Result, &a.Verdict, &started, &ended, &record); err != nil {
		return a, err
	}
	a.Started = time.Unix(0, started)
	if ended.Valid {
		a.Ended = time.Unix(0, ended.Int64)
	}
	if lease != nil {
		a.Lease = new(core.Handle)
		if err := json.Unmarshal(lease, a.Lease); err != nil {
			a.Lease, a.Unreadable = nil, fmt.Errorf("attempt %d of run %s: lease: %w", a.N, a.Run, err)
		} else if o := a.Lease.Owner; a.Lease.Driver == "" || o.Run != "" && (o.Run != a.Run || o.Attempt != a.N) {
			a.Unreadable = fmt.Errorf("attempt %d of run %s: its lease is of driver %q for %q", a.N, a.Run, a.Lease.Driver, o)
			a.Lease = nil
		}
	}
	a.read(record)
	return a, nil
}

// read sets what the record of an attempt has.
func (a *Attempt) read(record []byte) {
	var k kept
	if err := json.Unmarshal(record, &k); err != nil {
		k, a.Unreadable = kept{}, fmt.Errorf("attempt %d of run %s: record: %w", a.N, a.Run, err)
	}
	a.Record, a.Key = k.Record, k.Key
}
