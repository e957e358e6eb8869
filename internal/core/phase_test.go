package core

import (
	"encoding/json"
	"maps"
	"testing"
)

// TestEarlierNamesOfPhases: records of attempts keep their times under today's names.
func TestEarlierNamesOfPhases(t *testing.T) {
	var r struct{ Phases map[Phase]int }
	if err := json.Unmarshal([]byte(`{"Phases": {"run": 1, "save": 2, "away": 3, "fetch": 4}}`), &r); err != nil {
		t.Fatal(err)
	}
	if want := map[Phase]int{PhaseRun: 1, PhaseCheckpoint: 2, PhaseUnattended: 3, PhaseCollect: 4}; !maps.Equal(r.Phases, want) {
		t.Errorf("got %v, want %v", r.Phases, want)
	}
}
