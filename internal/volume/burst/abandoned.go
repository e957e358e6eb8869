package burst

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// abandonTimeout is how long the I/O process of a volume that nobody manages works without a client, a command, and
// progress of its drain: longer than a weekend.
const abandonTimeout = 72 * time.Hour

// errAbsent is about a process that nobody needs any more, as far as it can know.
var errAbsent = errors.New("nobody has come")

// Ended is why the I/O process of a volume that nobody manages has ended before everything was done.
type Ended struct {
	At  time.Time `json:"at"`
	Why string    `json:"why"`
}

// absence finds out that nobody comes for a volume any more. The clock is monotonic, and does not count while the
// host sleeps.
type absence struct {
	most  time.Duration
	since time.Time
	steps uint64
}

func newAbsence(c Config) *absence {
	if !c.Alone {
		return nil
	}
	return &absence{most: cmp.Or(c.abandon, abandonTimeout), since: time.Now()}
}

// over reports whether nobody has come for too long. there is whether a client or a command is there now, and steps is
// the progress of the drain. A volume with records that commands manage has a nil absence.
func (a *absence) over(there bool, steps uint64) bool {
	switch {
	case a == nil:
		return false
	case there || steps != a.steps:
		a.since, a.steps = time.Now(), steps
	}
	return time.Since(a.since) > a.most
}

// noteEnd records that the I/O process has ended before everything was done, and why.
func (c Config) noteEnd(most time.Duration, waits error) error {
	now, err := Load(c.Dir)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("for %s nobody came, and nothing was drained", most)
	if waits != nil {
		why += ": " + core.Printable(waits.Error(), 1000)
	}
	now.Ended = &Ended{time.Now(), why}
	return now.Save()
}
