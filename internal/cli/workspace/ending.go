package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// SayEnding prints how a run ended.
func (a *Workspace) SayEnding(ctx context.Context, run state.Run, s *Session) {
	took := console.DurationText(run.Ended.Sub(run.Created))
	switch run.State {
	case state.Succeeded:
		a.Say("run %s succeeded after %s%s", run.ID, took, s.resultsText(ctx, run))
	case state.Stopped:
		a.Say("run %s was stopped after %s%s", run.ID, took, s.resultsText(ctx, run))
	case state.Suspended:
		a.Say("run %s is suspended: %s\n     %s", run.ID, run.Message, run.Remedy)
	case state.SetAside:
		a.Say("run %s is set aside: %s\n     %s", run.ID, run.Message, run.Remedy)
	default:
		a.PrintError(&core.Error{Kind: core.KindNamed(run.Kind), Op: "run", Object: run.ID, Err: errors.New(run.Message), Remedy: run.Remedy})
		attempts, err := s.Store.Attempts(ctx, run.ID)
		logs := ""
		if err != nil || len(attempts) > 0 {
			logs = ", `bee logs " + run.ID + "` shows its output"
		}
		for _, o := range OutputsAtHome(attempts) {
			a.On(a.Stderr).SayBelow("Its outputs are in %s: %s.", ShortPath(o.To), ArrivedText(o))
		}
		a.On(a.Stderr).SayBelow("`bee show %s` tells more%s.", run.ID, logs)
	}
}

// resultsText says where the outputs are, as far as any have come.
func (s *Session) resultsText(ctx context.Context, run state.Run) string {
	if volume := control.UnnamedVolume(s.Store.RunDir(run.ID)); There(volume) {
		return "; not all of its outputs could be brought home, and its volume is kept in " + volume
	}
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return ""
	}
	var dirs []string
	for _, o := range OutputsAtHome(attempts) {
		dirs = append(dirs, ShortPath(o.To))
	}
	if len(dirs) == 0 {
		return ""
	}
	return "; results are in " + strings.Join(dirs, ", ")
}

// OutputsAtHome are those of the last attempt that has left any.
func OutputsAtHome(attempts []state.Attempt) []state.Arrived {
	for _, at := range slices.Backward(attempts) {
		if len(at.Outputs) > 0 {
			return at.Outputs
		}
	}
	return nil
}

// ArrivedText names what has been collected, but for the many.
func ArrivedText(o state.Arrived) string {
	const most = 6
	text := strings.Join(o.Names[:min(len(o.Names), most)], ", ")
	if more := o.Count - min(len(o.Names), most); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Silence is how long nothing need be printed of a run that takes its time.
const Silence = 2 * time.Second

// TidyingText says what a controller does with a suspended run.
const TidyingText = "what it has left on its sites is being removed"
