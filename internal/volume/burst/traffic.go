package burst

import (
	"math"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// traffic counts the bytes that programs read and write.
type traffic struct {
	hits, misses     int64 // read from the journal, and from the remote
	written, delayed int64 // and those of them that waited for room
	reads, writes    rate
}

// shortest is how long a write waits for room at least that counts as delayed.
const shortest = time.Millisecond

// hit counts bytes that were read from the journal.
func (t *traffic) hit(bytes int) {
	t.hits += int64(bytes)
	t.reads.add(bytes, time.Now())
}

// miss counts bytes that were read from the remote.
func (t *traffic) miss(bytes int) {
	t.misses += int64(bytes)
	t.reads.add(bytes, time.Now())
}

// write counts bytes that were written, after so long a wait for room.
func (t *traffic) write(bytes int64, waited time.Duration) {
	t.written += bytes
	if waited >= shortest {
		t.delayed += bytes
	}
	t.writes.add(int(bytes), time.Now())
}

func (t *traffic) describe(s *calls.Status) {
	s.Hits, s.Misses, s.Written, s.Delayed = t.hits, t.misses, t.written, t.delayed
	s.ReadRate, s.WriteRate = t.reads.now(time.Now()), t.writes.now(time.Now())
}

// rate is a mean of the last seconds, in bytes per second, in which older bytes weigh less.
type rate struct {
	perSec float64
	at     time.Time
}

// weighs is how long bytes weigh: after it, 1/e of their weight is left.
const weighs = 5 * time.Second

func (r *rate) left(now time.Time) float64 {
	return r.perSec * math.Exp(-now.Sub(r.at).Seconds()/weighs.Seconds())
}

func (r *rate) add(bytes int, now time.Time) {
	r.perSec, r.at = r.left(now)+float64(bytes)/weighs.Seconds(), now
}

// now is the rate at a time.
func (r *rate) now(now time.Time) int64 { return int64(math.Round(r.left(now))) }
