package head

import (
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
)

// reportNotes reports to the user what nodes note about their hosts, once for all hosts with
// the same note.
func (h *Head) reportNotes(byRank [][]string) {
	var order []string
	ranks := map[string][]int{}
	for rank, notes := range byRank {
		for _, text := range notes {
			if ranks[text] == nil {
				order = append(order, text)
			}
			ranks[text] = append(ranks[text], rank)
		}
	}
	for _, text := range order {
		h.journal.Say(core.PhaseStart, "note: on "+h.hosts.listNames(ranks[text])+": "+core.Printable(text, peercall.MaxText))
	}
}
