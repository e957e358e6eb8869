package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// refuseWrongArguments has every command say in our words, kind and exit code
// what is wrong with its arguments: cobra's own errors have neither kind nor
// remedy.
func refuseWrongArguments(c *cobra.Command) {
	if accepts := c.Args; accepts != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if accepts(c, args) == nil {
				return nil
			}
			return wrongArguments(c, args)
		}
	}
	for _, sub := range c.Commands() {
		refuseWrongArguments(sub)
	}
}

// wrongFlags is the error of flags that cannot be read, without the words of
// Go's own parsers.
func wrongFlags(c *cobra.Command, err error) error {
	remedy := "`" + c.CommandPath() + " --help` lists them."
	if hint := flagHint(c, err); hint != "" {
		remedy = hint + " " + remedy
	}
	if value, _, is := strings.Cut(err.Error(), ": strconv.ParseInt:"); is {
		err = errors.New(value + ": it is no whole number")
	} else if value, _, is := strings.Cut(err.Error(), ": time: "); is {
		err = errors.New(value + ": it is no duration (such as 90s, 15m or 2h30m)")
	}
	return &core.Error{
		Kind: core.Invalid, Op: "read flags of", Object: c.CommandPath(), Err: err,
		Remedy: remedy,
	}
}

// elsewhere are the words by which other tools call what our commands do.
var elsewhere = map[string][]string{
	"check":   {"validate", "lint"},
	"init":    {"new", "scaffold", "generate"},
	"cp":      {"copy", "scp", "sbcast", "rsync"},
	"doctor":  {"sinfo", "pbsnodes", "diagnose"},
	"exec":    {"shell", "enter", "sattach"},
	"forward": {"port-forward", "tunnel", "proxy"},
	"image":   {"images", "pull", "push", "load", "save", "rmi", "build"},
	"logs":    {"tail", "attach", "output"},
	"ps":      {"list", "jobs", "status", "squeue", "qstat", "sacct", "container"},
	"rm":      {"delete", "remove"},
	"run":     {"submit", "start", "sbatch", "qsub", "srun", "salloc", "launch", "create", "apply"},
	"show":    {"inspect", "history", "status", "describe", "scontrol"},
	"stats":   {"top", "sstat", "usage"},
	"stop":    {"kill", "cancel", "scancel", "qdel"},
	"sweep":   {"clean", "cleanup", "gc"},
}

// newHelpCommand is cobra's own, but for the words about commands that there are
// not, and its exit code.
func newHelpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command", ValidArgsFunction: completeCommands,
		RunE: func(_ *cobra.Command, args []string) error {
			c, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return wrongArguments(c, rest)
			}
			c.InitDefaultHelpFlag()
			return c.Help()
		},
	}
}

func wrongArguments(c *cobra.Command, args []string) error {
	path := c.CommandPath()
	e := &core.Error{Kind: core.Invalid, Op: "read arguments of", Object: path, Remedy: "`" + path + " --help` tells more."}
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case c.HasSubCommands():
		e.Err = fmt.Errorf("it has no command %q", args[0])
		e.Remedy = "`" + path + " --help` lists its commands."
		c.SuggestionsMinimumDistance = 2
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			e.Remedy = fmt.Sprintf("Did you mean %s? %s", strings.Join(near, " or "), e.Remedy)
		}
	case takes == "":
		e.Err = fmt.Errorf("it takes none, and was given %s", strings.Join(args, " "))
	case len(args) == 0:
		e.Err = fmt.Errorf("it takes %s, and was given nothing", takes)
	default:
		e.Err = fmt.Errorf("it takes %s, and was given %s", takes, strings.Join(args, " "))
	}
	return e
}
