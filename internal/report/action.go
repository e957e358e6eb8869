package report

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/state"
)

// Action is what the user of a run can ask of it now.
type Action struct {
	Name ActionName `json:"name"`
	// Does is what the action will do.
	Does string `json:"does"`
	// Attempt is the one that it is for; 0: the run has had none.
	Attempt int `json:"attempt"`
	// Site is whether a site may be chosen.
	Site SiteChoice `json:"site,omitempty"`
	// Sites are those that may be.
	Sites []string `json:"sites,omitempty"`
}

// ActionName is the name of an action.
type ActionName string

// The actions. Each is a command; ActionAgain is `bee run --again`.
const (
	ActionStop       ActionName = "stop"
	ActionCheckpoint ActionName = "checkpoint"
	ActionMove       ActionName = "move"
	ActionResume     ActionName = "resume"
	ActionAgain      ActionName = "again"
)

// SiteChoice is whether an action is for a site.
type SiteChoice string

// The choices.
const (
	NoSite   SiteChoice = ""
	MaySite  SiteChoice = "may"
	MustSite SiteChoice = "must"
)

// Saving is how the job of a run writes a checkpoint while it runs.
type Saving int

// The ways.
const (
	NoSaving Saving = iota
	SavesAndEnds
	SavesAndContinues
	SavesMachines
)

// does are what a checkpoint does to the job.
var does = map[Saving]string{
	SavesAndEnds:      "The job is asked to write its checkpoint and to end. The run continues from it in another attempt, on the next site that can take it.",
	SavesAndContinues: "The files of the job's checkpoint are copied from site %s. The job continues there.",
	SavesMachines:     "The virtual machines on site %s are halted while they are saved. The job continues there afterwards.",
}

// ActionsOf returns what the user of a run can ask of it. Sites are those of the sites file.
func ActionsOf(r state.Run, attempts []state.Attempt, saving Saving, sites []string) []Action {
	var last state.Attempt
	if n := len(attempts); n > 0 {
		last = attempts[n-1]
	}
	switch {
	case r.State.Final():
		return []Action{{Name: ActionAgain, Attempt: last.N, Does: "A new run of the same job begins in the background, from its beginning. Its outputs go to the same places. This run stays as it is."}}
	case r.Case.Pack != "": // its pack has the hosts
		return nil
	}
	list := []Action{{Name: ActionStop, Attempt: last.N, Does: stopText(r, last)}}
	var others []string
	for _, s := range sites {
		if r.State.Resumable() || s != last.Site || last.Decided() {
			others = append(others, s)
		}
	}
	switch {
	case r.State.Resumable():
		list = append(list, Action{Name: ActionResume, Attempt: last.N, Site: MaySite, Sites: others, Does: fmt.Sprintf("The run continues in the background as attempt %d, from its checkpoint if it has one. It is placed on the first site that can take it.", last.N+1)})
	case last.State == state.Computing && saving != NoSaving:
		text := does[saving]
		if saving != SavesAndEnds {
			text = fmt.Sprintf(text, last.Site)
		}
		list = append(list, Action{Name: ActionCheckpoint, Attempt: last.N, Does: text},
			Action{Name: ActionMove, Attempt: last.N, Site: MaySite, Sites: others, Does: fmt.Sprintf("The job on site %s is asked for a checkpoint, and ends there. The run continues from it in another attempt, on the next site that can take it.", last.Site)})
	case (last.N == 0 || !last.Launched() || last.Decided()) && len(others) > 0:
		list = append(list, Action{Name: ActionMove, Attempt: last.N, Site: MustSite, Sites: others, Does: "The run waits for its hosts no longer where it does. It is sent to the site that you choose, before its other ones."})
	}
	return list
}

// stopText is what a stop does to a run.
func stopText(r state.Run, last state.Attempt) string {
	switch {
	case r.State.Resumable():
		return "The run ends, and does not continue from its checkpoint."
	case last.N == 0 || last.Decided():
		return "The run ends. It has no hosts now."
	case !last.Launched():
		return fmt.Sprintf("The run gives up its place at site %s, and ends. The job has not begun there.", last.Site)
	}
	return fmt.Sprintf("The job on site %s gets TERM, and KILL after a grace. Existing outputs are collected, and the hosts are released. The run does not continue afterwards.", last.Site)
}
