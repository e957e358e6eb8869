package recordcmd

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/state"
)

// measuredView is what a run has measured, as --json gives it.
type measuredView struct {
	Run  string `json:"run"`
	Name string `json:"name"`
	// Progress is the newest, and Percent its points.
	Progress *measure.Progress          `json:"progress,omitempty"`
	Percent  []measure.Point            `json:"percent"`
	Metrics  map[string][]measure.Point `json:"metrics"`
	// Samples are what the nodes have used.
	Samples []sampleView `json:"samples"`
}

// metricsOf prints what a run has measured.
func (a *Commands) metricsOf(ctx context.Context, word string, asJSON, asCSV bool) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	run, err := s.Store.FindRun(ctx, word, state.ToSee)
	if err != nil {
		return err
	}
	view, err := measuredOf(ctx, s, run)
	if err != nil {
		return err
	}
	switch {
	case asJSON:
		return a.WriteJSON(view)
	case asCSV:
		return a.writePoints(view)
	case view.Progress == nil && len(view.Metrics) == 0:
		return &core.Error{
			Kind: core.NotFound, Op: "print the metrics of run", Object: run.ID, Err: errors.New("none are recorded"),
			Remedy: "Give the Beefile `progress:` or `metrics:`, whose patterns match lines of the output; `bee logs` prints it.",
		}
	}
	w := a.On(a.Stdout).List(2, 3)
	w.Row("METRIC", "VALUE", "TIME", "POINTS")
	if p := view.Progress; p != nil {
		w.Row("(progress)", percentText(p), p.Time.Local().Format(time.DateTime), len(view.Percent))
	}
	for _, name := range slices.Sorted(maps.Keys(view.Metrics)) {
		points := view.Metrics[name]
		if len(points) == 0 {
			continue
		}
		newest := points[len(points)-1]
		w.Row(name, numberText(newest.Value), newest.Time.Local().Format(time.DateTime), len(points))
	}
	return w.Flush()
}

// measuredOf is what a run has measured.
func measuredOf(ctx context.Context, s *workspace.Session, run state.Run) (measuredView, error) {
	all, err := state.ReadMeasured(s.Store.RunDir(run.ID))
	if err != nil {
		return measuredView{}, unreadableNumbers(run.ID, err)
	}
	samples, err := state.ReadSamples(s.Store.RunDir(run.ID))
	if err != nil {
		return measuredView{}, unreadableNumbers(run.ID, err)
	}
	view := measuredView{Run: run.ID, Name: run.Name, Percent: []measure.Point{}, Metrics: map[string][]measure.Point{}, Samples: sampleViews(samples.Points)}
	if all.Percent != nil {
		view.Percent = all.Percent.Points
	}
	for name, series := range all.Metrics {
		if series != nil {
			view.Metrics[name] = series.Points
		}
	}
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return view, err
	}
	view.Progress = runview.JobProgress(&all, attempts)
	return view, nil
}

func unreadableNumbers(run string, err error) error {
	return &core.Error{Kind: core.Permanent, Op: "read the metrics of run", Object: run, Err: err, Remedy: "Another version of bee may have written them, or the disk lost them. `bee logs` has the job's output."}
}

// writePoints writes all points as CSV; progress has the name "percent" in parentheses,
// which no metric can have.
func (a *Commands) writePoints(view measuredView) error {
	w := csv.NewWriter(a.Stdout)
	rows := [][]string{{"metric", "time", "value"}}
	add := func(name string, points []measure.Point) {
		for _, p := range points {
			rows = append(rows, []string{name, p.Time.UTC().Format(time.RFC3339Nano), numberText(p.Value)})
		}
	}
	add("(percent)", view.Percent)
	for _, name := range slices.Sorted(maps.Keys(view.Metrics)) {
		add(name, view.Metrics[name])
	}
	return w.WriteAll(rows)
}

// showMeasured shows how far the job of a run is, and the newest of its metrics.
func showMeasured(row func(string, string, ...any), v runview.View) {
	if p := v.JobProgress; p != nil {
		text := percentText(p)
		if p.Total != 100 {
			text += fmt.Sprintf(" (%s of %s)", numberText(p.Done), numberText(p.Total))
		}
		if p.LeftSeconds > 0 {
			text += ", about " + console.Seconds(p.LeftSeconds) + " left"
		}
		row("progress", "%s", text)
	}
	for _, name := range slices.Sorted(maps.Keys(v.Metrics)) {
		row("metric", "%s = %s", name, numberText(v.Metrics[name].Value))
	}
}

// percentText is progress in whole percent, which are 100 only at the end.
func percentText(p *measure.Progress) string { return strconv.Itoa(int(p.Percent)) + " %" }

func numberText(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
