package recordcmd

import (
	"context"
	"net/url"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/state"
)

// webArray is an array with a grid of its cases, for the page about it.
type webArray struct {
	runview.Array
	Parameters []string `json:"parameters"`
	Metrics    []string `json:"metrics"`
	// Across, Down and Metric are those of the grid, which Page has as a part of a page.
	Across string `json:"across"`
	Down   string `json:"down"`
	Metric string `json:"metric"`
	Page   string `json:"page"`
	// First is how many cases the grid is made of, where the array has more.
	First int `json:"first,omitempty"`
}

// webCases bounds the cases that the page of an array shows.
const webCases = 2000

// Array implements web.Records.
func (w *webRecords) Array(ctx context.Context, word string, q url.Values) (any, error) {
	array, err := w.s.Store.Arrays().Find(ctx, word, state.ToSee)
	if err != nil {
		return nil, err
	}
	runs, err := w.s.Store.Arrays().Page(ctx, array.ID, 0, webCases+1)
	if err != nil {
		return nil, err
	}
	v := webArray{Array: runview.OfArray(array)}
	if len(runs) > webCases {
		runs, v.First = runs[:webCases], webCases
	}
	all, err := casesOf(ctx, w.s, runs)
	if err != nil {
		return nil, err
	}
	p, err := all.pageOf(array, gridChoice{by: q.Get("by"), metric: q.Get("metric")}, w.s.Workspace.Version)
	if err != nil {
		return nil, err
	}
	p.Link = func(run string) string { return "#/runs/" + url.PathEscape(run) }
	var text strings.Builder
	err = p.Part(&text)
	axes := p.Grid.Axes
	v.Parameters, v.Metrics, v.Page = append([]string{}, all.parameters...), append([]string{}, all.metrics...), text.String()
	v.Across, v.Down, v.Metric = axes.Across, axes.Down, axes.Metric
	return v, err
}
