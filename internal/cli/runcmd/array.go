package runcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// caseSource is where the job of a case comes from, and its place in the new array.
type caseSource struct {
	jobSource
	place submission.ArrayCase
	// failed: it is of a run that is over and did not succeed.
	failed bool
}

// arrayRunner submits arrays.
type arrayRunner struct{ *Commands }

// casesOf returns the cases of a Beefile's array, which is finished; none: it has no array.
func casesOf(from jobSource) []caseSource {
	if len(from.cases) > 0 || len(from.draft.Cases()) == 0 {
		return from.cases
	}
	name, of := from.draft.Job.Name, from.draft.Job.Array
	all := from.draft.Cases()
	list := make([]caseSource, len(all))
	for i, values := range all {
		list[i] = caseSource{jobSource: from, place: submission.ArrayCase{Name: name, Number: i + 1, Of: len(all), AtOnce: of.Together(), OnFailure: of.OnFailure, Values: values, Pack: of.Pack}}
	}
	return list
}

// repeatedCases are the jobs of the cases of an array as bee run repeats them.
func repeatedCases(word string, runs []state.Run) (jobSource, error) {
	from := jobSource{what: "array " + word}
	for _, run := range runs {
		one, err := repeated(run)
		if err != nil {
			return from, err
		}
		sub, err := submission.Of(run)
		if err != nil {
			return from, err
		}
		if sub.Array == nil {
			continue
		}
		from.strange = one.strange
		from.cases = append(from.cases, caseSource{jobSource: one, place: *sub.Array, failed: run.State.Final() && run.State != state.Succeeded})
	}
	return from, nil
}

// casesFailed is the word of --cases for those of a repeated array that did not succeed.
const casesFailed = "failed"

// chosen returns the cases that a word of --cases names; "": all.
func chosen(all []caseSource, word string, again bool) ([]caseSource, error) {
	wrong := func(err error, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "read", Object: "--cases " + word, Err: err, Remedy: remedy}
	}
	const remedy = "Write numbers and ranges, such as 3,7-9."
	switch {
	case word == "":
		return all, nil
	case word == casesFailed && !again:
		return nil, wrong(errors.New("a new array has no case that failed"), remedy)
	case word == casesFailed:
		list := slices.DeleteFunc(slices.Clone(all), func(c caseSource) bool { return !c.failed })
		if len(list) == 0 {
			return nil, wrong(errors.New("no case has ended without success"), "Nothing is to be run again; `bee ps ARRAY` lists the cases.")
		}
		return list, nil
	}
	wanted, there := map[int]bool{}, make(map[int]bool, len(all))
	for _, c := range all {
		there[c.place.Number] = true
	}
	for part := range strings.SplitSeq(word, ",") {
		first, last, is := strings.Cut(strings.TrimSpace(part), "-")
		if !is {
			last = first
		}
		a, err := strconv.Atoi(first)
		if err != nil {
			return nil, wrong(fmt.Errorf("%q is no number of a case", first), remedy)
		}
		b, err := strconv.Atoi(last)
		if err != nil {
			return nil, wrong(fmt.Errorf("%q is no number of a case", last), remedy)
		}
		for n := a; n <= b && len(wanted) <= len(all); n++ {
			if !there[n] {
				return nil, wrong(fmt.Errorf("there is no case %d", n), "`bee check` prints how many cases a Beefile has, and `bee ps ARRAY` lists those of an array.")
			}
			wanted[n] = true
		}
		if b < a {
			return nil, wrong(fmt.Errorf("%q is no range", part), remedy)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(c caseSource) bool { return !wanted[c.place.Number] }), nil
}

// arraySubmissions are those of the cases of an array.
type arraySubmissions struct {
	subs    []submission.Submission
	reaches reachList
	// places are those of their outputs; nil: the cases are of no Beefile.
	places *spec.DraftPlaces
}

// submissions are the cases as the flags change them, with their sites. All of them are
// checked before the first one is submitted. The user has not agreed yet to what they do outside of
// their directory.
func (a arrayRunner) submissions(from jobSource, cases []caseSource, o runOptions) (arraySubmissions, error) {
	made := arraySubmissions{subs: make([]submission.Submission, len(cases))}
	if from.strange != "" && !o.given("trust") {
		return made, &core.Error{
			Kind: core.Invalid, Op: "submit the array of", Object: from.what, Err: errors.New("another user may have written it: " + from.strange),
			Remedy: "Read it, and give --trust, or copy it to a directory of yours.",
		}
	}
	for _, flag := range []string{"interactive", "tty", "if-new", "name", "explain"} {
		if o.given(flag) && (flag != "if-new" || !o.jobs) {
			return made, &core.Error{Kind: core.Unsupported, Op: "submit the array of", Object: from.what, Err: fmt.Errorf("--%s is for one run", flag), Remedy: "Leave it out, or name one case by `bee run --again`."}
		}
	}
	all := *a.Commands
	all.Workspace = a.ReadingSitesOnce()
	id := state.NewID()
	if len(from.cases) == 0 {
		made.places = from.draft.OutputPlaces()
	}
	for i, one := range cases {
		if made.places != nil { // a draft of each at the same time would take much memory
			one.draft = from.draft.Case(one.place.Number)
		}
		f, err := all.finish(one.jobSource, o)
		if err == nil {
			made.subs[i], err = f.submission(&all, o)
		}
		if err == nil {
			err = all.AddReceivers(&made.subs[i])
		}
		if err != nil {
			return made, fmt.Errorf("case %d (%s): %w", one.place.Number, one.place.Values, err)
		}
		made.reaches.add(f.reaches)
		if made.places != nil && !made.places.Add(f.job, one.place.Number) {
			return made, from.draft.Problems()
		}
		place := one.place
		place.ID = id
		made.subs[i].Array = &place
	}
	return made, nil
}

// run submits an array, and waits for its cases unless they are to continue in the
// background.
func (a arrayRunner) run(ctx context.Context, from jobSource, o runOptions) error {
	if from.draft != nil { // what is wrong with the array itself
		if _, err := a.finish(from, o); err != nil {
			return err
		}
	}
	cases, err := chosen(casesOf(from), o.cases, o.again != "")
	if err != nil {
		return err
	}
	made, err := a.submissions(from, cases, o)
	if err == nil {
		err = a.Allow(from.what, from.strange, made.reaches.list, o.trust, o.quiet)
	}
	if err != nil {
		return err
	}
	subs := made.subs
	remove, err := ticketOf([]submission.Job{{Runs: subs}}, o)
	if err != nil {
		return err
	}
	defer remove()
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := a.TakeOrphans(ctx, s); err != nil {
		return err
	}
	if o.ticket == "" {
		jobs, is, err := jobsRunner(a).continueJobs(ctx, s, []submission.Job{{Runs: subs}})
		switch {
		case err != nil:
			return err
		case is && o.detach:
			return a.printLeft(&jobs[0], o)
		case is:
			return a.await(ctx, s, jobs[0].id(), jobs[0].runs, o)
		}
	}
	runs, err := submission.SubmitArray(ctx, s.Store, subs)
	if err != nil {
		return err
	}
	array := subs[0].Array
	if o.ticket != "" {
		s.KeepBinary(ctx)
		if !o.quiet {
			a.warnOf(subs[0].Job.SkippedSites(subs[0].Sites))
			a.sayOf(ctx, s, &subs[0])
			a.Say("array %s of %s: %s. Its ticket is made once each computes, is over, or is started by its site", array.ID, array.Name, console.CountText(len(runs), "case"))
		}
		return severalTicket{jobsRunner(a), s, []submittedJob{{first: &subs[0], runs: runs}}, o}.carry(ctx, func(runs []state.Run) error {
			return a.await(ctx, s, array.ID, runs, o)
		})
	}
	due, err := s.Store.Arrays().Due(ctx, carriedArray(array)) // the supervisor continues the others in their turn
	if err == nil {
		err = s.Background(due...)
	}
	if err != nil {
		return fmt.Errorf("go on in the background with array %s: %w", array.ID, err)
	}
	if !o.quiet {
		a.warnOf(subs[0].Job.SkippedSites(subs[0].Sites))
		a.sayOf(ctx, s, &subs[0])
	}
	if o.detach {
		return a.printLeft(&submittedJob{first: &subs[0], runs: runs}, o)
	}
	if !o.quiet {
		a.Say("array %s of %s: %s. It continues without this command; `bee stop %s` ends it", array.ID, array.Name, console.CountText(len(runs), "case"), array.ID)
	}
	return a.await(ctx, s, array.ID, runs, o)
}

// printLeft prints what there is to know of an array that continues in the background.
func (a arrayRunner) printLeft(array *submittedJob, o runOptions) error {
	id, name := array.id(), array.name()
	if o.asJSON {
		return a.WriteJSON(map[string]any{"id": id, "name": name, "state": state.Queued, "runs": idsOf(array.runs)})
	}
	if _, err := fmt.Fprintln(a.Stdout, id); err != nil || o.quiet {
		return err
	}
	a.Say("array %s of %s continues in the background; `bee ps %s` lists its cases, `bee stop %s` ends it", name, console.CountText(len(array.runs), "case"), id, id)
	return nil
}

// carriedArray is the array whose runs have controllers: an array itself, or that of its packs.
func carriedArray(of *submission.ArrayCase) string {
	if of.Pack > 0 {
		return submission.PacksOf(of.ID)
	}
	return of.ID
}

// shownCases is of how many cases the end is explained.
const shownCases = 10

// whyOver is why a case did not succeed.
func whyOver(run state.Run) string {
	if run.ExitCode != nil && *run.ExitCode != 0 {
		return fmt.Sprintf("exit code %d", *run.ExitCode)
	}
	return run.Message
}

// await waits until all cases are over, and ends with the code of the first one that did not
// succeed.
func (a arrayRunner) await(ctx context.Context, s *workspace.Session, id string, runs []state.Run, o runOptions) error {
	over, err := s.AwaitEnds(ctx, runs, false)
	if err != nil {
		return err
	}
	array, code, err := a.ending(ctx, s, id, over, o.quiet)
	if err != nil {
		return err
	}
	if o.asJSON {
		if err := a.WriteJSON(runview.OfArray(array)); err != nil {
			return err
		}
	}
	var ending error
	if code != 0 {
		ending = console.Exit(code)
	}
	return a.Reported(o.results, ending, func() error { return a.records.Results(ctx, s, o.results, over, false) })
}

// ending reports how cases of an array ended, and returns it with the code of the first one
// that did not succeed.
func (a arrayRunner) ending(ctx context.Context, s *workspace.Session, id string, over []state.Run, quiet bool) (array state.Array, code int, err error) {
	failed := 0
	for _, run := range over {
		if run.State == state.Succeeded {
			continue
		}
		if failed++; failed <= shownCases && !quiet {
			a.Say("run %s (%s) %s: %s", run.ID, run.Name, run.State, whyOver(run))
		}
		if code == 0 {
			code = workspace.CodeOf(run)
		}
	}
	if failed > shownCases && !quiet {
		a.Say("%s more did not succeed; `bee ps %s` lists all", console.CountText(failed-shownCases, "case"), id)
	}
	if array, err = s.Store.Arrays().Array(ctx, id); err != nil || quiet {
		return array, code, err
	}
	a.Say("array %s: %s", id, runview.ArrayText(array))
	if failed > 0 {
		a.On(a.Stderr).SayBelow("`bee logs --failed %s` shows what they printed, `bee retry %s` runs them again.", id, id)
	}
	return array, code, nil
}

// idsOf are the ids of runs.
func idsOf(runs []state.Run) []string {
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	return ids
}
