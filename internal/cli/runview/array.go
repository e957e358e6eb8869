package runview

import (
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/state"
)

// Array is an array of runs in JSON: how many of its cases are in which state.
type Array struct {
	ID      string                 `json:"id"`
	Name    string                 `json:"name"`
	State   state.RunState         `json:"state"`
	Created time.Time              `json:"created"`
	Ended   *time.Time             `json:"ended,omitempty"`
	Cases   int                    `json:"cases"`
	States  map[state.RunState]int `json:"states"`
}

// OfArray is an array as JSON has it.
func OfArray(a state.Array) Array {
	v := Array{ID: a.ID, Name: a.Name, State: a.State(), Created: a.Created, Cases: a.Cases(), States: a.States}
	if v.State.Final() {
		v.Ended = timePointer(a.Ended)
	}
	return v
}

// Folded is an array as one line among runs.
func Folded(a state.Array, nodes int) View {
	v := OfArray(a)
	return View{ID: v.ID, Name: v.Name, State: v.State, Created: v.Created, Ended: v.Ended, Nodes: nodes, Attempts: []Attempt{}, Why: ArrayText(a)}
}

// ArrayText is how far an array is.
func ArrayText(a state.Array) string {
	if a.Cases() == 1 {
		return "1 case, " + string(a.State())
	}
	text := fmt.Sprintf("%d of %s over", a.Over(), console.CountText(a.Cases(), "case"))
	for _, s := range []state.RunState{state.Running, state.Suspended, state.SetAside, state.Failed, state.Stopped} {
		if n := a.States[s]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, s)
		}
	}
	return text
}
