package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/web"
)

// webRecords are the facts of pages. Like the commands that read, it changes nothing. Its
// actions are commands, each in a process of its own.
type webRecords struct {
	a *Commands
	s *workspace.Session
}

// Run implements web.Records.
func (w *webRecords) Run(ctx context.Context, id string) (any, error) {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return runview.Of(ctx, w.s, run)
}

// Measured implements web.Records.
func (w *webRecords) Measured(ctx context.Context, id string) (any, error) {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return measuredOf(ctx, w.s, run)
}

// Page implements web.Records.
func (w *webRecords) Page(ctx context.Context, id string) (*page.Page, error) {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return nil, err
	}
	return pageOf(ctx, w.s, run)
}

// Metrics implements web.Records.
func (w *webRecords) Metrics(ctx context.Context, out io.Writer) error {
	return w.a.openMetrics(ctx, w.s, out)
}

// webRuns is a part of the list of runs, newest first.
type webRuns struct {
	Runs []webRun `json:"runs"`
	// Next is the value of "until" for the runs after these; absent: there are none.
	Next string `json:"next,omitempty"`
}

// webRun is a run in a list, or an array as one line.
type webRun struct {
	runview.View
	Folded bool `json:"folded,omitempty"`
	// Doing is the progress as `bee ps` prints it.
	Doing string `json:"doing,omitempty"`
}

// Runs of a page, and how many are looked at for them: those that pass a filter of sites or
// labels may be few.
const (
	webRunsOfPage = 50
	webRunsLooked = 2000
)

// Runs implements web.Records.
func (w *webRecords) Runs(ctx context.Context, q url.Values) (any, error) {
	o := psOptions{all: q.Get("all") != "", array: q.Get("array")}
	filter := state.Filter{Text: q.Get("find"), Limit: webRunsOfPage + 1}
	for _, word := range q["state"] {
		if word != "" {
			o.filter.states, filter.States = append(o.filter.states, word), append(filter.States, state.RunState(word))
		}
	}
	for name, to := range map[string]*[]string{"site": &o.filter.sites, "label": &o.filter.labels} {
		if word := q.Get(name); word != "" {
			*to = []string{word}
		}
	}
	if err := o.filter.check(); err != nil {
		return nil, err
	}
	until, after := untilOf(q.Get("until"))
	filter.Until, filter.Active = until, !o.all && !o.filter.wantsOver()
	folds := o.filter.empty() && filter.Text == "" && o.array == ""
	filter.Alone = folds
	list := &webRuns{Runs: []webRun{}}
	var err error
	if o.array != "" {
		err = w.cases(ctx, o, q.Get("until"), list)
	} else {
		err = w.pageOfRuns(ctx, filter, o, after, list)
	}
	if err == nil && folds {
		err = w.fold(ctx, o, until, list)
	}
	return list, err
}

// pageOfRuns adds runs to a list until it has as many as a page shows.
func (w *webRecords) pageOfRuns(ctx context.Context, filter state.Filter, o psOptions, after string, list *webRuns) error {
	looked := 0
	for {
		runs, err := w.s.Store.Runs(ctx, filter)
		if err != nil {
			return err
		}
		more := len(runs) == filter.Limit
		if i := slices.IndexFunc(runs, func(r state.Run) bool { return r.ID == after }); i >= 0 {
			runs = runs[i+1:]
		}
		for _, r := range runs {
			if looked++; len(list.Runs) == webRunsOfPage || looked > webRunsLooked {
				return nil
			}
			if err := w.add(ctx, r, o, list); err != nil {
				return err
			}
			after, list.Next = r.ID, nextOf(r)
		}
		if !more {
			list.Next = ""
			return nil
		}
		if len(runs) == 0 { // so many were made at one time
			filter.Limit *= 2
			continue
		}
		filter.Until = runs[len(runs)-1].Created
	}
}

// fold adds arrays to a page of the runs that are no cases, each as one line.
func (w *webRecords) fold(ctx context.Context, o psOptions, until time.Time, list *webRuns) error {
	arrays, err := w.s.Store.Arrays().All(ctx, !o.all)
	if err != nil {
		return err
	}
	from, _ := untilOf(list.Next)
	for _, a := range arrays {
		if a.Created.Before(from) || !until.IsZero() && !a.Created.Before(until) {
			continue
		}
		list.Runs = append(list.Runs, webRun{View: runview.Folded(a, 0), Folded: true})
	}
	slices.SortStableFunc(list.Runs, func(a, b webRun) int { return b.Created.Compare(a.Created) })
	return nil
}

// cases adds cases of an array, in their order. "until" is the number of the one before them.
func (w *webRecords) cases(ctx context.Context, o psOptions, before string, list *webRuns) error {
	after, err := strconv.Atoi(before)
	if err != nil || after < 0 {
		after = 0
	}
	id, err := w.arrayID(ctx, o.array)
	if err != nil {
		return err
	}
	for looked := 0; ; {
		runs, err := w.s.Store.Arrays().Page(ctx, id, after, webRunsOfPage+1)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if looked++; len(list.Runs) == webRunsOfPage || looked > webRunsLooked {
				return nil
			}
			if err := w.add(ctx, r, o, list); err != nil {
				return err
			}
			after = r.Case.Number
			list.Next = strconv.Itoa(after)
		}
		if len(runs) <= webRunsOfPage {
			list.Next = ""
			return nil
		}
	}
}

// arrayID returns the id of an array that is named by its id or name. Only a name is looked up:
// that counts the cases of the array.
func (w *webRecords) arrayID(ctx context.Context, word string) (string, error) {
	if first, err := w.s.Store.Arrays().Page(ctx, word, 0, 1); err != nil || len(first) > 0 {
		return word, err
	}
	array, err := w.s.Store.Arrays().Find(ctx, word, state.ToSee)
	return array.ID, err
}

// add adds a run to a page, unless the options leave it out.
func (w *webRecords) add(ctx context.Context, r state.Run, o psOptions, list *webRuns) error {
	views, err := passingRuns(ctx, w.s, []state.Run{r}, o)
	for _, v := range views {
		list.Runs = append(list.Runs, shownRun(v))
	}
	return err
}

// withAttempts returns a run and its attempts.
func (w *webRecords) withAttempts(ctx context.Context, id string) (state.Run, []state.Attempt, error) {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return run, nil, err
	}
	attempts, err := w.s.Store.Attempts(ctx, run.ID)
	return run, attempts, err
}

func shownRun(v runview.View) webRun {
	r := webRun{View: v}
	if v.Progress != nil {
		r.Doing = progressText(v.Progress, v.JobProgress)
	}
	return r
}

// nextOf is what continues a list after a run: its time and id.
func nextOf(r state.Run) string { return fmt.Sprintf("%d-%s", r.Created.UnixNano(), r.ID) }

func untilOf(text string) (time.Time, string) {
	at, id, _ := strings.Cut(text, "-")
	n, err := strconv.ParseInt(at, 10, 64)
	if err != nil || n <= 0 {
		return time.Time{}, ""
	}
	return time.Unix(0, n), id
}

// mostOutputs bounds the files that a page lists for each place.
const mostOutputs = 1000

// Outputs implements web.Records. Files that were changed since they were collected are left
// out, as they may be another program's.
func (w *webRecords) Outputs(ctx context.Context, id string) ([]web.Place, error) {
	run, attempts, err := w.withAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	places := []web.Place{}
	for _, o := range workspace.OutputsAtHome(attempts) {
		place := web.Place{To: o.To, Files: []web.File{}}
		if err := w.filesOf(ctx, run, &place); err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	return places, nil
}

func (w *webRecords) filesOf(ctx context.Context, run state.Run, place *web.Place) error {
	root, err := fsutil.OpenRoot(place.To)
	if err != nil { // it was moved
		return nil
	}
	defer root.Close()
	real, err := root.Real()
	if err != nil {
		return err
	}
	written, err := state.WrittenBy(ctx, w.s.Store, run.ID, real, mostOutputs+1)
	if err != nil {
		return err
	}
	if len(written) > mostOutputs {
		place.More, written = true, written[:mostOutputs]
	}
	for _, f := range written {
		name := strings.TrimPrefix(f.Path, real+"/")
		info, err := root.Lstat(name)
		if err == nil && info.Mode().IsRegular() && info.Size() == f.Size && info.ModTime().Equal(f.Modified) {
			place.Files = append(place.Files, web.File{Name: name, Size: f.Size, Modified: f.Modified})
		}
	}
	return nil
}

// Events implements web.Records.
func (w *webRecords) Events(ctx context.Context, show func(any) error) error {
	before, err := w.s.Store.History().Newest(ctx)
	for took := time.Duration(0); err == nil; {
		select {
		case <-time.After(max(workspace.WaitLook, webEventsShare*took)):
		case <-ctx.Done():
			return nil
		}
		begun := time.Now()
		before, err = w.newEvents(ctx, before, show)
		took = time.Since(begun)
	}
	return err
}

// webEventsShare is how much longer than a look for events the pause after it is.
const webEventsShare = 10

// newEvents passes on the events after those with the given numbers. It returns the numbers of
// the newest ones.
func (w *webRecords) newEvents(ctx context.Context, before map[string]int64, show func(any) error) (map[string]int64, error) {
	now, err := w.s.Store.History().Newest(ctx)
	if err != nil {
		return nil, err
	}
	changed := []string{}
	for run, newest := range now {
		if newest > before[run] {
			changed = append(changed, run)
		}
	}
	for run := range before {
		if _, is := now[run]; !is { // it has ended
			changed = append(changed, run)
		}
	}
	var lines []eventLine
	for _, run := range changed {
		events, err := w.s.Store.History().After(ctx, run, before[run])
		if err != nil {
			return nil, err
		}
		for i, shown := range report.History(events) {
			lines = append(lines, eventLine{Run: run, Number: events[i].Seq, Event: shown})
		}
	}
	slices.SortStableFunc(lines, func(x, y eventLine) int { return x.Time.Compare(y.Time) })
	for _, l := range lines {
		if err := show(l); err != nil {
			return nil, err
		}
	}
	return now, nil
}

func noAttempt(run string, n int) error {
	return &core.Error{Kind: core.NotFound, Op: "find attempt", Object: fmt.Sprintf("%d of run %s", n, run), Err: errors.New("it has had no such attempt"), Remedy: "Choose one of those that the page of the run lists."}
}
