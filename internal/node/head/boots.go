package head

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// newsPause is how often people are notified of what is not done yet.
const newsPause = 3 * time.Second

// reportBoots reports to people, until stop is called, how many virtual machines have their container:
// under emulation that takes a minute.
func (h *Head) reportBoots(up *atomic.Int32) (stop func()) {
	begun, over := time.Now(), make(chan struct{})
	go func() {
		news := time.NewTicker(newsPause)
		defer news.Stop()
		for {
			select {
			case <-news.C:
				h.journal.Add(plan.Event{Phase: core.PhaseStart, Rank: -1, Message: bootText(int(up.Load()), h.config.Size, h.node.Emulates()), Waited: time.Since(begun)})
			case <-over:
				return
			}
		}
	}()
	return func() { close(over) }
}

func bootText(ready, size int, emulated bool) string {
	how := ""
	if emulated {
		how = " in software emulation"
	}
	return fmt.Sprintf("starting virtual machines%s: %d of %d ready", how, ready, size)
}
