package head

import (
	"fmt"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
)

// notices are what the site has announced of its hosts.
type notices struct {
	mu sync.Mutex
	// maintenance has the timers of hosts that the site stops for maintenance, by rank.
	maintenance map[int]*time.Timer
	// leaving is locked while a checkpoint is taken as the site has recommended to leave a host.
	leaving sync.Mutex
}

// Notice acts on what the site announces of the host of a node.
func (h *Head) Notice(rank int, n peercall.Notice) {
	left := time.Duration(n.Seconds * float64(time.Second))
	switch n.Kind {
	case peercall.Reclaim:
		h.TakenBack(left)
	case peercall.Maintenance:
		h.announced.maintained(h, rank, left)
	case peercall.Rebalance:
		go h.announced.recommended(h, rank)
	}
}

// maintained ends the attempt in time for its checkpoint before the site stops a host for maintenance. A later notice
// of the host replaces the earlier one.
func (n *notices) maintained(h *Head, rank int, left time.Duration) {
	need := max(leastGrace, saveGrace(h.plan)+h.plan.Grace)
	if c := h.plan.Checkpoint; c != nil {
		need = max(need, c.Margin)
	}
	end := time.AfterFunc(max(0, left-need), func() { h.TakenBack(min(left, need)) })
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.maintenance[rank]; old != nil {
		old.Stop()
	}
	if n.maintenance == nil {
		n.maintenance = map[int]*time.Timer{}
	}
	n.maintenance[rank] = end
	h.journal.Remark(core.PhaseRun, fmt.Sprintf("the site stops %s for maintenance in %s: the job is asked to save itself before", h.hosts.listNames([]int{rank}), left.Round(time.Second)))
}

// Times of a checkpoint that is taken as the site has recommended to leave a host.
const (
	leavePause = 10 * time.Second
	leaveTries = 30
)

// recommended takes a checkpoint of the job, where that can be done while the job runs: the attempt does not end. One
// that cannot be taken yet is tried again.
func (n *notices) recommended(h *Head, rank int) {
	if !n.leaving.TryLock() {
		return // one is taken now
	}
	defer n.leaving.Unlock()
	text := "the cloud recommends to leave " + h.hosts.listNames([]int{rank})
	if c := h.plan.Checkpoint; c == nil || !continues(h.plan) {
		h.journal.Remark(core.PhaseRun, text+": no checkpoint is taken, as the job has no way to write one while it runs")
		return
	}
	h.journal.Remark(core.PhaseRun, text+": a checkpoint is taken, and the job continues")
	var err error
	for range leaveTries {
		if _, err = h.saver.askCheckpoint(h.end.over, false); !core.IsKind(err, core.Transient) || core.Sleep(h.end.over, leavePause) != nil {
			break
		}
	}
	if err != nil && h.end.over.Err() == nil {
		h.journal.Remark(core.PhaseRun, "warning: no checkpoint was taken: "+err.Error())
	}
}
