package benchcmd

import (
	"bytes"
	"fmt"
	"io"
	"os/user"
	"slices"
	"text/tabwriter"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/report"
	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/spf13/cobra"
)

// writeReport writes a file whole or not at all.
func writeReport(file string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	return fsutil.WriteFile(file, b.Bytes(), 0o644)
}

// gate is the exit code of a study with --fail-on. An undecided gate never passes unasked.
func gate(r *report.Report, o benchOptions) error {
	if len(o.failOn) == 0 {
		return nil
	}
	wants := func(word string) bool { return slices.Contains(o.failOn, word) }
	undecided := r.Plan.Replaced != "" || slices.ContainsFunc(r.Plan.Environments, func(e record.Environment) bool { return e.Named && e.Dropped != "" })
	judged := false
	if c := r.Comparison; c != nil && wants("slower") {
		if c.Worse() {
			return console.Exit(console.ExitSlower)
		}
		undecided = undecided || !c.Decided()
	}
	for i := range r.Result.Contrasts {
		c := &r.Result.Contrasts[i]
		if !c.Primary {
			continue
		}
		judged = true
		switch {
		case c.Finding.Verdict == stats.Slower && wants("slower"):
			return console.Exit(console.ExitSlower)
		case c.Finding.Verdict == stats.Failed && wants("failed"):
			return console.Exit(console.ExitPermanent)
		case !c.Finding.Decided():
			undecided = true
		}
	}
	if (undecided || !judged) && !o.undecided {
		return console.Exit(console.ExitUndecided)
	}
	return nil
}

func (a *Commands) newBenchReportCommand() *cobra.Command {
	var markdown, asCSV, asJSON, asHTML, redact bool
	var method string
	c := &cobra.Command{
		Use: "report DIR", Short: "Write the report of a study again, from its measurements", Args: cobra.ExactArgs(1),
		Long: `Write the sentences of a study again, or its whole report, from the measurements in its
directory. --method evaluates the same measurements by another method.`,
		Example: "  bee bench report bench-layers-20261126-101500 --markdown\n  bee bench report bench-layers-20261126-101500 --html --redact > report.html",
		RunE: func(_ *cobra.Command, args []string) error {
			plan, rows, err := record.Read(args[0])
			if err != nil {
				return err
			}
			if method != "" {
				if plan.Method, err = methodOf(method); err != nil {
					return err
				}
			}
			hosts, err := record.ReadHosts(args[0])
			if err != nil {
				return err
			}
			r := report.New(plan, rows)
			r.On(hosts)
			if redact {
				if err := r.Redact(userNames()...); err != nil {
					return fmt.Errorf("redact the report: %w", err)
				}
			}
			switch {
			case asJSON:
				return r.JSON(a.Stdout)
			case asCSV:
				return r.CSV(a.Stdout)
			case asHTML:
				return r.HTML(a.Stdout)
			case markdown:
				return r.Markdown(a.Stdout)
			}
			for _, s := range r.Sentences {
				if _, err := fmt.Fprintln(a.Stdout, output.Printable(s)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f := c.Flags()
	f.BoolVar(&asHTML, "html", false, "write the HTML page")
	f.BoolVar(&markdown, "markdown", false, "write Markdown")
	f.BoolVar(&asCSV, "csv", false, "write CSV, a line for each contrast")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	f.StringVar(&method, "method", "", "`method`: robust, beserra2016 or published, instead of that of the results")
	f.BoolVar(&redact, "redact", false, "leave out names of hosts, users and paths")
	workspace.WordsFlag(c, "method", methods...)
	c.MarkFlagsMutuallyExclusive("html", "markdown", "csv", "json")
	return c
}

// userNames are those of the user who runs bee.
func userNames() []string {
	u, err := user.Current()
	if err != nil {
		return nil
	}
	return []string{u.Username}
}

func (a *Commands) newBenchLsCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "ls", Short: "List the studies that bee has of its own", Args: cobra.NoArgs, Example: "  bee bench ls",
		RunE: func(*cobra.Command, []string) error {
			return a.listStudies(asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// listStudies prints the studies of bee's own.
func (a *Commands) listStudies(asJSON bool) error {
	type line struct {
		Name         string   `json:"name"`
		Title        string   `json:"title"`
		Environments []string `json:"environments"`
		Source       string   `json:"source,omitempty"`
	}
	var all []line
	for _, name := range studies.Names() {
		s, _, err := ownStudy(name)
		if err != nil {
			return err
		}
		all = append(all, line{s.Name, s.Title, s.EnvironmentNames, s.Source})
	}
	if asJSON {
		return a.WriteJSON(all)
	}
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STUDY\tQUESTION")
	for _, l := range all {
		fmt.Fprintf(w, "%s\t%s\n", l.Name, l.Title)
	}
	return w.Flush()
}
