package console

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/pflag"
)

// Trust is whether the user answers for what a Beefile or record does on this machine
// outside of its own directory.
type Trust struct{ given bool }

// Flag adds --trust to the flags of a command.
func (t *Trust) Flag(f *pflag.FlagSet, of string) {
	f.BoolVar(&t.given, "trust", false, "allow "+of+" to leave its own directory, without asking")
}

// mostReaches bounds what is shown of a user's own Beefile, of which cases may have many.
const mostReaches = 20

// Allow shows what a job does on this machine outside of its own directory. Where someone
// else may have written it, as strange says, the user has to agree.
func (a *Console) Allow(what, strange string, reaches []spec.Reach, t Trust, quiet bool) error {
	if len(reaches) == 0 {
		return nil
	}
	lines := make([]string, len(reaches))
	for i, r := range reaches {
		lines[i] = strings.ReplaceAll(output.Printable(r.String()), "\n", `\n`)
	}
	if strange == "" {
		if n := len(lines); n > mostReaches {
			lines = append(lines[:mostReaches], fmt.Sprintf("and %d more", n-mostReaches))
		}
		if !quiet {
			a.Say("outside of its directory, %s: %s", what, strings.Join(lines, "; "))
		}
		return nil
	}
	a.Say("%s may be another user's (%s). Outside of its directory, it does this:", what, strange)
	for _, line := range lines {
		a.On(a.Stderr).SayBelow("%s", line)
	}
	if t.given {
		return nil
	}
	refused := &core.Error{
		Kind: core.Invalid, Op: "trust", Object: what, Err: errors.New("it leaves its own directory, and nobody has agreed"),
		Remedy: "Read it. If that is what you want, give --trust, or answer yes on a terminal.",
	}
	if OnTerminal() && a.Agrees("Shall it?") {
		return nil
	}
	return refused
}

// ReachesOf are those of a job, as they count where its Beefile may be another user's, or is
// the user's own.
func ReachesOf(job *spec.Job, strange string) []spec.Reach {
	reaches := job.Reaches(job.Dir)
	if strange == "" {
		return spec.OfOwn(job.Dir, reaches)
	}
	return reaches
}

// StrangerOf is why a Beefile may be another user's, or "".
func StrangerOf(file string) string { return strangerText(spec.Stranger(file)) }

// StrangerOfDraft is StrangerOf for a Beefile with the file of its cases.
func StrangerOfDraft(draft *spec.Draft) string { return strangerText(draft.Stranger()) }

func strangerText(why string, err error) string {
	if err != nil {
		return err.Error()
	}
	return why
}
