package benchcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
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
	// noted: the run of each measurement is recorded, for the next study to end it after a kill.
	noted bool
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
	if reason := unmeasurable(environment, job, sites); reason != "" {
		return measure.Outcome{Failed: reason}, nil
	}
	if sites[0], err = l.hosts.of(ctx, sites[0]); core.Interrupted(err) || err != nil && ctx.Err() != nil {
		return measure.Outcome{}, err
	} else if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	if environment.PerHost > 1 && job.VM == nil { // a network for each container, as emulated hosts have
		sites[0].Hosts = spec.Hosts{Count: environment.PerHost}
		job.Sites = []string{sites[0].Name}
	}
	l.s.Report = func(plan.Event) {}
	l.s.Output = func(f tasklog.Frame) error {
		_, err := output.Write(f.Data)
		return err
	}
	sites = slices.Clone(sites)
	for i := range sites { // a study has this machine to itself, and its copies start together
		sites[i].Oversubscribe = sites[i].Provider != "slurm"
	}
	if environment.Bee != "" {
		return l.launchBy(ctx, environment.Bee, *job, sites[0], output)
	}
	run, lock, err := l.s.Submit(ctx, control.Submission{Job: *job, Sites: sites, Pull: "missing", Origin: l.s.Workspace.Origin("")})
	if err != nil {
		return measure.Outcome{Failed: err.Error(), Remedy: core.Remedy(err)}, nil
	}
	defer lock.Unlock()
	if err := l.note(run.ID); err != nil {
		return measure.Outcome{}, err
	}
	l.s.KeepBinary(ctx)
	watch := fair.Start(ctx, fair.Sought{Variable: "BEE_RUN_ID", Value: run.ID, Tools: "/.bee", Prefix: prefix.Variable})
	ended, err := l.s.Drive(ctx, run.ID, l.stop)
	found := watch.Stop()
	if err != nil {
		l.s.LeaveBehind(context.WithoutCancel(ctx), run.ID, lock)
		return measure.Outcome{}, err
	}
	o, err := l.outcome(ctx, ended)
	if err != nil {
		return o, err
	}
	if o.Failed != "" {
		if err := l.hosts.lost(ctx); err != nil {
			return measure.Outcome{}, err
		}
	}
	o.Found = found
	o.Hosts = hostsOf(o.Hosts, sites[0])
	// Its log and figures are among the results.
	if err := l.s.Garbage().Forget(context.WithoutCancel(ctx), ended, control.Leaving{OnlyCopies: true}); err != nil {
		l.s.Log.Warn("remove the run of a measurement", "run", ended.ID, "err", err)
		return o, nil
	}
	return o, l.note("")
}

func (l *benchLauncher) note(run string) error {
	if !l.noted {
		return nil
	}
	return noteRun(l.s.Workspace.StateDir, run)
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
	o := measure.Outcome{Run: v.ID, Image: v.Image, Cost: v.Cost}
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
		}
	}
	slices.Sort(o.Hosts)
	o.Hosts = slices.Compact(o.Hosts)
	return o
}

// hasKVM reports whether this machine has KVM for this user.
func hasKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// unmeasurable is why an environment of a valid study cannot be measured by this bee, or "".
func unmeasurable(e study.Environment, job *spec.Job, sites []spec.Site) string {
	switch {
	case e.Runtime == "lxc":
		return "runtime lxc is not part of this bee"
	case e.Native == "host":
		return "programs of the host are not measured by this bee, but the image's"
	case e.Bee != "" && e.Runtime == "native":
		return "another bee program runs containers and virtual machines alone"
	case len(sites) == 0:
		return "there is no site"
	case job.VM != nil && job.VM.Accel == "kvm" && sites[0].Provider == "local" && !hasKVM():
		return "this machine has no KVM that you may use"
	case e.PerHost > 1 && job.VM == nil && (sites[0].Provider != "local" || sites[0].Hosts.Count > 0):
		return "several containers on a host are measured on this machine alone"
	}
	return ""
}
