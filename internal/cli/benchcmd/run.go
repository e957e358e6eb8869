package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/report"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

func (a *Commands) newBenchRunCommand() *cobra.Command {
	o := benchOptions{verb: "run"}
	c := &cobra.Command{
		Use: "run [STUDY|FILE]", Short: "Measure a study, or a job of yours, in several environments alternately", Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeStudies,
		Long: `Measure a study in each of its environments alternately, in random order, and end with
the verdicts in sentences. With --job the study is made of a Beefile of yours.

Ratios within one run are compared, so nothing need be quiet and no setting of this
machine is changed. An environment that does not work here is left out, with the reason.
"Inconclusive" is an answer: more blocks would be needed. Ctrl-C ends after the current
measurement; ` + "`bee bench resume DIR`" + ` continues.`,
		Example: "  bee bench run layers\n  bee bench run --job job.yaml --metric 'speed=regex:^Performance:\\s+(\\S+)' --better higher\n  bee bench run layers --env rootless,docker --blocks 12",
		RunE: func(c *cobra.Command, args []string) error {
			s, text, err := o.study(args)
			if err != nil {
				return err
			}
			o.command = repeating(c, args)
			return a.benchRun(c.Context(), s, text, o)
		},
	}
	f := c.Flags()
	o.choice(c)
	f.StringVar(&o.baseline, "baseline", "", "`directory` of former results of the study, to compare the new ones with")
	f.StringVarP(&o.out, "output", "o", "", "`directory` of the results (default bench-STUDY-DATE)")
	o.series(f)
	o.trust.Flag(f, "the study")
	return c
}

func (a *Commands) benchRun(ctx context.Context, s *study.Study, text string, o benchOptions) error {
	session, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer session.Close()
	b := a.newBench(session, s, o)
	defer b.end()
	if err := b.alone(ctx, s.Name); err != nil {
		return err
	}
	var before evaluate.Series
	if o.baseline != "" {
		if o.baseline, err = filepath.Abs(o.baseline); err != nil {
			return err
		}
		if before, err = former(o.baseline); err != nil { // before anything is measured
			return err
		}
	}
	plan, err := a.resolve(ctx, s, text, o, b, session.Images)
	if err != nil {
		return err
	}
	if plan.Command, plan.ComparedWith = o.command, o.baseline; o.baseline != "" {
		if c := evaluate.Compare(before, evaluate.Series{Name: s.Name, Plan: plan}); len(c.Differences) > 0 {
			return differ(&c, "Measure without --baseline, and use `bee bench compare --allow-different`.")
		}
	}
	if o.out == "" {
		o.out = "bench-" + s.Name + "-" + time.Now().Format("20060102-150405")
	}
	dir, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	j, err := record.Create(dir, plan)
	if err != nil {
		return err
	}
	b.hint()
	if err := b.waitUntilQuiet(ctx, j); err != nil {
		return errors.Join(err, j.Close())
	}
	return b.measure(ctx, j)
}

// hint names settings of this machine that make figures vary. Bee changes none.
func (b *bench) hint() {
	for _, text := range measure.Hints(measure.HostHere(measure.Here(b.app.Version))) {
		b.app.benchStep(text)
	}
}

// quietWait is how long a study waits for a quiet host, and then continues with a flag.
const quietWait = 5 * time.Minute

// waitUntilQuiet waits until other processes leave the processors alone. That they do not is noted in the plan.
func (b *bench) waitUntilQuiet(ctx context.Context, j *record.Journal) error {
	end := time.Now().Add(b.o.quiet)
	for reported := false; !measure.Quiet() && time.Now().Before(end); reported = true {
		if !reported {
			b.app.benchStep(fmt.Sprintf("waiting up to %s until this machine is quiet; Ctrl-C continues at once", b.o.quiet))
		}
		select {
		case <-time.After(time.Second):
			continue
		case <-ctx.Done():
		case <-b.soft:
		}
		break
	}
	if measure.Quiet() {
		return nil
	}
	return j.MarkBusy()
}

// alone has the study measured alone on its hosts, from the first trial on. A measurement that
// another study has left is ended.
func (b *bench) alone(ctx context.Context, study string) (err error) {
	if err := b.app.Paths(); err != nil {
		return err
	}
	if err := b.app.endLeft(ctx, b.hosts.s); err != nil {
		return err
	}
	b.launcher.locks = newHostLocks(study, b.hosts.s.Provider)
	b.launcher.note, err = newRunNote(b.app.StateDir)
	return err
}

// A bench is a study that is measured by this process.
type bench struct {
	app   *Commands
	o     benchOptions
	taker *measure.Taker
	hosts *hosts
	// launcher is the taker's.
	launcher *benchLauncher
	// sitesFile is read once, as a plan asks for the sites of each point and environment; nil: not yet.
	sitesFile *spec.SitesFile

	soft, hard chan struct{} // closed by the first and the second Ctrl-C
	end        func()
}

func (a *Commands) newBench(s *workspace.Session, st *study.Study, o benchOptions) *bench {
	b := &bench{app: a, o: o, soft: make(chan struct{}), hard: make(chan struct{})}
	b.hosts = &hosts{s: s, say: a.benchStep, stop: b.soft}
	b.launcher = &benchLauncher{s: s, stop: b.hard, hosts: b.hosts}
	here := measure.Here(a.Version)
	b.taker = &measure.Taker{Study: st, Launcher: b.launcher, Site: o.site, Programs: hostPrograms, Cache: here.CacheBytes, Cores: here.Cores}
	b.taker.First = func(job *spec.Job) string {
		sites, err := b.sites(job)
		if err != nil || len(sites) == 0 { // nothing is measured there
			return ""
		}
		return sites[0].Name
	}
	b.taker.Far = func(job *spec.Job) bool {
		sites, err := b.sites(job)
		return err == nil && len(sites) > 0 && sites[0].Provider != "local"
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM)
	ended := make(chan struct{})
	var once sync.Once
	b.end = func() {
		once.Do(func() {
			core.BestEffort(b.hosts.release()) // it was printed, and the sweep finds them
			b.launcher.locks.unlock()
			b.launcher.note.remove()
			signal.Stop(signals)
			close(ended)
		})
	}
	go func() {
		for n := 0; ; n++ {
			select {
			case <-signals:
			case <-ended:
				return
			}
			switch n {
			case 0:
				a.Say("ending after the current measurement; Ctrl-C again ends it now")
				close(b.soft)
			case 1:
				close(b.hard)
			}
		}
	}()
	return b
}

// sites returns the sites of a job, by the sites file as it was at the first call.
func (b *bench) sites(job *spec.Job) ([]spec.Site, error) {
	if b.sitesFile == nil {
		f, err := b.app.FindSites()
		if err != nil {
			return nil, err
		}
		b.sitesFile = &f
	}
	return workspace.SitesOf(job, *b.sitesFile)
}

// measure measures into a journal, and reports.
func (b *bench) measure(ctx context.Context, j *record.Journal) error {
	b.taker.Dir = j.Dir
	if err := b.taker.Clear(); err != nil {
		return errors.Join(err, j.Close())
	}
	if err := b.hosts.acquireAll(ctx, b.taker, &j.Plan); err != nil {
		return errors.Join(err, j.Close())
	}
	if err := record.WriteHosts(j.Dir, b.recordedHosts(j, false)); err != nil {
		return errors.Join(err, j.Close())
	}
	r := runner.Runner{
		Journal: j, Measurer: b.taker, Together: b.taker.Together, Family: evaluate.Family(&j.Plan), Now: time.Now, Stop: b.soft, Cut: b.hard, Report: b.progress, Epoch: b.epoch(j), Ends: b.hosts.ends,
		Precise: func(rows []record.Row) bool { return evaluate.Precise(&j.Plan, rows) }, Scant: b.scant, Failed: b.failed,
	}
	if len(j.Rows) == 0 {
		b.app.benchStep("measuring " + aheadText(&j.Plan))
	}
	end, err := r.Run(ctx)
	released := b.hosts.release() == nil
	hosts := b.recordedHosts(j, released)
	if err = errors.Join(explained(err, j.Dir), record.WriteHosts(j.Dir, hosts), j.Close()); err != nil {
		return err
	}
	if len(j.Plan.Environments) == 1 { // one against itself
		return b.app.printResolution(&j.Plan, j.Rows, b.o.asJSON)
	}
	rep := report.New(j.Plan, j.Rows)
	rep.On(hosts)
	if j.Plan.ComparedWith != "" {
		before, err := former(j.Plan.ComparedWith)
		if err != nil {
			return err
		}
		c := evaluate.Compare(before, evaluate.Series{Name: filepath.Base(j.Dir), Plan: j.Plan, Rows: j.Rows})
		rep.Compare(&c)
	}
	page := filepath.Join(j.Dir, "report.html")
	if err := writeReport(page, rep.HTML); err != nil {
		return err
	}
	if b.o.asJSON {
		err = rep.JSON(b.app.Stdout)
	} else {
		err = b.app.printBench(rep, end, j.Dir, page)
	}
	if err != nil {
		return err
	}
	if end == runner.Interrupted || end == runner.HostsEnd {
		return console.Exit(console.ExitStopped)
	}
	return gate(rep, b.o)
}

// explained adds to the error of lost hosts how to continue.
func explained(err error, dir string) error {
	if e, is := errors.AsType[*core.Error](err); is && e.Kind == core.Lost && core.OwnRemedy(e) == "" {
		e.Remedy = "What was measured is kept. `bee bench resume " + dir + "` continues on other hosts."
	}
	return err
}

// recordedHosts are those that a series of measurements has used.
func (b *bench) recordedHosts(j *record.Journal, released bool) record.Hosts {
	return record.Hosts{Schema: record.Schema, Here: measure.HostHere(measure.Here(b.app.Version)), Held: b.hosts.record(released), Exercised: record.ExercisedBy(j.Rows)}
}

// epoch is that of the last rows, or a new one where the machine was started since, or a site
// has granted other hosts.
func (b *bench) epoch(j *record.Journal) int {
	if len(j.Rows) == 0 {
		return 0
	}
	last := j.Rows[len(j.Rows)-1]
	if b.hosts.fresh {
		return last.Epoch + 1
	}
	if up, err := uptime(); err == nil && time.Since(last.Begin) > up {
		return last.Epoch + 1
	}
	return last.Epoch
}

func uptime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t)
	return time.Duration(t.Nano()), err
}

// failed prints why a measurement failed, and where its whole output is.
func (b *bench) failed(r record.Row, givenUp bool) {
	lines := strings.Split(r.Error, "\n")
	for i := range lines {
		lines[i] = output.Printable(lines[i])
	}
	text := r.Environment + " failed: " + strings.Join(lines, "\n")
	if r.Log != "" {
		text += "\nall output: zstdcat " + shell.Word(filepath.Join(b.taker.Dir, r.Log))
	}
	b.app.benchStep(text)
	if givenUp {
		b.app.benchStep(r.Environment + " is given up: three of its measurements in a row failed twice")
	}
}

// scant warns of a budget without a verdict.
func (b *bench) scant(s runner.Scant) {
	most := "about"
	if s.Tried {
		most = "the starts alone of about"
	}
	b.app.benchStep(fmt.Sprintf("the budget of %s suffices for %s %s, and a verdict takes %d: set --budget %s at least, or choose a smaller --size or fewer --env",
		s.Budget, most, console.CountText(s.Blocks, "block"), s.Least, s.Needs.Round(time.Minute)+time.Minute))
}

func (b *bench) progress(p runner.Progress) {
	text := fmt.Sprintf("block %d, %s", p.Block, p.Environment)
	if p.Block == 0 {
		text = "warming up, " + p.Environment
	}
	if p.Point.ID != "" {
		text += ", " + p.Point.ID
	}
	if p.Left > 0 {
		text += fmt.Sprintf("; at most %s left", p.Left.Round(time.Second))
	}
	b.app.benchStep(text)
}

// benchStep shows a step.
func (a *Commands) benchStep(text string) { a.Say("%s", text) }

func (a *Commands) printBench(r *report.Report, end runner.End, dir, page string) error {
	var b strings.Builder
	for _, s := range r.Sentences {
		b.WriteString(output.Printable(s) + "\n")
	}
	switch end {
	case runner.Interrupted:
		fmt.Fprintf(&b, "Interrupted after %s: `bee bench resume %s` continues.\n", console.CountText(r.Result.Blocks, "block"), dir)
	case runner.HostsEnd:
		fmt.Fprintf(&b, "The site takes the hosts back, and the next measurement would not end before: `bee bench resume %s` continues after %s.\n", dir, console.CountText(r.Result.Blocks, "block"))
	case runner.OverBudget:
		fmt.Fprintf(&b, "The budget ended it after %s.\n", console.CountText(r.Result.Blocks, "block"))
	case runner.Precise, runner.AllBlocks, runner.OnlyBase:
		fmt.Fprintf(&b, "%s measured.\n", console.CountText(r.Result.Blocks, "block"))
	}
	fmt.Fprintf(&b, "Report: %s\n", page)
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}
