package core

import "slices"

// Phase names a part of an attempt's time. `bee show` prints the seconds of each.
type Phase string

// The phases in their usual order. The controller times those before
// PhaseJoin and after PhaseRun, the head those between.
const (
	PhaseAcquire    Phase = "acquire"
	PhaseQueue      Phase = "queue" // until the site has hosts
	PhaseStage      Phase = "stage"
	PhaseLaunch     Phase = "launch"
	PhaseJoin       Phase = "join"
	PhaseImage      Phase = "image"
	PhaseStart      Phase = "start" // containers
	PhaseSetup      Phase = "setup"
	PhaseRun        Phase = "run"
	PhasePost       Phase = "post"
	PhaseDrain      Phase = "drain"      // the burst buffer, at the end of the job
	PhaseCheckpoint Phase = "checkpoint" // the job writes it
	PhaseUnattended Phase = "unattended" // the attempt is over, and no controller runs
	PhaseCollect    Phase = "collect"
	PhaseRelease    Phase = "release"
)

// Phases returns all phases in their usual order.
func Phases() []Phase {
	return []Phase{PhaseAcquire, PhaseQueue, PhaseStage, PhaseLaunch, PhaseJoin, PhaseImage, PhaseStart, PhaseSetup, PhaseRun, PhasePost, PhaseDrain, PhaseCheckpoint, PhaseUnattended, PhaseCollect, PhaseRelease}
}

// After reports whether the phase comes after another one, in their usual order.
func (p Phase) After(o Phase) bool {
	all := Phases()
	return slices.Index(all, p) > slices.Index(all, o)
}

// UnmarshalText implements encoding.TextUnmarshaler. Records and results older than 0.1.0
// have other names.
func (p *Phase) UnmarshalText(text []byte) error {
	switch *p = Phase(text); *p {
	case "save":
		*p = PhaseCheckpoint
	case "away":
		*p = PhaseUnattended
	case "fetch":
		*p = PhaseCollect
	}
	return nil
}
