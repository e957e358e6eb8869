package retention

import (
	"context"
	"time"
)

// removeTimeout bounds how long a run that has succeeded waits for its store.
const removeTimeout = time.Minute

// Remove removes what the run has in its store, and returns how many checkpoints and bytes
// those were. With adopted, the run's record stays in the store: the installation that began
// the run learns from it who has the run.
func (c *Checkpoints) Remove(ctx context.Context, adopted bool) (count int, bytes int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	list, err := c.All(ctx)
	if err == nil && len(list) == 0 {
		return 0, 0, nil
	}
	for _, k := range list {
		bytes += k.Manifest.Bytes
	}
	store, serr := c.Known(ctx)
	if err == nil {
		err = serr
	}
	if err == nil {
		err = store.Remove(ctx)
	}
	if err == nil && adopted {
		err = c.Note(ctx, store)
	}
	if err == nil {
		err = c.Remember(nil)
	}
	return len(list), bytes, err
}
