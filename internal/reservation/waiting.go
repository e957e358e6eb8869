package reservation

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Waiting is a run that waits for room on this host.
type Waiting struct {
	// Run is the run's id, and Site the scratch directory of the site that it waits for.
	Run  string `json:"run"`
	Site string `json:"site"`
	// Cores and Bytes of memory are what it needs.
	Cores int   `json:"cores"`
	Bytes int64 `json:"bytes"`
	// Submitted is when it was, which is its place among the others: the same on every host,
	// so that of two runs that need several hosts each, one comes first on all of them.
	Submitted time.Time `json:"submitted"`
	// Seen is when it asked for the last time, by this host's clock.
	Seen time.Time `json:"seen"`
}

const waitingSuffix = ".waiting"

// placeTime is how long the place of a run is kept that does not ask again: longer than the
// pause between two looks.
const placeTime = 20 * time.Second

// mostWaiting bounds the runs that are kept a place, and waitingSize the record of one.
const (
	mostWaiting = 1000
	waitingSize = 64 << 10
)

// before reports whether a run comes before another.
func (w Waiting) before(o Waiting) bool {
	return cmp.Or(w.Submitted.Compare(o.Submitted), cmp.Compare(w.Run, o.Run)) < 0
}

func (w Waiting) name() string {
	sum := sha256.Sum256([]byte(w.Run + "\n" + w.Site))
	return hex.EncodeToString(sum[:16]) + waitingSuffix
}

// Wait keeps a run's place until Leave, or until it was not asked for within placeTime.
func (l Ledger) Wait(w Waiting) error {
	f, err := l.enter()
	if err != nil {
		return err
	}
	defer f.Close()
	w.Seen = time.Now()
	raw, err := json.Marshal(w)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(string(l), w.name()), raw, 0o600)
}

// Leave ends the place of a run.
func (l Ledger) Leave(w Waiting) {
	fsutil.TryRemove(filepath.Join(string(l), w.name())) // there may be none; else it ends by itself
}

// Before returns the runs that wait and were submitted before one. One that is not submitted
// yet, or not as far as is known, comes last, and not before its own.
func (l Ledger) Before(one Waiting) (before []Waiting) {
	for _, w := range l.waiting() {
		if w.Run != one.Run && (one.Submitted.IsZero() || w.before(one)) {
			before = append(before, w)
		}
	}
	return before
}

// waiting returns the runs that wait, first come first, and forgets those that do not any
// more.
func (l Ledger) waiting() (all []Waiting) {
	files, err := filepath.Glob(filepath.Join(string(l), "*"+waitingSuffix))
	if err != nil {
		return nil
	}
	for _, file := range files {
		var w Waiting
		raw, err := fsutil.ReadFile(string(l), filepath.Base(file), waitingSize)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(raw, &w)
		}
		if age := time.Since(w.Seen); err != nil || age > placeTime || age < -placeTime {
			fsutil.TryRemove(file) // the next look tries again
			continue
		}
		if all = append(all, w); len(all) == mostWaiting {
			break
		}
	}
	slices.SortFunc(all, func(a, b Waiting) int { return map[bool]int{true: -1, false: 1}[a.before(b)] })
	return all
}
