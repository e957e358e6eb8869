package spec

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Mount is a directory of the site that every container has, without a copy.
type Mount struct {
	// From is an absolute path on the site, whose variables are those of the account
	// there, or a name that each site maps by Site.Paths, with a path below it or not.
	From string `yaml:"from"`
	// To is the absolute path in the containers.
	To string `yaml:"to"`
	// Write allows the job to change what is in it.
	Write bool `yaml:"write" json:",omitempty"`
}

// pathName is the form of a name in Site.Paths.
const pathName = `^[A-Za-z0-9][A-Za-z0-9._-]*$`

// onSite reports whether a path of a mount is one of the site, and no name.
func onSite(from string) bool { return strings.HasPrefix(from, "/") || strings.HasPrefix(from, "$") }

// Source returns the path of a mount on a site, with variables as they are written.
// Unsupported: the site has no path of that name.
func (m Mount) Source(s Site) (string, error) {
	if onSite(m.From) {
		return m.From, nil
	}
	name, below, _ := strings.Cut(m.From, "/")
	dir, is := s.Paths[name]
	if !is {
		remedy := fmt.Sprintf("Add `paths: {%s: DIR}` to the site in the sites file.", name)
		if has := slices.Sorted(maps.Keys(s.Paths)); len(has) > 0 {
			remedy += " It has: " + strings.Join(has, ", ") + "."
		}
		return "", &core.Error{Kind: core.Unsupported, Op: "use site", Object: s.Name, Err: fmt.Errorf("the job mounts %q, and the site has no path named %q", m.From, name), Remedy: remedy}
	}
	return path.Join(dir, below), nil
}

// mounts finds mounts of what is no path of a site, and at places that are taken.
func (jc *jobCheck) mounts() {
	j := jc.job
	for i, m := range j.Mounts {
		at := fmt.Sprintf("mounts[%d]", i)
		if !jc.report.allRead(at) {
			continue
		}
		if m.From == "" || m.To == "" {
			jc.report.at(at, "such as {from: /project/era5, to: /data}", "%s: both `from` and `to` are needed", at)
			continue
		}
		jc.mountSource(at+".from", m.From)
		if !path.IsAbs(m.To) {
			jc.report.at(at+".to", "", "%s.to: %q is no absolute path in the container", at, m.To)
			continue
		}
		jc.target(at+".to", m.To)
		jc.mountPlace(i, at+".to")
	}
	if n := len(j.Mounts); j.VM != nil && n > mostMounts {
		jc.report.at("mounts", "mount the directory that they lie in", "mounts: a guest has room for %d of them, not for %d", mostMounts, n)
	}
	if c := j.Checkpoint; c != nil && jc.report.allRead("checkpoint", "mounts", "workdir", "volume") {
		for i, p := range c.Paths {
			jc.notInMount(fmt.Sprintf("checkpoint.paths[%d]", i), p)
		}
		if c.File != "" {
			jc.notInMount("checkpoint.file", c.File)
		}
	}
	if len(j.Mounts) > 0 && jc.report.allRead("mounts", "vm", "checkpoint") && j.SavesVM() {
		jc.report.atKey("mounts", "leave `mounts` out, or write the checkpoint by the job (mode app)", "mounts: virtual machines that are saved hold all their files themselves")
	}
}

// notInMount finds a path of a checkpoint that is no part of it.
func (jc *jobCheck) notInMount(at, p string) {
	j := jc.job
	if p = j.inWorkdir(p); j.inMount(p) {
		jc.report.at(at, "a path in the volume", "%s: %s lies in a mount, of which checkpoints have nothing", at, p)
	}
}

// mountSource finds what is no path of a site, and no name of one.
func (jc *jobCheck) mountSource(at, from string) {
	name, below, _ := strings.Cut(from, "/")
	switch {
	case strings.ContainsAny(from, "\x00\n"):
		jc.report.at(at, "", "%s: %q is no path", at, from)
	case onSite(from):
	case from == "~" || strings.HasPrefix(from, "~/"):
		jc.report.at(at, "$HOME"+from[1:], "%s: ~ is not known on the hosts", at)
	case name == "." || name == "..":
		jc.report.at(at, "`inputs:` copies files of this machine; a mount is an absolute path on the site, or a name of its `paths`", "%s: %q is relative", at, from)
	case !fits("sites[].paths", name):
		jc.report.at(at, "such as /project/era5, $SCRATCH/era5, or a name of the site's `paths`", "%s: %q is no absolute path and no name", at, from)
	case slices.Contains(strings.Split(below, "/"), ".."):
		jc.report.at(at, "", "%s: %q leads out of the path that the name stands for", at, from)
	}
}

// mountPlace finds a mount over the volume, or in the way of another thing that
// appears in the container.
func (jc *jobCheck) mountPlace(i int, at string) {
	j := jc.job
	to := j.Mounts[i].To
	if jc.report.allRead("volume") && below(j.Volume.Path, to) {
		jc.report.at(at, "a directory beside the volume, such as /data", "%s: the volume is at %s, and this would hide it", at, path.Clean(j.Volume.Path))
		return
	}
	refuse := func(what, other string) bool {
		if !below(to, other) && !below(other, to) {
			return false
		}
		jc.report.at(at, "a directory beside it", "%s: %s is there already, at %s", at, what, path.Clean(other))
		return true
	}
	for k := range i {
		if refuse("another mount", j.Mounts[k].To) {
			return
		}
	}
	for _, target := range inputTargets(j) {
		if path.Clean(target) != path.Clean(j.Volume.Path) && refuse("an input", target) {
			return
		}
	}
	if j.VM == nil {
		return
	}
	for _, disk := range j.VM.Disks {
		if refuse("a disk", disk.To) {
			return
		}
	}
}

// inMount reports whether a path of a container is in a mount.
func (j *Job) inMount(p string) bool {
	return slices.ContainsFunc(j.Mounts, func(m Mount) bool { return below(p, m.To) })
}
