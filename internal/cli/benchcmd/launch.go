package benchcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/runtime/prefix"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// benchLauncher runs jobs of a study as ordinary runs, and removes their records when their
// figures were read.
type benchLauncher struct {
	s    *workspace.Session
	stop <-chan struct{} // closed: end the run now
	// note has the run of each measurement, for the next study to end it after a kill; nil: none.
	note *runNote
	// locks keep other studies away from the hosts; nil: they may be measured on by others.
	locks *hostLocks
	// hosts are those of the whole study.
	hosts *hosts
}

// Launch runs a job to its end.
func (l *benchLauncher) Launch(ctx context.Context, job *spec.Job, environment study.Environment, output io.Writer) (measure.Outcome, error) {
	sites, err := l.s.Workspace.LoadSites(job)
	if err != nil && environment.Site != "" { // a machine that its owner has prepared
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	} else if err != nil {
		return measure.Outcome{}, err
	}
	sites = slices.Clone(sites[:min(1, len(sites))]) // figures of different hosts are never compared
	if reason, remedy := unmeasurable(environment, job, sites); reason != "" {
		return measure.Outcome{Failed: reason, Remedy: remedy}, nil
	}
	if err := l.locks.lock(ctx, sites[0]); isHeld(err) || err != nil && ctx.Err() != nil {
		return measure.Outcome{}, err
	} else if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	if sites[0], err = l.hosts.of(ctx, sites[0]); core.Interrupted(err) || err != nil && ctx.Err() != nil {
		return measure.Outcome{}, err
	} else if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	if splits(environment, job) { // a network for each container, as emulated hosts have
		sites[0].Hosts = spec.Hosts{Count: environment.PerHost}
		job.Sites = []string{sites[0].Name}
	}
	l.s.Report = func(plan.Event) {}
	clock := measure.Clock{W: output}
	l.s.Output = outputOf(job, sites[0], &clock)
	sites = slices.Clone(sites)
	for i := range sites { // a study has this machine to itself, and its copies start together
		sites[i].Oversubscribe = sites[i].Provider != "slurm"
	}
	secrets := &secretReader{}
	if environment.Bee != "" {
		o, err := l.launchBy(ctx, environment.Bee, *job, sites[0], secrets, output)
		o.Secrets = secrets.all()
		return o, err
	}
	l.s.ReadSecrets = secrets.read
	run, lock, err := submission.Submit(ctx, l.s.Store, submission.Submission{Job: *job, Sites: sites, Pull: "missing", Origin: l.s.Workspace.Origin("")})
	if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	defer lock.Unlock()
	if err := l.note.write(run.ID); err != nil {
		return measure.Outcome{}, err
	}
	l.s.KeepBinary(ctx)
	watch := fair.Start(ctx, fair.Sought{Variable: "BEE_RUN_ID", Value: run.ID, Tools: "/.bee", Prefix: prefix.Variable})
	ended, err := l.s.Drive(ctx, run.ID, l.stop)
	found := watch.Stop()
	if err := clock.Close(); err != nil {
		return measure.Outcome{}, err
	}
	if err != nil {
		l.s.LeaveBehind(context.WithoutCancel(ctx), run.ID, lock)
		return measure.Outcome{}, err
	}
	o, err := l.outcome(ctx, ended)
	if o.Secrets = secrets.all(); err != nil {
		return o, err
	}
	if o.Failed != "" {
		if err := l.hosts.lost(ctx); err != nil {
			return measure.Outcome{}, err
		}
	}
	o.Found = found
	if in, known := clock.Found(); known { // in a guest, or on another machine
		o.Found = in
	}
	o.Guest, o.Host = clock.Elapsed()
	o.Hosts = hostsOf(o.Hosts, sites[0])
	// Its log and figures are among the results.
	if err := l.s.Garbage().Forget(context.WithoutCancel(ctx), ended, control.Leaving{OnlyCopies: true}); err != nil {
		l.s.Log.Warn("remove the run of a measurement", "run", ended.ID, "err", err)
		return o, nil
	}
	return o, l.note.write("")
}

// outputOf writes the output of a job. Only guests and other machines mark in it what computed
// there: what bee has seen itself on this machine, no job of it replaces.
func outputOf(job *spec.Job, site spec.Site, clock *measure.Clock) func(tasklog.Frame) error {
	if job.VM == nil && site.Provider == "local" {
		return func(f tasklog.Frame) error {
			_, err := clock.W.Write(f.Data)
			return err
		}
	}
	return func(f tasklog.Frame) error { return clock.Write(f.Time, f.Data) }
}

// outcome is how a run ended, by its record.
func (l *benchLauncher) outcome(ctx context.Context, run state.Run) (measure.Outcome, error) {
	v, err := runview.Of(ctx, l.s, run)
	if err != nil {
		return measure.Outcome{Run: run.ID, Image: run.Image}, err
	}
	return outcomeOf(v), nil
}

// hostsOf are the hosts of a run. Those of a local site are this machine, whatever they are
// called.
func hostsOf(hosts []string, site spec.Site) []string {
	if name, err := os.Hostname(); site.Provider == "local" && err == nil {
		return []string{name}
	}
	return hosts
}

// outcomeOf is how a run ended, by its view.
func outcomeOf(v runview.View) measure.Outcome {
	o := measure.Outcome{Run: v.ID, Image: v.Image}
	if v.Currency == "" { // others cannot be compared with it
		o.Cost = v.Cost
	}
	switch {
	case v.State != state.Succeeded && v.Error != nil:
		o.Failed, o.Remedy = v.Error.Message, v.Error.Remedy
	case v.State != state.Succeeded && v.ExitCode != nil:
		o.Failed = fmt.Sprintf("the command of run %s ended with code %d", v.ID, *v.ExitCode)
	case v.State != state.Succeeded:
		o.Failed = fmt.Sprintf("run %s is %s", v.ID, v.State)
	}
	for _, at := range v.Attempts {
		o.Hosts = append(o.Hosts, at.Hosts...)
		for _, p := range []core.Phase{core.PhaseLaunch, core.PhaseJoin, core.PhaseStart} {
			o.Start += time.Duration(at.Phases[p] * float64(time.Second))
		}
		o.Compute += time.Duration(at.Phases[core.PhaseRun] * float64(time.Second))
		for _, n := range at.Nodes {
			o.Processor += time.Duration((n.UserSeconds + n.SystemSeconds) * float64(time.Second))
			o.MaxRSS = max(o.MaxRSS, n.LargestProcessRSS)
			o.Runtime = cmp.Or(o.Runtime, n.Runtime)
			o.VMCommand = cmp.Or(o.VMCommand, n.VMCommand)
		}
	}
	slices.Sort(o.Hosts)
	o.Hosts = slices.Compact(o.Hosts)
	o.Energy, o.NoEnergy = energyOf(v.Attempts)
	return o
}

// energyOf returns the joules of all hosts of a run, or why they are not known. A machine with
// several hosts of an attempt, as emulated ones are, counts once.
func energyOf(attempts []runview.Attempt) (joules float64, unknown []string) {
	for _, at := range attempts {
		machines := map[string]float64{}
		for _, n := range at.Nodes {
			e, why := n.Energy, ""
			switch {
			case e.Joules > 0 && e.Boot != "":
				machines[e.Boot] = max(machines[e.Boot], e.Joules)
				continue
			case e.Unknown != "":
				why = fmt.Sprintf("on %s, %s. %s", n.Host, strings.TrimSuffix(e.Unknown, "."), e.Remedy)
			default:
				why = fmt.Sprintf("%s has not reported it. Measure with the same version of bee everywhere.", n.Host)
			}
			if !slices.Contains(unknown, why) && len(unknown) < mostReasons {
				unknown = append(unknown, why)
			}
		}
		for _, boot := range slices.Sorted(maps.Keys(machines)) {
			joules += machines[boot]
		}
	}
	if len(unknown) > 0 {
		return 0, unknown
	}
	return joules, nil
}

// mostReasons bounds the hosts that are named each for itself.
const mostReasons = 4

// hasKVM reports whether this machine has KVM for this user.
func hasKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// unmeasurable is why an environment of a valid study cannot be measured by this bee, and the
// remedy, or "".
func unmeasurable(e study.Environment, job *spec.Job, sites []spec.Site) (reason, remedy string) {
	switch {
	case e.Bee != "" && e.Runtime == "native":
		return "another bee program runs containers and virtual machines alone", ""
	case len(sites) == 0:
		return "there is no site", ""
	case job.VM != nil && job.VM.Accel == "kvm" && sites[0].Provider == "local" && !hasKVM():
		return "this machine has no KVM that you may use", "Become a member of the group of /dev/kvm, or measure with `accel: tcg`, which says nothing of KVM."
	case e.PerHost > 1 && sites[0].Provider == "virtualbox":
		return fmt.Sprintf("site %q makes one guest of VirtualBox for a measurement, and none is split into several", sites[0].Name), "Prepare several guests as `hosts:` of a site of provider ssh, or measure guests of QEMU on a local site, by `vm:`."
	case splits(e, job) && (sites[0].Provider != "local" || sites[0].Hosts.Count > 0):
		return fmt.Sprintf("several containers on a host are measured on this machine alone, and site %q is another", sites[0].Name), "Start bee on that host, and measure on a local site without `hosts`, by --site or `site:`."
	}
	return "", ""
}

// splits reports whether an environment splits a host into containers.
func splits(e study.Environment, job *spec.Job) bool { return e.PerHost > 1 && job.VM == nil }
