// Package usage words what is wrong with arguments and flags, and knows the
// commands and flags of other tools that people type instead of bee's. It
// opens nothing but a file that an argument names.
package usage

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// RefuseWrongArguments gives the errors of each command about its arguments, and about
// flags that exclude or need each other, a kind and a remedy: cobra's own have neither.
func RefuseWrongArguments(c *cobra.Command) {
	if accepts := c.Args; accepts != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := accepts(c, args); core.Remedy(err) != "" {
				return err
			} else if err != nil {
				return WrongArguments(c, args)
			}
			if err := errors.Join(c.ValidateRequiredFlags(), c.ValidateFlagGroups()); err != nil {
				return WrongFlags(c, err)
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		RefuseWrongArguments(sub)
	}
}

// WrongFlags returns the error for flags that cannot be read, without the words of
// Go's own parsers.
func WrongFlags(c *cobra.Command, err error) error {
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

// Elsewhere are the words by which other tools call what our commands do.
var Elsewhere = map[string][]string{
	"check":   {"validate", "lint"},
	"init":    {"new", "scaffold", "generate"},
	"cp":      {"copy", "scp", "sbcast", "rsync", "put"},
	"doctor":  {"sinfo", "pbsnodes", "diagnose"},
	"exec":    {"shell", "enter", "sattach"},
	"forward": {"port-forward", "tunnel", "proxy", "port"},
	"image":   {"images", "pull", "push", "load", "save", "rmi", "build", "tag"},
	"logs":    {"tail", "attach", "output", "log"},
	"ps":      {"list", "job", "jobs", "status", "queue", "squeue", "qstat", "sacct", "container", "containers", "get"},
	"rm":      {"delete", "remove", "prune"},
	"run":     {"submit", "start", "sbatch", "qsub", "srun", "salloc", "launch", "create", "apply"},
	"show":    {"inspect", "history", "status", "describe", "scontrol"},
	"stats":   {"top", "sstat", "usage"},
	"stop":    {"kill", "cancel", "scancel", "qdel", "down"},
	"sweep":   {"clean", "cleanup", "gc"},
}

// instead are commands of other tools that no single command of bee replaces.
var instead = map[string]string{ // a table
	"compose": fromCompose,
	"up":      fromCompose,
	"config":  whereSitesAre,
	"site":    whereSitesAre,
	"sites":   whereSitesAre,
	"login":   "Log in by `docker login` or `podman login`: bee finds their credentials.",
	"restart": "`bee run --again RUN` repeats a run, and `bee resume RUN` continues a suspended one.",
	"watch":   "`bee ps --watch` shows the list of runs again and again.",
}

const (
	fromCompose   = "`bee init --from compose.yaml` makes a Beefile of a compose file with one service."
	whereSitesAre = "Sites are in a file: `bee init --sites` writes one, and `bee info` shows where it is."
)

// nearCommands returns the remedy for a word that is no command, or "".
func nearCommands(c *cobra.Command, word string) string {
	top := !c.HasParent()
	if hint, is := instead[word]; is && top {
		return hint
	}
	var same, names []string
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		names = append(names, sub.Name())
		if slices.Contains(sub.SuggestFor, word) {
			same = append(same, sub.Name())
		}
	}
	if near := spec.Nearest(word, names); len(same) == 0 && near != "" {
		same = append(same, near)
	}
	if len(same) > 0 {
		return fmt.Sprintf("Did you mean %s?", strings.Join(same, " or "))
	}
	if info, err := os.Stat(word); top && (strings.ContainsAny(word, ":/") || err == nil && info.Mode().IsRegular()) {
		return "Did you mean `bee run " + shell.Word(word) + "`?"
	}
	return ""
}

// WrongArguments returns the error for arguments that a command does not take.
func WrongArguments(c *cobra.Command, args []string) error {
	path := c.CommandPath()
	e := &core.Error{Kind: core.Invalid, Op: "read arguments of", Object: path, Remedy: "`" + path + " --help` tells more."}
	_, takes, _ := strings.Cut(c.Use, " ")
	switch {
	case c.HasSubCommands() && takes == "":
		e.Err = fmt.Errorf("it has no command %q", args[0])
		e.Remedy = "`" + path + " --help` lists its commands."
		if near := nearCommands(c, args[0]); near != "" {
			e.Remedy = near + " " + e.Remedy
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
