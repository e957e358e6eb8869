package retention

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Bounds of a record that another installation has written, or anybody who can write to
// the store: more than any run has.
const (
	MostRecord   = 16 << 20 // bytes
	MostAttempts = 20000
	mostHosts    = 100000
	LongestName  = 256 // bytes
)

// ParseRecord reads the record of a run in a store, by the id in its name there.
func ParseRecord(id string, raw []byte) (Record, error) {
	var r Record
	fail := func(kind core.Kind, err error, remedy string) (Record, error) {
		return Record{}, &core.Error{Kind: kind, Op: "read the record of run", Object: id, Err: err, Remedy: remedy}
	}
	if len(raw) > MostRecord {
		return fail(core.Invalid, fmt.Errorf("it has %d bytes; at most %d are read", len(raw), MostRecord), "It is not one that bee has written: do not use this run.")
	}
	var version struct {
		Version int `json:"version"`
	}
	if err := core.DecodeJSON(raw, &version); err != nil {
		return fail(core.Invalid, err, "The store is damaged there.")
	}
	if version.Version != RecordVersion {
		return fail(core.Unsupported, fmt.Errorf("it has version %d, this bee knows %d", version.Version, RecordVersion), "Use the version of bee that wrote it.")
	}
	if err := core.DecodeJSON(raw, &r); err != nil {
		return fail(core.Invalid, err, "The store is damaged there.")
	}
	if !state.IsID(r.Run.ID) || r.Run.ID != id {
		return fail(core.Invalid, fmt.Errorf("it is of run %q", r.Run.ID), "It is not one that bee has written for this run: do not use it.")
	}
	return r, nil
}

// ForeignAttempts returns the attempts of another installation with what is shown of them,
// and what the next one is planned by. They are sorted by their numbers.
func ForeignAttempts(run string, list []state.Attempt) ([]state.Attempt, error) {
	if len(list) > MostAttempts {
		return nil, ForeignError(run, fmt.Errorf("it has %d attempts", len(list)))
	}
	attempts := make([]state.Attempt, 0, len(list))
	seen := map[int]bool{}
	for _, a := range list {
		if a.N < 1 || a.N > math.MaxInt32 || seen[a.N] || len(a.Hosts) > mostHosts {
			return nil, ForeignError(run, fmt.Errorf("attempt %d cannot be", a.N))
		}
		seen[a.N] = true
		attempts = append(attempts, foreignAttempt(run, a))
	}
	slices.SortFunc(attempts, func(a, b state.Attempt) int { return a.N - b.N })
	return attempts, nil
}

func foreignAttempt(run string, a state.Attempt) state.Attempt {
	kept := state.Attempt{
		Run: run, N: a.N, Site: Plain(a.Site), Provider: Plain(a.Provider), State: known(a.State, state.AttemptStates(), state.Closed), Autostart: state.NoAutostart,
		Result: known(a.Result, state.Results(), state.NoResult), Verdict: known(a.Verdict, state.Verdicts(), state.NoVerdict),
		Started: Began(a.Started), Ended: moment(a.Ended),
		Record: state.Record{
			NoProgress: a.NoProgress, From: Plain(a.From),
			Saving: duration(a.Saving), Bringing: duration(a.Bringing), Margin: duration(a.Margin), ExitCode: a.ExitCode,
			Kind: Plain(a.Kind), Message: Plain(a.Message),
		},
	}
	if a.Lease != nil {
		kept.Lease = &core.Handle{} // only that there was one
	}
	for _, h := range a.Hosts {
		kept.Hosts = append(kept.Hosts, core.Host{Name: Plain(h.Name)})
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

// ForeignError is the error of a record that no bee has written, or that is damaged.
func ForeignError(run string, err error) error {
	return &core.Error{Kind: core.Invalid, Op: "read the record of run", Object: run, Err: err, Remedy: "It is not one that bee has written, or it is damaged: do not use this run."}
}

// Plain is a text that another user wrote as one that can be printed: of bounded length,
// without control characters.
func Plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	for i := range text {
		if i > LongestName {
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

// Began is moment for what has begun at some time, if only now.
func Began(t time.Time) time.Time {
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
