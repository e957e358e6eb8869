package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/bee-hpc/bee/internal/state"
)

// arrayCases are the cases of an array: the source of its table and of its page.
type arrayCases struct {
	cases []runview.View
	// parameters and metrics are the names that any case has, sorted.
	parameters, metrics []string
	// time is what the time of all leases went to, in seconds, and leases how many runs have had some.
	time   map[report.Use]float64
	leases int
}

// casesOf returns the cases that some runs of an array are.
func casesOf(ctx context.Context, s *workspace.Session, runs []state.Run) (arrayCases, error) {
	all := arrayCases{time: map[report.Use]float64{}}
	parameters, metrics, packs := map[string]bool{}, map[string]bool{}, map[string]*runview.Pack{}
	for _, run := range runs {
		v, err := runview.Timed(ctx, s, run)
		if err == nil && run.Case.Pack != "" {
			err = ofPack(ctx, s, run, &v, packs)
		}
		if core.IsKind(err, core.NotFound) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return all, err
		}
		if v.Array == nil { // of another bee: the rest of the row is known
			v.Array = &submission.ArrayCase{Number: run.Case.Number}
		}
		if run.Case.Pack == "" {
			all.addTime(v.Time)
		}
		for name := range v.Array.Values {
			parameters[name] = true
		}
		for name := range v.Metrics {
			metrics[name] = true
		}
		all.cases = append(all.cases, v)
	}
	for _, pack := range packs {
		all.addTime(pack.View.Time)
	}
	all.parameters, all.metrics = slices.Sorted(maps.Keys(parameters)), slices.Sorted(maps.Keys(metrics))
	return all, nil
}

// addTime adds the uses of the time of one lease.
func (all *arrayCases) addTime(uses map[report.Use]float64) {
	all.leases++
	for on, took := range uses {
		all.time[on] += took
	}
}

// ofPack completes a case by its pack, which is read once for all of its cases.
func ofPack(ctx context.Context, s *workspace.Session, run state.Run, v *runview.View, packs map[string]*runview.Pack) error {
	pack := packs[run.Case.Pack]
	if pack == nil {
		var err error
		if pack, err = runview.PackOf(ctx, s, run.Case.Pack); core.IsKind(err, core.NotFound) { // it was removed
			return nil
		} else if err != nil {
			return err
		}
		packs[run.Case.Pack] = pack
	}
	pack.Complete(run, v)
	return nil
}

// allCasesOf returns the cases of an array.
func allCasesOf(ctx context.Context, s *workspace.Session, array state.Array) (arrayCases, error) {
	runs, err := s.Store.Arrays().Runs(ctx, array.ID)
	if err != nil {
		return arrayCases{}, err
	}
	return casesOf(ctx, s, runs)
}

// forGrid are the cases as grids and plots show them.
func (all *arrayCases) forGrid() []report.Case {
	list := make([]report.Case, 0, len(all.cases))
	for i := range all.cases {
		v := &all.cases[i]
		c := report.Case{ID: v.ID, State: v.State, Values: v.Array.Values, Metrics: map[string]float64{}}
		for name, point := range v.Metrics {
			c.Metrics[name] = point.Value
		}
		list = append(list, c)
	}
	return list
}

// gridChoice is what a user has chosen for the page of an array; "": BEE chooses.
type gridChoice struct{ by, metric string }

// chosen reports whether anything was.
func (g gridChoice) chosen() bool { return g.by != "" || g.metric != "" }

// axes are those of the page of an array.
func (g gridChoice) axes(array string, all *arrayCases, cases []report.Case) (report.Axes, error) {
	axes := report.DefaultAxes(cases)
	if g.by != "" {
		axes.Across, axes.Down, _ = strings.Cut(g.by, ",")
		for _, name := range []string{axes.Across, axes.Down} {
			if name != "" && !slices.Contains(all.parameters, name) || axes.Across == "" {
				return axes, unknownAxis(array, "parameter", name, all.parameters)
			}
		}
	}
	if g.metric != "" {
		if axes.Metric = g.metric; !slices.Contains(all.metrics, g.metric) {
			return axes, unknownAxis(array, "metric", g.metric, all.metrics)
		}
	}
	return axes, nil
}

func unknownAxis(array, what, name string, known []string) error {
	remedy := fmt.Sprintf("No case has a %s yet. Leave the flag out.", what)
	if len(known) > 0 {
		remedy = "Give one of: " + strings.Join(known[:min(len(known), 20)], ", ") + "."
	}
	return &core.Error{Kind: core.Invalid, Op: "write the page of array", Object: array, Err: errors.New("its cases have no " + what + " " + fmt.Sprintf("%q", name)), Remedy: remedy}
}

// pageOf is the page of an array.
func (all *arrayCases) pageOf(array state.Array, choice gridChoice, version string) (*page.Array, error) {
	cases := all.forGrid()
	axes, err := choice.axes(array.ID, all, cases)
	if err != nil {
		return nil, err
	}
	return &page.Array{
		Time: usesOf(all.time), Leases: all.leases,
		ID: array.ID, Name: array.Name, State: string(array.State()), Meaning: runview.ArrayText(array) + ".",
		Grid: report.NewGrid(cases, axes), Plot: report.NewPlot(cases, axes.Across, axes.Metric), Version: version, Made: time.Now(),
	}, nil
}

// reportArray writes the page of an array, or what became of its cases as Markdown.
func reportArray(ctx context.Context, a *Commands, s *workspace.Session, array state.Array, choice gridChoice, markdown bool, w io.Writer) error {
	if markdown {
		runs, err := s.Store.Arrays().Runs(ctx, array.ID)
		if err != nil {
			return err
		}
		results, err := a.resultsOf(ctx, s, runs, false)
		if err != nil {
			return err
		}
		return results.Summary(w)
	}
	all, err := allCasesOf(ctx, s, array)
	if err != nil {
		return err
	}
	p, err := all.pageOf(array, choice, s.Workspace.Version)
	if err != nil {
		return err
	}
	return p.HTML(w)
}
