package recordcmd

import (
	"errors"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// psFilter chooses runs for a list.
type psFilter struct {
	states, sites []string
	labels        []string
	name          string
	since         console.Age
}

// statesFlag is the value of --state: states of runs, or, as before it had that meaning, the
// directory of run records.
type statesFlag struct {
	states *[]string
	dir    *string
}

// Set implements pflag.Value.
func (f statesFlag) Set(value string) error {
	words := strings.Split(strings.ToLower(value), ",")
	if workspace.IsStateDir(value) && slices.ContainsFunc(words, func(w string) bool { return !isState(w) }) {
		*f.dir = value
		return nil
	}
	*f.states = append(*f.states, words...)
	return nil
}

func (f statesFlag) String() string { return "" }

// Type implements pflag.Value.
func (f statesFlag) Type() string { return "states" }

// completeStates completes the last of the states that a comma parts.
func completeStates(_ *cobra.Command, _ []string, word string) (words []string, _ cobra.ShellCompDirective) {
	before := word[:strings.LastIndex(word, ",")+1]
	for _, s := range state.RunStates() {
		if w := before + string(s); strings.HasPrefix(w, word) && !strings.Contains(w, " ") { // a shell would take it for two
			words = append(words, w)
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}

func isState(word string) bool { return slices.Contains(state.RunStates(), state.RunState(word)) }

func (f *psFilter) flags(c *cobra.Command, w *workspace.Workspace) {
	states := statesFlag{&f.states, &w.StateDir}
	c.Flags().Var(states, "state", "only runs in these `states`, such as failed,stopped; also those that are over")
	c.Flags().Var(states, "status", "same as --state")
	c.Flags().MarkHidden("status")
	c.Flags().StringSliceVar(&f.sites, "site", nil, "only runs whose last attempt is on these `sites`")
	c.Flags().StringArrayVar(&f.labels, "label", nil, "only runs with this label, as `KEY` or KEY=VALUE")
	if err := c.RegisterFlagCompletionFunc("state", completeStates); err != nil {
		panic(err) // there is no such flag: a mistake here
	}
	c.Flags().StringVar(&f.name, "name", "", "only runs of this `name`, which may be a pattern such as 'md-*'")
	c.Flags().Var(&f.since, "since", "only runs that were submitted in this last `time`, such as 24h or 7d")
}

// empty reports whether all runs pass.
func (f *psFilter) empty() bool {
	return len(f.states)+len(f.sites)+len(f.labels) == 0 && f.name == "" && f.since == 0
}

func (f *psFilter) check() error {
	for _, word := range f.states {
		if !isState(word) {
			var all []string
			for _, s := range state.RunStates() {
				all = append(all, string(s))
			}
			return &core.Error{Kind: core.Invalid, Op: "read", Object: "--state " + word, Err: errors.New("no run has that state"), Remedy: "The states are " + strings.Join(all, ", ") + "."}
		}
	}
	if _, err := path.Match(f.name, ""); err != nil {
		return &core.Error{Kind: core.Invalid, Op: "read", Object: "--name " + f.name, Err: err, Remedy: "Write a name, or a pattern such as 'md-*'."}
	}
	return nil
}

// wantsOver reports whether states were asked for that runs have when they are over.
func (f *psFilter) wantsOver() bool {
	return slices.ContainsFunc(f.states, func(s string) bool { return state.RunState(s).Final() })
}

func (f *psFilter) passes(v runview.View, now time.Time) bool {
	if len(f.states) > 0 && !slices.Contains(f.states, string(v.State)) {
		return false
	}
	if len(f.sites) > 0 && (len(v.Attempts) == 0 || !slices.Contains(f.sites, v.Attempts[len(v.Attempts)-1].Site)) {
		return false
	}
	for _, label := range f.labels {
		key, value, with := strings.Cut(label, "=")
		if is, has := v.Labels[key]; !has || with && is != value {
			return false
		}
	}
	if is, _ := path.Match(f.name, v.Name); f.name != "" && !is {
		return false
	}
	return f.since <= 0 || now.Sub(v.Created) <= time.Duration(f.since)
}
