package attempt

import (
	"fmt"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/state"
)

// Markdown returns the table as a diagram and a table for docs.
func Markdown() string {
	var b strings.Builder
	b.WriteString("```mermaid\nstateDiagram-v2\n  [*] --> acquiring\n")
	for _, s := range state.AttemptStates() {
		for _, e := range edges(s) {
			fmt.Fprintf(&b, "  %s --> %s: %s\n", s, e.to, strings.Join(e.on, ", "))
		}
	}
	b.WriteString("  closed --> [*]\n```\n\n| state | computes | event → next state | ignored as repeated |\n|---|---|---|---|\n")
	for _, s := range state.AttemptStates() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", s, computesText(s), changes(s), list(machine[s].ignored))
	}
	b.WriteString("\n| state | event that cannot come there | reason |\n|---|---|---|\n")
	for _, s := range state.AttemptStates() {
		for _, e := range Events() {
			if p, has := machine[s].moves[e]; has && p.plain.Impossible != "" {
				fmt.Fprintf(&b, "| %s without autostart | %s | %s |\n", s, e, p.plain.Impossible)
			} else if has && p.autostart.Impossible != "" {
				fmt.Fprintf(&b, "| %s with autostart | %s | %s |\n", s, e, p.autostart.Impossible)
			}
		}
		for _, why := range machine[s].impossible {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", s, list(why.events), why.text)
		}
	}
	return b.String()
}

// edge is all events that lead from a state to another one.
type edge struct {
	to State
	on []string
}

func edges(s State) []edge {
	var all []edge
	for _, autostart := range []state.Autostart{state.NoAutostart, state.Enabled} {
		for _, e := range Events() {
			entry, _ := Find(s, autostart, e)
			if entry.Next == "" || entry.Next == s {
				continue
			}
			at := slices.IndexFunc(all, func(x edge) bool { return x.to == entry.Next })
			if at < 0 {
				at, all = len(all), append(all, edge{to: entry.Next})
			}
			if !slices.Contains(all[at].on, string(e)) {
				all[at].on = append(all[at].on, string(e))
			}
		}
	}
	return all
}

// changes lists what events lead to, those of an autostart apart.
func changes(s State) string {
	var parts []string
	stays := map[string][]string{}
	for _, e := range Events() {
		p, has := machine[s].moves[e]
		if !has {
			continue
		}
		switch plain, autostart := p.plain.Next, p.autostart.Next; {
		case plain == autostart && plain == s:
			stays[""] = append(stays[""], string(e))
		case plain == autostart:
			parts = append(parts, fmt.Sprintf("%s → %s", e, plain))
		case plain == "":
			parts = append(parts, fmt.Sprintf("%s → %s with autostart", e, autostart))
		case autostart == "":
			parts = append(parts, fmt.Sprintf("%s → %s without autostart", e, plain))
		default:
			parts = append(parts, fmt.Sprintf("%s → %s, with autostart %s", e, plain, autostart))
		}
	}
	if same := stays[""]; len(same) > 0 {
		parts = append(parts, "stays: "+strings.Join(same, ", "))
	}
	return strings.Join(parts, " · ")
}

func list(events []Event) string {
	words := make([]string, len(events))
	for i, e := range events {
		words[i] = string(e)
	}
	return strings.Join(words, ", ")
}
