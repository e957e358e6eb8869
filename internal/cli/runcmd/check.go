package runcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/usage"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// CheckCommand returns the command `check`.
func (a *Commands) CheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check FILE", Short: "Check a Beefile, the sites and the local files that it names, or a sites file, without running it", Args: cobra.ExactArgs(1),
		Long: `Check a Beefile, the sites and the local files that it names, or a sites file, without
running it. FILE may be -, for a Beefile on standard input. Of several jobs in a Beefile, each
is checked.`,
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] != workspace.StandardInput && spec.FileKind(args[0]) == spec.KindSites {
				return a.checkSites(args[0], asJSON)
			}
			source, err := a.checked(args[0])
			if err != nil {
				return err
			}
			return checker{a}.check(c.Context(), source, asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// checked reads the Beefile that is to be checked; - is standard input.
func (a *Commands) checked(file string) (jobSource, error) {
	if file == workspace.StandardInput {
		return a.jobOfInput()
	}
	if err := usage.NoBeefile(file); err != nil {
		return jobSource{}, err
	}
	drafts, err := spec.ReadDrafts(file)
	if err != nil {
		return jobSource{}, err
	}
	return sourceOf(drafts, jobSource{what: file}), nil
}

// checkedJob is a job that was checked, with what may surprise its user.
type checkedJob struct {
	jobSource
	job *spec.Job
	// named: the Beefile names its store, and not the sites file.
	named    bool
	sites    []spec.Site
	warnings []string
	// places are those of its outputs, and of its cases.
	places *spec.DraftPlaces
	// reaches are those of its cases.
	reaches reachList
}

// checker checks Beefiles.
type checker struct{ *Commands }

// checkJob checks a job of a Beefile.
func (a checker) checkJob(ctx context.Context, source jobSource) (checkedJob, error) {
	c := checkedJob{jobSource: source, places: source.draft.OutputPlaces()}
	c.draft.CheckHere()
	if f, err := a.FindSites(); err == nil { // else finish reports it
		c.draft.CheckHosts(f)
	}
	c.named = c.draft.Job.Store != ""
	var err error
	c.job, c.sites, err = a.Finish(c.draft)
	switch {
	case err != nil:
	case len(c.draft.Cases()) > 0:
		err = c.places.AddCases(func(job *spec.Job) { c.reaches.add(console.ReachesOf(job, source.strange)) })
	default:
		c.places.Add(c.job, 0)
	}
	if err == nil {
		err = volumeHere(c.job)
	}
	if err == nil {
		c.warnings = slices.Concat(c.job.SkippedSites(c.sites), c.job.Warnings(c.sites), control.InputWarnings(ctx, c.job, ownDir(c.job, source.strange)), a.launchWarnings(ctx, c.job))
	}
	return c, err
}

// check checks the jobs of a Beefile, and prints what is wrong with all of them.
func (a checker) check(ctx context.Context, source jobSource, asJSON bool) error {
	var wrong error
	var jobs []checkedJob
	var places []*spec.DraftPlaces
	warnings := []string{}
	for _, one := range source.all() {
		c, err := a.checkJob(ctx, one)
		wrong = spec.Both(wrong, err)
		jobs, places = append(jobs, c), append(places, c.places)
		for _, text := range c.warnings {
			if len(source.jobs) > 0 {
				text = c.job.Name + ": " + text
			}
			warnings = append(warnings, text)
		}
	}
	if wrong == nil {
		wrong = spec.OutputsApart(places)
	}
	if asJSON {
		problems := []spec.Problem{}
		if all, ok := errors.AsType[*spec.Errors](wrong); ok {
			problems = all.Problems
		} else if wrong != nil {
			return wrong
		}
		if wrong != nil {
			warnings = []string{}
		}
		if werr := a.WriteJSON(map[string]any{"valid": wrong == nil, "problems": problems, "warnings": warnings}); werr != nil || wrong == nil {
			return werr
		}
		return console.Exit(console.ExitInvalid)
	}
	if wrong != nil {
		return wrong
	}
	a.warnOf(warnings)
	for _, c := range jobs {
		if err := a.printChecked(c); err != nil {
			return err
		}
	}
	return nil
}

// printChecked prints that a job is valid, and what it does outside of its directory.
func (a checker) printChecked(c checkedJob) error {
	job := *c.job
	if !c.named {
		job.Store = "" // that of the sites file
	}
	reaches := c.reaches.list
	if !c.named {
		reaches = slices.DeleteFunc(reaches, func(r spec.Reach) bool { return r.Key == "store" })
	}
	if len(c.draft.Cases()) == 0 {
		reaches = console.ReachesOf(&job, c.strange)
	}
	core.BestEffort(a.Allow(c.what, "", reaches, console.Trust{}, false)) // nothing is done here, so nothing is refused
	cases := ""
	if n := len(c.draft.Cases()); n > 0 {
		cases = console.CountText(n, "case") + ", the first with "
	}
	_, err := fmt.Fprintf(a.Stdout, "%s is valid: %s, %s%s on %s\n", c.what, job.Name, cases, console.CountText(job.Nodes, "node"), siteNames(c.sites))
	return err
}

// checkSites checks a sites file, which names what runs there and is therefore nobody else's.
func (a *Commands) checkSites(file string, asJSON bool) error {
	f, err := spec.LoadSites(file)
	if asJSON {
		problems := []spec.Problem{}
		if all, ok := errors.AsType[*spec.Errors](err); ok {
			problems = all.Problems
		} else if err != nil {
			return err
		}
		if werr := a.WriteJSON(map[string]any{"valid": err == nil, "problems": problems, "warnings": []string{}}); werr != nil || err == nil {
			return werr
		}
		return console.Exit(console.ExitInvalid)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.Stdout, "%s is valid: %s, %s\n", file, console.CountText(len(f.Sites), "site"), namesOf(f.Sites))
	return err
}

// warn prints what is likely to surprise the user of a job.
func (a *Commands) warn(ctx context.Context, job *spec.Job, sites []spec.Site, own string) {
	a.warnOf(append(job.Warnings(sites), control.InputWarnings(ctx, job, own)...))
}

func (a *Commands) warnOf(texts []string) {
	for _, text := range texts {
		a.Say("warning: %s", output.Printable(text))
	}
}

// launchWarnings are those of checkLaunch. An image may get another content before the job
// runs, so that none is an error.
func (a *Commands) launchWarnings(ctx context.Context, job *spec.Job) []string {
	warnings, err := a.checkLaunch(ctx, job)
	if err != nil {
		warnings = append(warnings, fmt.Sprintf("the image as it is in the cache: %v. %s", err, core.Remedy(err)))
	}
	return warnings
}

// ownDir is the directory in which links in a job's inputs are followed, see
// submission.Submission. strange is why the job may be another user's; "": it is not.
func ownDir(job *spec.Job, strange string) string {
	if strange != "" || job.Dir == "" {
		return ""
	}
	return spec.RealPath(job.Dir)
}
