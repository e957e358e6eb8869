// Package measure takes one measurement of a study: it runs the job of an environment
// through a Launcher, reads the figures from what the job printed and wrote, and records
// what may disturb them. It knows no site and no controller.
package measure

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/klauspost/compress/zstd"
)

// Launcher runs a job as any other run.
type Launcher interface {
	// Launch runs the job of an environment to its end. The output is written as it comes.
	// A job that fails is an Outcome; an error is a fault of this machine.
	Launch(ctx context.Context, job *spec.Job, environment study.Environment, output io.Writer) (Outcome, error)
}

// Outcome is how a run ended.
type Outcome struct {
	Run, Image string
	// Runtime is the one of the first node.
	Runtime string
	// Hosts are their names, sorted.
	Hosts []string
	// Failed is why the run has no result, or empty.
	Failed string
	Remedy string
	// Secrets are the values that the job got. Nothing that is written has them.
	Secrets []string
	// Start is the time from the launch of the node to the first line of the command, and
	// Compute that of the command.
	Start, Compute time.Duration
	// Processor is the time of all processors of all nodes, and MaxRSS that of the largest
	// process in bytes. 0: not known.
	Processor time.Duration
	MaxRSS    int64
	Cost      float64
	// Energy of the processors of all hosts, in joules, while the containers were there; 0: not
	// known, for the reasons in NoEnergy.
	Energy   float64
	NoEnergy []string
	// Guest and Host are the times of the command by the clock of a guest and by that of its host.
	// 0: not known.
	Guest, Host time.Duration
	// VMCommand is the command line of QEMU for the guest of node 0, or empty.
	VMCommand string
	// Found is what computed, where it ran on this host, or in the first guest or on the first other host.
	Found fair.Found
}

// cacheTimes is how many times the last-level cache data have to be to measure memory.
const cacheTimes = 4

// maxOutput bounds what is read of one output.
const maxOutput = 64 << 20

// Taker takes measurements of a study into a directory of results.
type Taker struct {
	Study    *study.Study
	Dir      string
	Launcher Launcher
	// Site is the site of environments that name none; empty: the user's first.
	Site string
	// First, if set, returns the name of the user's first site for a job; empty: not known.
	First func(*spec.Job) string
	// Far, if set, reports whether a job runs on other machines than this one, whose processes only they see.
	Far func(*spec.Job) bool
	// Programs, if set, returns names that a command looks up in its PATH.
	Programs func(argv []string) []string
	// Cache is the size of the last-level cache in bytes, and Cores the number of cores of
	// this machine; 0: not known.
	Cache int64
	Cores int

	contents contents          // of guests and of other machines
	shown    map[measured]bool // those of which a row has the command line of QEMU
}

// Job is the job of an environment at a point, with its outputs in dir.
func (t *Taker) Job(p record.Point, environment, dir string) (*spec.Job, error) {
	job, err := t.Study.ComposeJob(pointOf(p), environment)
	if err != nil {
		return nil, err
	}
	e := t.Study.Environments[environment]
	if e.Runtime != "" {
		job.Runtime = e.Runtime
	}
	if e.Native == study.NativeHost {
		job.Runtime = spec.HostRuntime
		if job.Run != nil { // the image's entrypoint is not there
			job.Entrypoint = &spec.Command{}
		}
	}
	if site := cmp.Or(e.Site, t.Site); site != "" {
		job.Sites = []string{site}
	}
	job.Name = t.Study.Name + "-" + environment
	job.Outputs = slices.Clone(job.Outputs)
	for i := range job.Outputs {
		job.Outputs[i].To = dir
	}
	cores, err := t.Study.CoresAt(pointOf(p), environment)
	if err != nil {
		return nil, err
	}
	limit(job, &e, cores)
	if slices.Contains(t.Study.Fair, coldFiles) {
		setProgram(job)
	}
	n, err := t.Study.CopiesAt(pointOf(p))
	if err == nil && n > 1 {
		err = copies(job, n, dir)
	}
	return job, err
}

func pointOf(p record.Point) *study.Point {
	values := make(map[string]study.Value, len(p.Values))
	for k, v := range p.Values {
		values[k] = study.Value(v)
	}
	return &study.Point{Values: values}
}

// limit bounds a job to what its environment may use. Machines have it as their hardware.
func limit(job *spec.Job, e *study.Environment, cores int) {
	if e.PerHost > 1 {
		job.Nodes = e.PerHost
		if job.VM != nil {
			job.VM.PerHost = e.PerHost
		}
	}
	if job.VM != nil {
		if cores > 0 {
			job.VM.CPUs = cores
		}
		if e.Limit.Memory > 0 {
			job.VM.Memory = e.Limit.Memory
		}
		return
	}
	if e.Limit.Memory > 0 {
		job.Memory = e.Limit.Memory
	}
	if cores > 0 {
		job.Cores = cores
	}
}

// Try runs the command `true` in an environment, to find out whether that is possible here.
// The Outcome has the reason where it is not.
func (t *Taker) Try(ctx context.Context, p record.Point, environment string) (Outcome, error) {
	job, err := t.Job(p, environment, "")
	if err != nil {
		return Outcome{}, err
	}
	job.Inputs, job.Outputs, job.Setup, job.Post, job.Checkpoint, job.Retry = nil, nil, nil, nil, nil, 0
	command := job.Run
	job.Run, job.Entrypoint = &spec.Command{Argv: []string{"true"}}, &spec.Command{}
	if job.Runtime == spec.HostRuntime && command != nil && t.Programs != nil {
		return t.findPrograms(ctx, job, environment, t.Programs(command.Words()))
	}
	o, err := t.Launcher.Launch(ctx, job, t.Study.Environments[environment], io.Discard)
	o.hideReasons()
	return o, err
}

// findPrograms tries whether a host has the programs of a command.
func (t *Taker) findPrograms(ctx context.Context, job *spec.Job, environment string, names []string) (Outcome, error) {
	job.Run = &spec.Command{Argv: append([]string{inside.Program, inside.Command, inside.ProgramsCommand}, names...)}
	var printed bytes.Buffer
	o, err := t.Launcher.Launch(ctx, job, t.Study.Environments[environment], &core.Limited{W: &printed, Left: inside.MaxError})
	if missing := inside.Error(printed.Bytes()); err == nil && o.Failed != "" && core.IsKind(missing, core.NotFound) {
		o.Failed, o.Remedy = missing.Error(), core.Remedy(missing)
	}
	o.hideReasons()
	return o, err
}

// workPrefix begins the name of a directory that has the outputs of one measurement.
const workPrefix = ".work-"

// Clear removes what measurements have left whose process was killed.
func (t *Taker) Clear() error {
	root, err := fsutil.OpenRoot(t.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := root.Glob(workPrefix + "*")
	for _, name := range names {
		err = errors.Join(err, fsutil.RemoveAll(filepath.Join(t.Dir, name)))
	}
	return err
}

// Measure takes one measurement.
func (t *Taker) Measure(ctx context.Context, m runner.Measurement) (record.Row, error) {
	work, err := os.MkdirTemp(t.Dir, workPrefix) //nolint:forbidigo // the user's own directory
	if err != nil {
		return record.Row{}, err
	}
	defer fsutil.RemoveAll(work)
	job, err := t.Job(m.Point, m.Environment, work)
	if err != nil {
		return record.Row{}, err
	}
	n, err := t.Study.CopiesAt(pointOf(m.Point))
	if err == nil && n > 1 {
		err = makeCopyDirs(work, n)
	}
	if err != nil {
		return record.Row{}, err
	}
	row, outcome, output, err := t.launch(ctx, m, job)
	if err != nil {
		return row, err
	}
	if err := t.log(&row, m, output, outcome.Failed); err != nil {
		return row, err
	}
	if err := t.keepFiles(&row, outcome, work); err != nil {
		return row, err
	}
	if outcome.Failed == "" && slices.Contains(t.Study.Fair, coldFiles) {
		row.Flags = append(row.Flags, warm(t.outputs(output, n, work), job.VM != nil, t.kernels(job))...)
	}
	switch {
	case outcome.Failed == "" && n > 1:
		err = t.readCopies(ctx, &row, outcome, n, work)
	case outcome.Failed == "":
		err = t.read(ctx, &row, outcome, output, work)
	default:
		err = failure(outcome, output)
	}
	fail(&row, err)
	outcome.hideRow(&row)
	return row, ctx.Err()
}

// failure is the error of a run that failed.
func failure(o Outcome, output []byte) error {
	return fmt.Errorf("%s%s", strings.TrimSpace(o.Failed+" "+o.Remedy), study.Ending(string(output)))
}

// fail has a row be that of a measurement that failed by an error, if there is one.
func fail(row *record.Row, err error) {
	if err != nil {
		row.Status, row.Error = record.Failed, err.Error()
	}
}

// log keeps the output of a measurement, compressed.
func (t *Taker) log(row *record.Row, m runner.Measurement, output []byte, failed string) error {
	row.Log = filepath.Join(record.LogsDir, logName(m))
	return keep(filepath.Join(t.Dir, row.Log), output, failed)
}

// launch runs the job of a measurement. The row has all but the log, the figures and what is wrong
// with them.
func (t *Taker) launch(ctx context.Context, m runner.Measurement, job *spec.Job) (row record.Row, outcome Outcome, printed []byte, err error) {
	own := t.Study.Environments[m.Environment].Bee == ""
	guest := job.VM != nil && own
	far := t.Far != nil && t.Far(job)
	within := guest || own && far // what computes is seen from within alone
	if within {
		timed(job, t.contents.detail(measured{m.Environment, m.Point.ID}))
	}
	row = record.Row{Begin: time.Now()}
	if !far { // what this machine does says nothing of another
		row.Load = load()
		took, others := yardstick()
		row.YardstickSeconds, row.Others = took.Seconds(), others
		row.Pressure, row.CachedBytes, row.MHz = conditions("/proc")
	}
	before := usageNow()
	var output bytes.Buffer
	begin := time.Now()
	outcome, err = t.Launcher.Launch(ctx, job, t.Study.Environments[m.Environment], &core.Limited{W: &output, Left: maxOutput})
	if err != nil {
		return row, outcome, nil, err
	}
	outcome.hideReasons()
	if row.Seconds = time.Since(begin).Seconds(); !far {
		during(&row, before, usageNow(), outcome.Processor, guest)
	}
	row.Run, row.Image, row.Hosts, row.Status, row.Flags = outcome.Run, outcome.Image, outcome.Hosts, record.OK, disturbances(&row, runtime.NumCPU())
	at := measured{m.Environment, m.Point.ID}
	if within {
		t.contents.complete(at, outcome.Image, &outcome.Found)
		row.Unfair = merge(&outcome.Found)
		if outcome.Host > 0 { // without what is printed after the command
			outcome.Compute = outcome.Host
		}
	}
	if outcome.VMCommand != "" && !t.shown[at] {
		if t.shown == nil {
			t.shown = map[measured]bool{}
		}
		row.VMCommand, t.shown[at] = outcome.VMCommand, true
	}
	row.CMA, row.MPISettings = string(outcome.Found.CMA), outcome.Found.Settings
	row.Foreign, row.Runtime = outcome.Found.Foreign, outcome.Runtime
	if site := t.Study.Environments[m.Environment].Site; site != "" && site != t.usual(m) {
		row.Site = site
		row.Flags = append(row.Flags, "measured on site "+site+", whose machines may differ from the others")
	}
	row.Programs, row.Cores, row.Bound, row.Flags = outcome.Found.Programs, outcome.Found.Cores, outcome.Found.Bound, append(row.Flags, t.doubts(outcome)...)
	if within && job.Nodes > 1 { // hosts have their own, and may share them where they are emulated
		row.Cores, row.Bound = 0, 0
	}
	if !within && job.VM == nil && outcome.Found.Cores > 0 && slices.Contains(t.Study.Fair, "same-limits") {
		limit := outcome.Found.Memory * int64(max(1, t.Study.Environments[m.Environment].PerHost))
		row.MemoryLimit = &limit
	}
	if !within {
		row.Flags = append(row.Flags, t.unlimited(m, job, outcome)...)
	}
	if row.GuestSeconds, row.HostSeconds = outcome.Guest.Seconds(), outcome.Host.Seconds(); guest && outcome.Failed == "" {
		row.Flags = append(row.Flags, apart(outcome.Guest, outcome.Host)...)
	}
	return row, outcome, outcome.hidden(output.Bytes()), nil
}

// usual is the site of environments that name none; empty: not known.
func (t *Taker) usual(m runner.Measurement) string {
	job, err := t.Study.ComposeJob(pointOf(m.Point), m.Environment)
	if t.Site != "" || t.First == nil || err != nil {
		return t.Site
	}
	return t.First(job)
}

// doubts are flags about what was measured.
func (t *Taker) doubts(o Outcome) []string {
	var flags []string
	if slices.Contains(t.Study.Fair, "out-of-cache") && o.MaxRSS > 0 && o.MaxRSS < cacheTimes*t.Cache {
		flags = append(flags, "no process had four times the memory of the last-level cache: figures of memory are those of the cache")
	}
	if o.Found.Cores > 0 && o.Found.Busiest > o.Found.Cores {
		flags = append(flags, "more processes of one program than cores")
	}
	if o.Failed == "" {
		flags = append(flags, t.NoEnergy(o)...)
	}
	for _, program := range o.Found.Misled {
		flags = append(flags, program+" looks at its own executable or runs as another user, and finds the image's loader in its place: measure as root")
	}
	if slices.Contains(t.Study.Fair, "same-binaries") && o.Failed == "" {
		if len(o.Found.Programs) == 0 {
			flags = append(flags, "the programs were not seen, so that they could not be compared")
		} else if n := len(o.Found.Unseen); n > 0 {
			flags = append(flags, fmt.Sprintf("the programs were not seen on %d of %d hosts", n, 1+n+len(o.Found.Others)))
		}
	}
	return flags
}

// NoEnergy returns why a study does not get the energy that it wants, with the remedies.
func (t *Taker) NoEnergy(o Outcome) []string {
	if o.Energy > 0 || !slices.ContainsFunc(t.Study.MetricNames, func(name string) bool { return t.Study.Metrics[name].Builtin == "energy" }) {
		return nil
	}
	var flags []string
	for _, why := range o.NoEnergy {
		flags = append(flags, "the energy is not known: "+why)
	}
	if len(flags) == 0 {
		flags = []string{"the energy is not known: no host has reported it. Measure with the same version of bee everywhere."}
	}
	return flags
}

// unlimited are flags about limits of an environment that do not hold.
func (t *Taker) unlimited(m runner.Measurement, job *spec.Job, o Outcome) []string {
	e := t.Study.Environments[m.Environment]
	cores, err := t.Study.CoresAt(pointOf(m.Point), m.Environment)
	if job.VM != nil || err != nil {
		return nil
	}
	var flags []string
	if want := int64(job.Memory); want > 0 && (o.Found.Memory == 0 || o.Found.Memory > want) {
		flags = append(flags, "the memory is not limited to what the study asks for")
	}
	if want := cores * max(1, e.PerHost); cores > 0 && o.Found.Cores > want {
		flags = append(flags, "the cores are not limited to what the study asks for")
	} else if want > t.Cores && t.Cores > 0 {
		flags = append(flags, "the containers have more cores together than the host has")
	}
	return flags
}

func logName(m runner.Measurement) string {
	name := fmt.Sprintf("%03d-%02d-%s", m.Block, m.Place, m.Environment)
	if m.Again {
		name += "-again"
	}
	if m.Try > 1 { // the log of the one before is kept
		name += fmt.Sprintf("-try%d", m.Try)
	}
	if m.Point.ID != "" {
		name += "-" + strings.Map(func(r rune) rune {
			if strings.ContainsRune("/\x00 ", r) {
				return '_'
			}
			return r
		}, m.Point.ID)
	}
	return name[:min(len(name), 200)] + logEnding
}

// logEnding ends the names of logs.
const logEnding = ".log.zst"

// keep writes a log.
func keep(file string, output []byte, failed string) error {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	if err != nil {
		return err
	}
	if _, err := z.Write(output); err != nil {
		return err
	}
	if failed != "" {
		if _, err := fmt.Fprintf(z, "\nbee: %s\n", failed); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return fsutil.WriteFile(file, b.Bytes(), 0o644)
}

// read verifies the answers and fills in the figures.
func (t *Taker) read(ctx context.Context, row *record.Row, o Outcome, output []byte, work string) error {
	text := func(file string) ([]byte, error) {
		if file == "" {
			return output, nil
		}
		raw, err := readOutput(work, file)
		return o.hidden(raw), err
	}
	for i := range t.Study.Check {
		c := &t.Study.Check[i]
		raw, err := text(c.File)
		if err == nil {
			err = c.Verify(ctx, raw)
		}
		if err != nil {
			return fmt.Errorf("the answer is wrong: %w", err)
		}
	}
	row.Metrics = map[string][]record.Figure{}
	for _, name := range t.Study.MetricNames {
		m := t.Study.Metrics[name]
		if m.Builtin != "" {
			if v, known := builtin(m.Builtin, o); known {
				row.Metrics[name] = []record.Figure{{Value: v}}
			}
			continue
		}
		raw, err := text(m.SourceFile())
		if err != nil {
			return fmt.Errorf("metric %s: %w", name, err)
		}
		figures, err := m.Extract(ctx, raw)
		if err != nil {
			return fmt.Errorf("metric %s: %w", name, err)
		}
		for _, f := range figures {
			row.Metrics[name] = append(row.Metrics[name], record.Figure{Key: f.Key, Value: f.Value})
		}
	}
	return nil
}

func builtin(name string, o Outcome) (float64, bool) {
	switch name {
	case "seconds":
		return o.Compute.Seconds(), o.Compute > 0
	case "start_seconds":
		return o.Start.Seconds(), o.Start > 0
	case "host_cpu":
		return o.Processor.Seconds(), o.Processor > 0
	case "max_rss":
		return float64(o.MaxRSS), o.MaxRSS > 0
	case "cost":
		return o.Cost, o.Cost > 0
	case "energy":
		return o.Energy, o.Energy > 0
	}
	return 0, false
}

// readOutput reads an output of the job, by its name in the volume or the end of its path.
func readOutput(dir, file string) ([]byte, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var found []string
	err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err == nil && info.Mode().IsRegular() && (name == file || path.Base(name) == path.Base(file)) {
			found = append(found, name)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the job's outputs have no file %s; name it in `outputs`", file)
	}
	sort.Slice(found, func(i, j int) bool { return len(found[i]) < len(found[j]) })
	return root.ReadFile(found[0], maxOutput)
}
