package recordcmd

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/state"
)

// showJob prints what a run was submitted as.
func showJob(row func(name, format string, args ...any), v runview.View) {
	optional := func(name, text string) {
		if text != "" {
			row(name, "%s", text)
		}
	}
	switch {
	case v.ImageName != "":
		row("image", "%s", v.ImageName)
		optional("digest", v.Image)
	case v.Built != "":
		row("image", "built %s", v.Built)
		optional("digest", v.Image)
	default:
		row("image", "%s", console.OrDash(v.Image))
	}
	optional("command", commandText(v.Command))
	optional("env", pairsText(v.Env, " "))
	optional("secrets", strings.Join(v.Secrets, " "))
	optional("labels", pairsText(v.Labels, ", "))
	optional("beefile", v.Beefile)
	optional("directory", v.Directory)
	switch {
	case v.User != "" && v.Version != "":
		row("submitted", "by %s, with bee %s", v.User, v.Version)
	case v.User != "":
		row("submitted", "by %s", v.User)
	}
}

// commandText is a command as one would type it.
func commandText(argv []string) string {
	if len(argv) == 3 && argv[0] == "/bin/sh" && argv[1] == "-c" {
		return argv[2]
	}
	return shell.Words(argv)
}

func pairsText(pairs map[string]string, between string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		text := fmt.Sprintf("%s=%s", key, shell.Word(pairs[key]))
		if pairs[key] == "" {
			text = key + "="
		}
		list = append(list, text)
	}
	return strings.Join(list, between)
}

// printBeefile prints a run's job, as bee run takes it.
func (a *Commands) printBeefile(run state.Run) error {
	text, err := beefileOf(run)
	if err == nil {
		_, err = a.Stdout.Write(text)
	}
	return err
}

func beefileOf(run state.Run) ([]byte, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return nil, err
	}
	return sub.Job.Beefile()
}
