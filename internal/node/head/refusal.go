package head

import (
	"context"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// lookRefused is how often the head looks whether the remote of a burst buffer refuses changes.
const lookRefused = 2 * time.Second

// BurstRefusal is why the remote of a burst buffer refuses changes; zero: it does not.
type BurstRefusal struct {
	// Reason is a word, the same as long as the reason is.
	Reason string
	Err    error // with a remedy
}

// watch remarks, until endWatch, that the remote of the volume refuses changes, and that it does no more.
func (v *burstVolume) watch(b Burst) {
	ctx, cancel := context.WithCancel(context.Background())
	v.seen = cancel
	v.watching.Go(func() { v.remarkRefusals(ctx, b, lookRefused) })
}

// endWatch returns once nothing more is remarked.
func (v *burstVolume) endWatch() {
	if v.seen != nil {
		v.seen()
	}
	v.watching.Wait()
}

func (v *burstVolume) remarkRefusals(ctx context.Context, b Burst, every time.Duration) {
	for remarked := ""; core.Sleep(ctx, every) == nil; {
		r, err := b.Refused(ctx)
		if err != nil || r.Reason == remarked { // its I/O process is started again
			continue
		}
		remarked = r.Reason
		text := "the remote of the volume accepts changes again"
		if r.Err != nil {
			text = strings.TrimSpace("warning: " + r.Err.Error() + ". " + core.Remedy(r.Err))
		}
		v.journal.Remark(core.PhaseRun, text)
	}
}
