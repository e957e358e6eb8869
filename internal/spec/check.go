package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// jobCheck finds what cannot be in a job.
type jobCheck struct {
	report *report
	job    *Job
}

// all finds values that cannot be.
func (jc *jobCheck) all() {
	j := jc.job
	switch {
	case !jc.report.allRead("image") || !jc.report.wasRead("build"):
	case j.Image == "" && j.Build == nil:
		jc.report.at("image", "such as `image: docker.io/library/debian:12`", "neither `image:` nor `build:` is given")
	case j.Image != "" && j.Build != nil:
		jc.report.atKey("build", "", "`image:` and `build:` exclude each other")
	}
	jc.report.checkImage("image", j.Image)
	within(jc.report, "nodes", j.Nodes)
	within(jc.report, "ranks_per_node", j.RanksPerNode)
	within(jc.report, "retry", j.Retry)
	jc.resources()
	jc.report.checkPlatform(j.Platform)
	jc.report.checkNetwork("network", j.Network)
	jc.report.positive("timeout", j.Timeout, "no limit")
	if !fits("name", j.Name) {
		jc.report.at("name", "", "name: a name has no slashes or line breaks")
	}
	jc.labels(j.Labels)
	jc.report.oneOf("runtime", j.Runtime)
	jc.report.oneOf("user", j.User)
	jc.rdma()
	jc.report.oneOf("scratch", j.Scratch)
	jc.report.oneOf("order", j.Order)
	for key := range j.Env {
		jc.variable("env", key)
	}
	for key, s := range j.Secrets {
		jc.variable("secrets", key)
		given := 0
		for _, v := range []string{s.Env, s.File, s.Exec} {
			if v != "" {
				given++
			}
		}
		if given != 1 && jc.report.allRead("secrets."+key) {
			jc.report.at("secrets."+key, "", "secrets.%s: give exactly one of `env`, `file` and `exec`", key)
		}
		if _, twice := j.Env[key]; twice {
			jc.report.atKey("secrets."+key, "leave it out of one", "secrets.%s: `env:` gives this variable, too", key)
		}
	}
	jc.volume()
	if !fits("workdir", j.Workdir) {
		jc.report.at("workdir", "", "workdir: %q is no absolute path", j.Workdir)
	}
	for i, c := range j.Inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		if jc.copySides(at, Copy{From: c.From + c.Earlier.Run + c.Earlier.Path, To: c.To}, c.To, "to") {
			jc.target(at+".to", c.To)
		}
		jc.remoteInput(at, c)
		jc.earlierInput(at, c)
	}
	jc.mounts()
	jc.outputs()
	if j.Build != nil {
		jc.build(j.Build)
	}
	if j.VM != nil {
		jc.vm(j.VM)
		jc.aroundVM()
	}
	jc.long()
	jc.checkpoint()
	if j.Restarts && j.Checkpoint != nil {
		jc.report.atKey("restarts", "leave it out", "restarts: it is for jobs without `checkpoint:`, from which this run continues")
	}
	if j.Post != nil && jc.report.allRead("post", "vm", "checkpoint") && j.SavesVM() {
		jc.report.atKey("post", "let `run:` do it", "post: in mode vm the machines' volumes are not brought together while they run")
	}
	jc.report.checkStore(j.Store)
	jc.report.checkNotify(j.Notify)
	jc.after()
	jc.array()
	jc.measured()
}

// checkImage finds what names no image, and files and directories without the
// word for what they are.
func (r *report) checkImage(at, ref string) {
	if ref == "" {
		return
	}
	ref = withScheme(ref)
	if hint, err := foreignImage(ref); err != nil {
		r.at(at, hint, "%s: %v", at, err)
		return
	}
	file := isTarName(ref)
	if scheme, _, ok := strings.Cut(ref, ":"); ok && !strings.ContainsAny(scheme, "./~") {
		file = false
	}
	isPath := strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") || strings.HasPrefix(ref, "~/")
	write, directory := at+": ", ""
	if flag, given := r.flags[at]; given {
		write = flag + " "
		if !strings.HasPrefix(flag, "-") { // an argument
			write = "write "
		}
	} else if at == "image" {
		directory = ", or build: " + ref + " for a directory with a Dockerfile"
	}
	switch {
	case file:
		r.at(at, write+"docker-archive:"+ref, "%s: %q looks like an archive of docker or podman", at, ref)
	case isPath:
		r.at(at, write+"oci:"+ref+" for an OCI layout"+directory, "%s: %q looks like a directory", at, ref)
	default:
		if hint, err := checkReference(ref); err != nil {
			r.at(at, hint, "%s: %v", at, err)
		}
	}
}

// keeps reports whether a container path outlives the container.
func (j *Job) keeps(p string) bool {
	return slices.ContainsFunc(append([]string{j.Volume.Path}, inputTargets(j)...), func(dir string) bool { return below(p, dir) })
}

// below reports whether a container path is a directory, or below it.
func below(p, dir string) bool {
	p, dir = path.Clean(p), path.Clean(dir)
	return p == dir || strings.HasPrefix(p, dir+"/")
}

func inputTargets(j *Job) []string {
	var targets []string
	for _, c := range j.Inputs {
		targets = append(targets, c.To)
	}
	return targets
}

// target finds places in the container where nothing can be mounted: all of
// it, and what the kernel or BEE itself keeps there.
func (jc *jobCheck) target(at, target string) {
	target = path.Clean(target)
	if target == "/" {
		jc.report.at(at, "", "%s: all of the container cannot be replaced", at)
	}
	for _, taken := range []string{"/proc", "/sys", "/dev", "/.bee"} {
		if target == taken || strings.HasPrefix(target, taken+"/") {
			jc.report.at(at, "", "%s: %s is not the job's own: the container has its %s there", at, target, taken)
		}
	}
}

// copySides checks a copy; inside is its path in the container.
func (jc *jobCheck) copySides(at string, c Copy, inside, key string) bool {
	switch {
	case inside != "" && !path.IsAbs(inside):
		jc.report.at(at+"."+key, "", "%s.%s: %q is no absolute path in the container", at, key, inside)
	case jc.report.allRead(at) && (c.From == "" || c.To == ""):
		jc.report.at(at, "", "%s: both `from` and `to` are needed", at)
	default:
		return inside != ""
	}
	return false
}

// variable finds names that no variable can have.
func (jc *jobCheck) variable(where, key string) {
	if !IsVariable(key) {
		jc.report.atKey(where+"."+key, "letters, digits and underscores", "%s: %q is no name of a variable", where, key)
	}
}

// IsVariable reports whether a variable of the environment can have a name.
func IsVariable(key string) bool { return fits("env", key) }
