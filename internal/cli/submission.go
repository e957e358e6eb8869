package cli

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// submission is the Beefile as the flags change it, with its sites.
func (a *app) submission(file string, o runOptions) (control.Submission, error) {
	draft, err := spec.ReadDraft(file)
	if err != nil {
		return control.Submission{}, err
	}
	o.change(draft)
	if o.begins {
		draft.CheckHere()
	}
	named := draft.Job.Store != "" // and not by the sites file
	job, sites, err := a.finish(draft)
	if err != nil {
		return control.Submission{}, err
	}
	if o.begins {
		if err := volumeHere(job); err != nil {
			return control.Submission{}, err
		}
	}
	shown := *job
	if !named {
		shown.Store = ""
	}
	if o.given("image") { // which the user has typed
		shown.Image = ""
	}
	reaches := shown.Reaches(job.Dir)
	if !o.begins { // only the store is tried
		reaches = slices.DeleteFunc(reaches, func(r spec.Reach) bool { return r.Key != "store" })
	}
	strange := strangerOf(file)
	if err := a.allow(file, strange, reaches, o.trust, o.quiet); err != nil {
		return control.Submission{}, err
	}
	f, err := a.findSites()
	if err == nil && f.Path != "" {
		f.Path, err = filepath.Abs(f.Path)
	}
	sub := control.Submission{Job: *job, Sites: sites, SitesFile: f.Path, Pull: o.pull}
	if err == nil && strange != "" {
		err = sub.Confine(job.Dir, reaches)
	}
	return sub, err
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

// change puts the flags that were given into a job, which is checked as it then
// is.
func (o runOptions) change(draft *spec.Draft) {
	job := draft.Job
	if o.given("nodes") {
		job.Nodes = o.nodes
		draft.Flag("nodes", "--nodes")
	}
	if o.given("image") {
		job.Image, job.Build = spec.ImageFrom(workingDir(), o.image), nil // paths of flags are the shell's
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
	for _, e := range o.env {
		key, value, ok := strings.Cut(e, "=")
		if !ok {
			value, ok = os.LookupEnv(key)
		}
		if !spec.IsVariable(key) {
			draft.Refuse("--env", "KEY=VALUE; letters, digits and underscores", "%q is no name of a variable", key)
			continue
		}
		if !ok {
			continue // what the caller does not have is left as it is
		}
		if job.Env == nil {
			job.Env = map[string]string{}
		}
		job.Env[key] = value
		draft.Flag("env."+key, "--env")
	}
	if policies := []string{"missing", "always", "never"}; !slices.Contains(policies, o.pull) {
		draft.Refuse("--pull", "one of "+strings.Join(policies, ", "), "%q is not known", o.pull)
	}
}
