package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/pflag"
)

// trust is whether the user answers for what a Beefile or record does on this machine
// outside of its own directory.
type trust struct{ given bool }

func (t *trust) flag(f *pflag.FlagSet, of string) {
	f.BoolVar(&t.given, "trust", false, "allow "+of+" to leave its own directory, without asking")
}

// allow shows what a job does on this machine outside of its own directory. Where someone
// else may have written it, as strange says, the user has to agree.
func (a *app) allow(what, strange string, reaches []spec.Reach, t trust, quiet bool) error {
	if len(reaches) == 0 {
		return nil
	}
	lines := make([]string, len(reaches))
	for i, r := range reaches {
		lines[i] = strings.ReplaceAll(printable(r.String()), "\n", `\n`)
	}
	if strange == "" {
		if !quiet {
			a.say("outside of its directory, %s: %s", what, strings.Join(lines, "; "))
		}
		return nil
	}
	a.say("%s may be another user's (%s). Outside of its directory, it does this:", what, strange)
	for _, line := range lines {
		a.on(a.stderr).SayBelow("%s", line)
	}
	if t.given {
		return nil
	}
	refused := &core.Error{
		Kind: core.Invalid, Op: "trust", Object: what, Err: errors.New("it leaves its own directory, and nobody has agreed"),
		Remedy: "Read it. If that is what you want, give --trust, or answer yes on a terminal.",
	}
	if !onTerminal() {
		return refused
	}
	fmt.Fprint(a.stderr, "Shall it? [y/N] ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if answer = strings.ToLower(strings.TrimSpace(answer)); err == nil && (answer == "y" || answer == "yes") {
		return nil
	}
	return refused
}

// reachesOf are those of a job, as they count where its Beefile may be another user's, or is
// the user's own.
func reachesOf(job *spec.Job, strange string) []spec.Reach {
	reaches := job.Reaches(job.Dir)
	if strange == "" {
		return spec.OfOwn(job.Dir, reaches)
	}
	return reaches
}

// strangerOf is why a Beefile may be another user's, or "".
func strangerOf(file string) string {
	why, err := spec.Stranger(file)
	if err != nil {
		return err.Error()
	}
	return why
}

// foreign is how a record of another user becomes a run here: what it may use without
// the user's word is in the current directory.
func (a *app) foreign(what, strange string, t trust) control.Foreign {
	return control.Foreign{
		Dir:   workingDir(),
		Allow: func(reaches []spec.Reach) error { return a.allow(what, strange, reaches, t, false) },
	}
}
