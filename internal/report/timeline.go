package report

import (
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// Stretch is an attempt in a time line.
type Stretch struct {
	Attempt int
	Site    string
	// Began and Ended bound it; of an attempt that is not over, Ended is now.
	Began, Ended time.Time
	// Parts are what its time went to, in the usual order of phases. Neighbours of one use
	// are one part. A rest without a phase is the last part.
	Parts []Part
}

// Part is a part of an attempt's time.
type Part struct {
	On   Use
	Took time.Duration
}

// TimeLine returns the attempts of a run with the parts of their time.
func TimeLine(r state.Run, attempts []state.Attempt, now time.Time) []Stretch {
	var list []Stretch
	for _, at := range attempts {
		s := Stretch{Attempt: at.N, Site: at.Site, Began: at.Started, Ended: at.Ended}
		if s.Ended.IsZero() {
			s.Ended = now
			if !r.Ended.IsZero() {
				s.Ended = r.Ended
			}
		}
		for _, p := range core.Phases() {
			s.add(phaseOf(p), at.Phases[p])
		}
		rest := OnOther
		switch {
		case at.Ended.IsZero() && r.Ended.IsZero():
			rest = OnCurrent
		case at.Launched() && at.Nodes == nil, at.Result == state.Unreported:
			rest = OnLoss
		}
		nameless := at.Nameless(s.Ended)
		if nameless < 0 { // the image is looked for before the attempt begins
			s.Began = s.Began.Add(nameless)
		}
		s.add(rest, nameless)
		list = append(list, s)
	}
	return list
}

func (s *Stretch) add(on Use, took time.Duration) {
	if took <= 0 {
		return
	}
	if last := len(s.Parts) - 1; last >= 0 && s.Parts[last].On == on {
		s.Parts[last].Took += took
		return
	}
	s.Parts = append(s.Parts, Part{on, took})
}

// StateText returns what the state of a run means, in one sentence.
func StateText(r state.Run) string {
	switch r.State {
	case state.Queued:
		return "The run waits, and has no site that computes."
	case state.Running:
		return "The run computes."
	case state.Suspended:
		if r.Suspended == state.ReasonTicket {
			return "The run is suspended here: it continues on its site, and the machine that has its ticket fetches it."
		}
		return "The run is suspended: it has no site now, and continues from its checkpoint once it is resumed."
	case state.SetAside:
		return "The run is set aside: no controller continues it until its user resumes it."
	case state.Succeeded:
		return "The run succeeded: its command ended with exit code 0."
	case state.Stopped:
		return "The run was stopped by its user."
	}
	if r.ExitCode != nil {
		return "The run failed: its command ended with exit code " + strconv.Itoa(*r.ExitCode) + "."
	}
	return "The run failed before its command ended."
}
