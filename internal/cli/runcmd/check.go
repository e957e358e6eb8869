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
running it. FILE may be -, for a Beefile on standard input.`,
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] != workspace.StandardInput && spec.FileKind(args[0]) == spec.KindSites {
				return a.checkSites(args[0], asJSON)
			}
			source, err := a.checked(args[0])
			if err != nil {
				return err
			}
			draft := source.draft
			draft.CheckHere()
			if f, err := a.FindSites(); err == nil { // else finish reports it
				draft.CheckHosts(f)
			}
			named := draft.Job.Store != ""
			job, sites, err := a.Finish(draft)
			if err == nil {
				err = checkCases(draft)
			}
			if err == nil {
				err = volumeHere(job)
			}
			var launch []string
			if err == nil {
				launch = a.launchWarnings(c.Context(), job)
			}
			if asJSON {
				problems, warnings := []spec.Problem{}, []string{}
				if err == nil {
					warnings = slices.Concat(warnings, job.SkippedSites(sites), job.Warnings(sites), control.InputWarnings(c.Context(), job, ownDir(job, source.strange)), launch)
				}
				if all, ok := errors.AsType[*spec.Errors](err); ok {
					problems = all.Problems
				} else if err != nil {
					return err
				}
				if werr := a.WriteJSON(map[string]any{"valid": err == nil, "problems": problems, "warnings": warnings}); werr != nil || err == nil {
					return werr
				}
				return console.Exit(console.ExitInvalid)
			}
			if err != nil {
				return err
			}
			a.warnOf(job.SkippedSites(sites))
			a.warn(c.Context(), job, sites, ownDir(job, source.strange))
			a.warnOf(launch)
			if !named {
				job.Store = "" // that of the sites file
			}
			core.BestEffort(a.Allow(source.what, "", console.ReachesOf(job, source.strange), console.Trust{}, false)) // nothing is done here, so nothing is refused
			cases := ""
			if n := len(draft.Cases()); n > 0 {
				cases = console.CountText(n, "case") + ", the first with "
			}
			_, err = fmt.Fprintf(a.Stdout, "%s is valid: %s, %s%s on %s\n", source.what, job.Name, cases, console.CountText(job.Nodes, "node"), siteNames(sites))
			return err
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
	draft, err := spec.ReadDraft(file)
	if err != nil {
		return jobSource{}, err
	}
	return jobSource{draft: draft, what: file, strange: console.StrangerOfDraft(draft)}, nil
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
