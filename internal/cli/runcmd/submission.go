package runcmd

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
	"github.com/spf13/pflag"
)

// finishedJob is a job as the flags change it, with its sites, before the user has agreed to
// what it does outside of its directory.
type finishedJob struct {
	from    jobSource
	job     *spec.Job
	sites   []spec.Site
	reaches []spec.Reach
}

// submission is a job as the flags change it, with its sites.
func (a *Commands) submission(from jobSource, o runOptions) (submission.Submission, error) {
	f, err := a.finish(from, o)
	if err == nil {
		err = a.Allow(from.what, from.strange, f.reaches, o.trust, o.quiet)
	}
	if err != nil {
		return submission.Submission{}, err
	}
	return f.submission(a, o)
}

// finish checks a job as the flags change it.
func (a *Commands) finish(from jobSource, o runOptions) (finishedJob, error) {
	f := finishedJob{from: from}
	draft := from.draft
	if err := o.change(draft); err != nil {
		return f, err
	}
	if o.begins {
		draft.CheckHere()
	}
	named := draft.Job.Store != "" // and not by the sites file
	var err error
	if f.job, f.sites, err = a.Finish(draft); err != nil {
		return f, err
	}
	if o.begins {
		if err := volumeHere(f.job); err != nil {
			return f, err
		}
	}
	shown := *f.job
	if !named {
		shown.Store = ""
	}
	if o.given("image") || from.typed { // which the user has typed, as the last mounts
		shown.Image = ""
	}
	shown.Mounts = f.job.Mounts[:len(f.job.Mounts)-len(o.docker.volumes)]
	f.reaches = console.ReachesOf(&shown, from.strange)
	if !o.begins { // only stores are tried
		f.reaches = slices.DeleteFunc(f.reaches, func(r spec.Reach) bool { return r.Key != "store" && r.Key != "volume.remote" })
	}
	return f, nil
}

// submission is the job with all that its controller needs, once its user has agreed to what it
// does.
func (f finishedJob) submission(a *Commands, o runOptions) (submission.Submission, error) {
	file, err := a.FindSites()
	if err == nil && file.Path != "" {
		file.Path, err = filepath.Abs(file.Path)
	}
	strange := f.from.strange
	sub := submission.Submission{Job: *f.job, Sites: f.sites, SitesFile: file.Path, Pull: o.pull, Origin: a.Origin(f.from.beefile), Restart: restarts()}
	if !f.from.keepsLinks {
		sub.Own = ownDir(f.job, strange)
	}
	if err == nil && strange != "" {
		err = sub.Confine(f.job.Dir, f.reaches)
	}
	return sub, err
}

// reachList are what several jobs do outside of their directory, each once.
type reachList struct {
	list  []spec.Reach
	known map[spec.Reach]bool
}

func (l *reachList) add(reaches []spec.Reach) {
	for _, r := range reaches {
		if l.known == nil {
			l.known = map[spec.Reach]bool{}
		}
		if !l.known[r] {
			l.known[r] = true
			l.list = append(l.list, r)
		}
	}
}

// finishAll checks the jobs of a Beefile, and returns what is wrong with any of them.
func (a *Commands) finishAll(from jobSource, o runOptions) ([]finishedJob, error) {
	var wrong error
	list := from.all()
	finished := make([]finishedJob, len(list))
	for i, one := range list {
		f, err := a.finish(one, o)
		wrong = spec.Both(wrong, err)
		finished[i] = f
	}
	return finished, wrong
}

// volumeHere finds a data image for the volume that is none.
func volumeHere(job *spec.Job) error {
	if job.Volume.From == "" {
		return nil
	}
	i, err := dataimage.Open(job.Volume.From)
	if errors.Is(err, dataimage.ErrUnclean) { // it is set right when it is read
		return nil
	}
	if err != nil {
		return err
	}
	return i.Close()
}

// resourceFlags are those of what a job needs of its sites.
func (o *runOptions) resourceFlags(f *pflag.FlagSet) {
	f.StringVar(&o.time, "time", "", "`time` of each attempt, such as 30m, instead of the Beefile's")
	f.IntVar(&o.cores, "cores", 0, "`number` of cores of each node, instead of the Beefile's")
	f.StringVar(&o.memory, "memory", "", "`memory` of each node, such as 16G, instead of the Beefile's")
}

func (o runOptions) changeResources(draft *spec.Draft) {
	job := draft.Job
	if o.given("time") {
		limit, hint, err := spec.ParseDuration(o.time)
		switch {
		case err != nil:
			draft.Refuse("--time", hint, "%v", err)
		case limit == 0:
			draft.Refuse("--time", "such as 30m", "%s is no time to compute", o.time)
		}
		job.Time = limit
		draft.Flag("time", "--time")
	}
	if o.given("cores") {
		job.Cores = o.cores
		draft.Flag("cores", "--cores")
	}
	if o.given("memory") {
		size, err := spec.ParseSize(o.memory)
		if err != nil {
			draft.Refuse("--memory", "such as 512M or 16G", "%v", err)
		}
		job.Memory = spec.Size(size)
		draft.Flag("memory", "--memory")
	}
}

// change puts the flags that were given into a job, which is checked as it then
// is.
func (o runOptions) change(draft *spec.Draft) error {
	job := draft.Job
	if o.given("nodes") {
		job.Nodes = o.nodes
		draft.Flag("nodes", "--nodes")
	}
	o.changeResources(draft)
	if o.given("image") {
		job.Image, job.Build = spec.ImageFrom(workspace.WorkingDir(), o.image), nil // paths of flags are the shell's
		draft.Flag("image", "--image")
		draft.Flag("build", "--image")
	}
	if o.given("site") {
		job.Sites = o.site
		draft.Flag("sites", "--site")
		if len(o.site) == 0 {
			draft.Refuse("--site", "", "it names no site")
		}
	}
	if o.given("wait") {
		job.Wait = o.wait
		draft.Flag("wait", "--wait")
		if o.wait < 0 {
			draft.Refuse("--wait", "such as 90s, 15m or 2h30m", "%s cannot be waited", o.wait)
		}
	}
	if err := o.docker.change(draft, o.given); err != nil {
		return err
	}
	for _, e := range o.env {
		setVariable(draft, e, "--env")
	}
	for _, l := range o.labels {
		setLabel(draft, l)
	}
	for _, r := range o.after {
		setAfter(draft, r)
	}
	if policies := []string{"missing", "always", "never"}; !slices.Contains(policies, o.pull) {
		draft.Refuse("--pull", "one of "+strings.Join(policies, ", "), "%q is not known", o.pull)
	}
	return nil
}
