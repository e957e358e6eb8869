package head

import (
	"context"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/plan"
	"golang.org/x/sys/unix"
)

// slot is the time that an attempt has.
type slot struct {
	mu   sync.Mutex
	site time.Time // when the site takes its hosts back; zero: not known
	ends time.Time // that, or before it the end of what the user grants
}

// extend follows a site that takes its hosts back later than it had reported, as it has
// halted them: that time counts neither for the site nor for the user. Who reports
// this knows that nobody takes the attempt for ended before.
func (s *slot) extend(site time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if later := site.Sub(s.site); !s.site.IsZero() && later > 0 {
		s.site, s.ends = site, s.ends.Add(later)
	}
}

// left is what is left of it.
func (s *slot) left() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Until(s.ends)
}

// Times of looking at what is left of the slot. How often the size of a data image is
// asked for; by how much later than it wanted the head wakes up where it has stood
// still; and how long it then waits for word of how much later the slot ends, before
// it believes that it does not.
const (
	lookAtImage = 10 * time.Second
	stoodStill  = 5 * time.Second
	wordTimeout = 30 * time.Second
	lookForWord = 200 * time.Millisecond
)

// endBefore ends the attempt because its slot does, so long before, and as much longer
// as its volume needs to be unloaded.
func (h *Head) endBefore(ctx context.Context, margin, grace time.Duration) {
	var word time.Time // is waited for until then
	for {
		need := margin
		if h.plan.UsesDataImage() && !h.plan.SavesVM() { // else it is saved with its machine
			var st unix.Stat_t
			if unix.Stat(plan.VolumeImagePath(h.config.Host.Dir), &st) == nil {
				need += time.Duration(st.Blocks*512/unloadSpeed) * time.Second
			}
		}
		pause := min(h.slot.left()-need, lookAtImage)
		if pause <= 0 {
			if time.Now().After(word) {
				h.end.stop(errSlotEnds, grace)
				return
			}
			pause = lookForWord
		}
		asleep := time.Now()
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if h.notices != nil && time.Since(asleep) > pause+stoodStill {
			word = time.Now().Add(min(wordTimeout, margin/2))
		}
	}
}
