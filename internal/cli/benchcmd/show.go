package benchcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchShowCommand() *cobra.Command {
	var asJSON, asYAML bool
	c := &cobra.Command{
		Use: "show STUDY|FILE", Short: "Show what a study measures, and how its paper did", Args: cobra.ExactArgs(1),
		Long: `Show what a study measures: its environments and figures, the values of its variables at
each size beside those of the paper, and the claims of the paper. --yaml prints its file, to
start one of your own.`,
		Example:           "  bee bench show layers\n  bee bench show layers --yaml > mine.yaml",
		ValidArgsFunction: completeStudies,
		RunE: func(_ *cobra.Command, args []string) error {
			s, text, err := loadStudy(args[0])
			if err != nil {
				return err
			}
			switch {
			case asJSON:
				var claims []string
				for i := range s.Claims {
					claims = append(claims, s.Claims[i].Text()+" ("+s.Claims[i].From+")")
				}
				return a.WriteJSON(map[string]any{
					"name": s.Name, "title": s.Title, "source": s.Source, "stand_in": s.StandsIn(), "sources": s.Sources, "environments": s.EnvironmentNames, "untested": untested(s), "baseline": s.Baseline,
					"metrics": s.MetricNames, "vary": s.Vary, "sizes": s.Sizes, "claims": claims, "method": s.Method.Name, "file": text,
				})
			case !asYAML:
				text = studyText(s, args[0])
			}
			_, err = io.WriteString(a.Stdout, text)
			return err
		},
	}
	c.Flags().BoolVar(&asYAML, "yaml", false, "print the file of the study")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.MarkFlagsMutuallyExclusive("yaml", "json")
	return c
}

// studyText is a study for people, which they have named by a word.
func studyText(s *study.Study, word string) string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, output.Printable(text))
		}
	}
	line("Study", s.Name)
	line("Question", s.Title)
	line("From", s.Source)
	line("Measured here", s.StandsIn())
	line("Environments", environmentsText(s))
	line("Never measured by the authors of the study", strings.Join(untested(s), ", "))
	line("Figures with a verdict", metricsText(s, true))
	line("Other figures", metricsText(s, false))
	for _, name := range slices.Sorted(maps.Keys(s.Sources)) {
		line("Sources by --source "+name+"=DIR", s.Sources[name].About)
	}
	method := fmt.Sprintf("%s, margin %v %%, %d to %d blocks", s.Method.Name, 100*float64(s.Method.Margin), s.Method.Blocks.Least, s.Method.Blocks.Most)
	if s.Method.Budget > 0 {
		method += fmt.Sprintf(", at most %s", time.Duration(s.Method.Budget))
	}
	if s.Method.Reuse != study.ReuseNone {
		method += ", reuse: " + s.Method.Reuse
	}
	line("Method", method)
	b.WriteString(variablesText(s))
	for i := range s.Claims {
		line("Claim", s.Claims[i].Text()+" ("+s.Claims[i].From+")")
	}
	fmt.Fprintf(&b, "`bee bench plan %s` shows what works on this machine.\n", shell.Word(word))
	return b.String()
}

func environmentsText(s *study.Study) string {
	names := slices.Clone(s.EnvironmentNames)
	for i, name := range names {
		switch {
		case name == s.Baseline:
			names[i] += " (the baseline)"
		case s.Environments[name].OnlyNamed:
			names[i] += " (by --env)"
		}
	}
	return strings.Join(names, ", ")
}

// untested are the environments that the authors of a study have never measured.
func untested(s *study.Study) []string {
	names := []string{}
	for _, name := range s.EnvironmentNames {
		if s.Environments[name].Untested {
			names = append(names, name)
		}
	}
	return names
}

func metricsText(s *study.Study, primary bool) string {
	var names []string
	for _, name := range s.MetricNames {
		if m := s.Metrics[name]; m.Primary == primary && m.Unit != "" && m.Unit != "1" {
			names = append(names, name+" in "+m.Unit)
		} else if m.Primary == primary {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// variablesText is a table of the values of variables at each size.
func variablesText(s *study.Study) string {
	if len(s.Variables) == 0 {
		return ""
	}
	var sizes []string
	for _, size := range []string{"paper", "here", "smoke"} {
		if s.Sizes[size] != nil {
			sizes = append(sizes, size)
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "VARIABLE\tDEFAULT")
	for _, size := range sizes {
		fmt.Fprintf(w, "\t%s", strings.ToUpper(size))
	}
	fmt.Fprintln(w)
	for _, name := range s.Variables {
		fmt.Fprintf(w, "%s\t%s", name, valuesText(s.Vary[name]))
		for _, size := range sizes {
			values, is := s.Sizes[size][name]
			if !is {
				values = s.Vary[name]
			}
			fmt.Fprintf(w, "\t%s", valuesText(values))
		}
		fmt.Fprintln(w)
	}
	if w.Flush() != nil { // a builder does not fail
		return ""
	}
	return b.String()
}

func valuesText(values []study.Value) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = output.Printable(string(v))
	}
	return strings.Join(words, ", ")
}
