package benchcmd

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type benchOptions struct {
	job       string
	env       []string
	site      string
	mapped    map[string]string // sites by those that the study names
	size      string
	method    string
	margin    string
	blocks    string
	budget    time.Duration
	metric    []string
	better    string
	baseline  string // a directory of former results
	out       string
	command   string // repeats the study
	failOn    []string
	undecided bool
	asJSON    bool
	// calibrate measures one environment against itself.
	calibrate bool
	// verb is the command of bench.
	verb string
	// quiet is how long to wait for a quiet host.
	quiet time.Duration
	// source has directories and archives of sources, by their names in the study.
	source map[string]string
	trust  console.Trust
	// file is the study file or Beefile; empty: a study of bee's own.
	file string
}

// wants reports whether an environment of a study is measured; the baseline always is.
func (o *benchOptions) wants(s *study.Study, environment string) bool {
	if environment == s.Baseline || slices.Contains(o.env, environment) {
		return true
	}
	return len(o.env) == 0 && !s.Environments[environment].OnlyNamed
}

// choice are the flags that say what is measured.
func (o *benchOptions) choice(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.job, "job", "", "measure the job of this `Beefile`")
	f.StringSliceVar(&o.env, "env", nil, "`environments` to measure besides the baseline")
	f.StringVar(&o.site, "site", "", "`site` to measure on (default: the first)")
	f.StringToStringVar(&o.mapped, "map", nil, "site in place of one that the study names, as `NAME=SITE`; the report says so")
	f.StringToStringVar(&o.source, "source", nil, sourceHelp)
	f.StringVar(&o.size, "size", "", "`size` of values of variables: paper, here or smoke")
	f.StringVar(&o.method, "method", "", "`method`: robust, beserra2016 or published, instead of the study's")
	f.StringVar(&o.margin, "margin", "", "`difference` that does not matter, such as 5%, instead of the study's")
	f.StringVar(&o.blocks, "blocks", "", "`number` of blocks, such as 20 or 10..32, instead of the study's")
	f.DurationVar(&o.budget, "budget", 0, "most time to measure, instead of the study's")
	f.StringArrayVar(&o.metric, "metric", nil, "with --job: a figure as `NAME=regex:PATTERN`, instead of the time")
	f.StringVar(&o.better, "better", "lower", "with --metric: the better `direction`, lower or higher")
	workspace.WordsFlag(c, "size", sizes...)
	workspace.WordsFlag(c, "method", methods...)
	workspace.WordsFlag(c, "better", "lower", "higher")
}

// sizes and methods are the words of --size and --method.
var (
	sizes   = []string{"paper", "here", "smoke"}             // a table
	methods = []string{"robust", "beserra2016", "published"} // a table
)

// completeStudies completes the first argument with bee's own studies, and with files.
func completeStudies(_ *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(studies.Names(), func(n string) bool { return !strings.HasPrefix(n, begun) })
	return names, cobra.ShellCompDirectiveDefault
}

// series are the flags of a series of measurements, whether new or continued.
func (o *benchOptions) series(f *pflag.FlagSet) {
	f.StringSliceVar(&o.failOn, "fail-on", nil, "`results` that count as failures: end with code 208 for slower, with 200 for failed, and with 209 if undecided")
	f.BoolVar(&o.undecided, "allow-undecided", false, "with --fail-on: end with 0 if undecided")
	f.BoolVar(&o.asJSON, "json", false, "write the report as JSON")
	f.DurationVar(&o.quiet, "wait", quietWait, "most `time` to wait until this machine is quiet, such as 0s")
}

// sourceHelp is the text of --source.
const sourceHelp = "sources of a program of the study, as `NAME=DIR` or NAME=https://…#sha256=DIGEST"

// study is the one that the arguments name, with the flags that were given.
func (o *benchOptions) study(args []string) (*study.Study, string, error) {
	s, text, err := o.named(args)
	if err == nil {
		err = o.change(s)
	}
	return s, text, err
}

func (o *benchOptions) named(args []string) (*study.Study, string, error) {
	switch {
	case o.job != "" && len(args) == 0:
		o.file = o.job
		return studyOfJob(o.job, o.metric, o.better)
	case o.job == "" && len(args) == 1:
		if isFile(args[0]) {
			o.file = args[0]
		}
		return loadStudy(args[0])
	}
	if o.calibrate { // which has no --job
		return ownStudy("layers")
	}
	return nil, "", &core.Error{Kind: core.Invalid, Op: "bench " + o.verb, Err: errors.New("it takes a study or --job"), Remedy: "Try `bee bench " + o.verb + " layers`, or give --job job.yaml."}
}

// change puts the flags that were given into a study.
func (o *benchOptions) change(s *study.Study) error {
	refuse := func(flag string, err error) error {
		return &core.Error{Kind: core.Invalid, Op: "read", Object: flag, Err: err, Remedy: "`bee bench " + o.verb + " --help` shows the form."}
	}
	if o.margin != "" {
		err := s.Method.Margin.UnmarshalText([]byte(o.margin))
		if err == nil && s.Method.Margin <= 0 {
			err = errors.New("it is no share above 0")
		}
		if err != nil {
			return refuse("--margin "+o.margin, err)
		}
	}
	if o.blocks != "" {
		if err := s.Method.Blocks.UnmarshalText([]byte(o.blocks)); err != nil {
			return refuse("--blocks "+o.blocks, err)
		}
	}
	if o.method != "" {
		var err error
		if s.Method.Name, err = methodOf(o.method); err != nil {
			return err
		}
	}
	if o.budget > 0 {
		s.Method.Budget = study.Duration(o.budget)
	}
	for _, e := range o.env {
		if !slices.Contains(s.EnvironmentNames, e) {
			return refuse("--env "+e, fmt.Errorf("the study has no such environment, but %s", strings.Join(s.EnvironmentNames, ", ")))
		}
	}
	if name := mapSites(s, o.mapped); name != "" {
		return refuse("--map "+name+"="+o.mapped[name], errors.New("no environment of the study has that site, or the other has no name"))
	}
	if _, is := s.Sizes[o.size]; o.size != "" && !is {
		return refuse("--size "+o.size, errors.New("the study has no such size"))
	}
	for _, word := range o.failOn {
		if word != "slower" && word != "failed" {
			return refuse("--fail-on "+word, errors.New("it is neither slower nor failed"))
		}
	}
	return nil
}

// methodOf is the method of a name.
func methodOf(name string) (string, error) {
	if !slices.Contains([]string{study.Robust, study.Beserra, study.Published}, name) {
		return "", &core.Error{Kind: core.Invalid, Op: "read", Object: "--method " + name, Err: errors.New("it is none of robust, beserra2016 and published"), Remedy: "Name one of them."}
	}
	return name, nil
}

// repeating is the command of a study without what belongs to one series only.
func repeating(c *cobra.Command, args []string) string {
	words := append(strings.Fields(c.CommandPath()), args...)
	c.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"output", "wait", "trust", "baseline"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, is := f.Value.(pflag.SliceValue); is {
			values = list.GetSlice()
		} else if f.Value.Type() == "stringToString" {
			values = []string{strings.Trim(values[0], "[]")}
		}
		for _, v := range values {
			words = append(words, "--"+f.Name+"="+v)
		}
	})
	return shell.Words(words)
}

// mapSites puts other sites in place of those that environments name. It returns the first
// name that no environment has, or "".
func mapSites(s *study.Study, mapped map[string]string) (unknown string) {
	for _, name := range slices.Sorted(maps.Keys(mapped)) {
		is := func(e string) bool { return s.Environments[e].Site == name }
		if name == "" || mapped[name] == "" || !slices.ContainsFunc(s.EnvironmentNames, is) {
			return name
		}
	}
	for _, name := range s.EnvironmentNames {
		e := s.Environments[name]
		if to := mapped[e.Site]; to != "" {
			e.Site = to
			s.Environments[name] = e
		}
	}
	return ""
}
