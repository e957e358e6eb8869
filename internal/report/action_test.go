package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestActions: what can be asked of a run in each state, of which attempt, and with which sites.
func TestActions(t *testing.T) {
	of := func(s state.AttemptState) []state.Attempt {
		return []state.Attempt{{N: 1, Site: "a", State: state.Closed, Result: state.Lost}, {N: 2, Site: "b", State: s}}
	}
	for name, c := range map[string]struct {
		run      state.Run
		attempts []state.Attempt
		saving   Saving
		want     string
	}{
		"placing":      {state.Run{State: state.Queued}, nil, NoSaving, "stop 0, move 0 must a b"},
		"in a queue":   {state.Run{State: state.Queued}, of(state.InQueue), SavesAndEnds, "stop 2, move 2 must a"},
		"computes":     {state.Run{State: state.Running}, of(state.Computing), SavesAndEnds, "stop 2, checkpoint 2, move 2 may a"},
		"continues":    {state.Run{State: state.Running}, of(state.Computing), SavesAndContinues, "stop 2, checkpoint 2, move 2 may a"},
		"in a machine": {state.Run{State: state.Running}, of(state.Computing), SavesMachines, "stop 2, checkpoint 2, move 2 may a"},
		"never saves":  {state.Run{State: state.Running}, of(state.Computing), NoSaving, "stop 2"},
		"is saved":     {state.Run{State: state.Running}, of(state.Checkpointing), SavesAndEnds, "stop 2"},
		"between":      {state.Run{State: state.Queued}, of(state.Closed), SavesAndEnds, "stop 2, move 2 must a b"},
		"suspended":    {state.Run{State: state.Suspended}, of(state.Closed), SavesAndEnds, "stop 2, resume 2 may a b"},
		"set aside":    {state.Run{State: state.SetAside}, of(state.Computing), SavesAndEnds, "stop 2, resume 2 may a b"},
		"over":         {state.Run{State: state.Failed}, of(state.Closed), SavesAndEnds, "again 2"},
		"in a pack":    {state.Run{State: state.Running, Case: state.Case{Pack: "p"}}, nil, NoSaving, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got, texts []string
			for _, a := range ActionsOf(c.run, c.attempts, c.saving, []string{"a", "b"}) {
				got = append(got, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", a.Name, a.Attempt, a.Site, strings.Join(a.Sites, " "))))
				texts = append(texts, a.Does)
			}
			if strings.Join(got, ", ") != c.want {
				t.Errorf("%q, expected %q", strings.Join(got, ", "), c.want)
			}
			testkit.Wording(t, "", strings.Join(texts, "\n"))
		})
	}
}
