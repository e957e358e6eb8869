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

// checkMounts finds mounts of what is no path of a site, and at places that are taken.
func (d *decoder) checkMounts(j *Job) {
	for i, m := range j.Mounts {
		at := fmt.Sprintf("mounts[%d]", i)
		if !d.allRead(at) {
			continue
		}
		if m.From == "" || m.To == "" {
			d.at(at, "such as {from: /project/era5, to: /data}", "%s: both `from` and `to` are needed", at)
			continue
		}
		d.checkMountSource(at+".from", m.From)
		if !path.IsAbs(m.To) {
			d.at(at+".to", "", "%s.to: %q is no absolute path in the container", at, m.To)
			continue
		}
		d.checkTarget(at+".to", m.To)
		d.checkMountPlace(j, i, at+".to")
	}
	if n := len(j.Mounts); j.VM != nil && n > mostMounts {
		d.at("mounts", "mount the directory that they lie in", "mounts: a guest has room for %d of them, not for %d", mostMounts, n)
	}
	if c := j.Checkpoint; c != nil && d.allRead("checkpoint", "mounts", "workdir", "volume") {
		for i, p := range c.Paths {
			d.notInMount(j, fmt.Sprintf("checkpoint.paths[%d]", i), p)
		}
		if c.File != "" {
			d.notInMount(j, "checkpoint.file", c.File)
		}
	}
	if len(j.Mounts) > 0 && d.allRead("mounts", "vm", "checkpoint") && j.SavesVM() {
		d.atKey("mounts", "leave `mounts` out, or write the checkpoint by the job (mode app)", "mounts: virtual machines that are saved hold all their files themselves")
	}
}

// notInMount finds a path of a checkpoint that is no part of it.
func (d *decoder) notInMount(j *Job, at, p string) {
	if p = j.inWorkdir(p); j.inMount(p) {
		d.at(at, "a path in the volume", "%s: %s lies in a mount, of which checkpoints have nothing", at, p)
	}
}

func (d *decoder) checkMountSource(at, from string) {
	name, below, _ := strings.Cut(from, "/")
	switch {
	case strings.ContainsAny(from, "\x00\n"):
		d.at(at, "", "%s: %q is no path", at, from)
	case onSite(from):
	case from == "~" || strings.HasPrefix(from, "~/"):
		d.at(at, "$HOME"+from[1:], "%s: ~ is not known on the hosts", at)
	case name == "." || name == "..":
		d.at(at, "`inputs:` copies files of this machine; a mount is an absolute path on the site, or a name of its `paths`", "%s: %q is relative", at, from)
	case !fits("sites[].paths", name):
		d.at(at, "such as /project/era5, $SCRATCH/era5, or a name of the site's `paths`", "%s: %q is no absolute path and no name", at, from)
	case slices.Contains(strings.Split(below, "/"), ".."):
		d.at(at, "", "%s: %q leads out of the path that the name stands for", at, from)
	}
}

// checkMountPlace finds a mount over the volume, or in the way of another thing that
// appears in the container.
func (d *decoder) checkMountPlace(j *Job, i int, at string) {
	to := j.Mounts[i].To
	if d.allRead("volume") && below(j.Volume.Path, to) {
		d.at(at, "a directory beside the volume, such as /data", "%s: the volume is at %s, and this would hide it", at, path.Clean(j.Volume.Path))
		return
	}
	refuse := func(what, other string) bool {
		if !below(to, other) && !below(other, to) {
			return false
		}
		d.at(at, "a directory beside it", "%s: %s is there already, at %s", at, what, path.Clean(other))
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

// checkPaths finds names and paths of a site that no mount could use.
func (d *decoder) checkPaths(at string, paths map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		key, dir := at+"."+name, paths[name]
		switch {
		case !fits("sites[].paths", name):
			d.atKey(key, "letters, digits, `.`, `_` and `-`", "%s: %q is no name of a path", at, name)
		case dir == "~" || strings.HasPrefix(dir, "~/"):
			d.at(key, "$HOME"+dir[1:], "%s: ~ is not known on the hosts", key)
		case strings.ContainsAny(dir, "\x00\n"):
			d.at(key, "", "%s: %q is no path", key, dir)
		case !onSite(dir) && d.allRead(key):
			d.at(key, "such as /gpfs/proj/era5", "%s: %q is no absolute path on the hosts", key, dir)
		}
	}
}

// inMount reports whether a path of a container is in a mount.
func (j *Job) inMount(p string) bool {
	return slices.ContainsFunc(j.Mounts, func(m Mount) bool { return below(p, m.To) })
}
