package spec

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// checkJob finds values that cannot be.
func (d *decoder) checkJob(j *Job) {
	switch {
	case !d.allRead("image") || !d.wasRead("build"):
	case j.Image == "" && j.Build == nil:
		d.at("image", "such as `image: docker.io/library/debian:12`", "neither `image:` nor `build:` is given")
	case j.Image != "" && j.Build != nil:
		d.atKey("build", "", "`image:` and `build:` exclude each other")
	}
	d.checkImage("image", j.Image)
	within(d, "nodes", j.Nodes)
	within(d, "ranks_per_node", j.RanksPerNode)
	within(d, "retry", j.Retry)
	d.checkResources(j)
	d.checkPlatform(j.Platform)
	d.checkNetwork("network", j.Network)
	d.positive("timeout", j.Timeout, "no limit")
	if !fits("name", j.Name) {
		d.at("name", "", "name: a name has no slashes or line breaks")
	}
	d.checkLabels(j.Labels)
	d.oneOf("runtime", j.Runtime)
	d.oneOf("user", j.User)
	d.checkRDMA(j)
	d.oneOf("scratch", j.Scratch)
	d.oneOf("order", j.Order)
	for key := range j.Env {
		d.variable("env", key)
	}
	for key, s := range j.Secrets {
		d.variable("secrets", key)
		given := 0
		for _, v := range []string{s.Env, s.File, s.Exec} {
			if v != "" {
				given++
			}
		}
		if given != 1 && d.allRead("secrets."+key) {
			d.at("secrets."+key, "", "secrets.%s: give exactly one of `env`, `file` and `exec`", key)
		}
		if _, twice := j.Env[key]; twice {
			d.atKey("secrets."+key, "leave it out of one", "secrets.%s: `env:` gives this variable, too", key)
		}
	}
	d.checkVolume(j)
	if !fits("workdir", j.Workdir) {
		d.at("workdir", "", "workdir: %q is no absolute path", j.Workdir)
	}
	for i, c := range j.Inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		if d.copySides(at, Copy{From: c.From, To: c.To}, c.To, "to") {
			d.checkTarget(at+".to", c.To)
		}
		d.checkRemoteInput(at, c)
	}
	d.checkMounts(j)
	d.checkOutputs(j)
	if j.Build != nil {
		d.checkBuild(j.Build)
	}
	if j.VM != nil {
		d.checkVM(j.VM)
		d.checkAround(j)
	}
	d.checkLong(j)
	d.checkCheckpoint(j)
	if j.Post != nil && d.allRead("post", "vm", "checkpoint") && j.SavesVM() {
		d.atKey("post", "let `run:` do it", "post: in mode vm the machines' volumes are not brought together while they run")
	}
	d.checkStore(j.Store)
	d.checkNotify(j.Notify)
}

// checkImage finds what names no image, and files and directories without the
// word for what they are.
func (d *decoder) checkImage(at, ref string) {
	if ref == "" {
		return
	}
	ref = withScheme(ref)
	if hint, err := foreignImage(ref); err != nil {
		d.at(at, hint, "%s: %v", at, err)
		return
	}
	file := isTarName(ref)
	if scheme, _, ok := strings.Cut(ref, ":"); ok && !strings.ContainsAny(scheme, "./~") {
		file = false
	}
	isPath := strings.HasPrefix(ref, "/") || strings.HasPrefix(ref, "./") || strings.HasPrefix(ref, "../") || strings.HasPrefix(ref, "~/")
	write, directory := at+": ", ""
	if flag, given := d.flags[at]; given {
		write = flag + " "
		if !strings.HasPrefix(flag, "-") { // an argument
			write = "write "
		}
	} else if at == "image" {
		directory = ", or build: " + ref + " for a directory with a Dockerfile"
	}
	switch {
	case file:
		d.at(at, write+"docker-archive:"+ref, "%s: %q looks like an archive of docker or podman", at, ref)
	case isPath:
		d.at(at, write+"oci:"+ref+" for an OCI layout"+directory, "%s: %q looks like a directory", at, ref)
	default:
		if hint, err := checkReference(ref); err != nil {
			d.at(at, hint, "%s: %v", at, err)
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

// checkTarget finds places in the container where nothing can be mounted: all of
// it, and what the kernel or BEE itself keeps there.
func (d *decoder) checkTarget(at, target string) {
	target = path.Clean(target)
	if target == "/" {
		d.at(at, "", "%s: all of the container cannot be replaced", at)
	}
	for _, taken := range []string{"/proc", "/sys", "/dev", "/.bee"} {
		if target == taken || strings.HasPrefix(target, taken+"/") {
			d.at(at, "", "%s: %s is not the job's own: the container has its %s there", at, target, taken)
		}
	}
}

// copySides checks a copy; inside is its path in the container.
func (d *decoder) copySides(at string, c Copy, inside, key string) bool {
	switch {
	case inside != "" && !path.IsAbs(inside):
		d.at(at+"."+key, "", "%s.%s: %q is no absolute path in the container", at, key, inside)
	case d.allRead(at) && (c.From == "" || c.To == ""):
		d.at(at, "", "%s: both `from` and `to` are needed", at)
	default:
		return inside != ""
	}
	return false
}

func (d *decoder) variable(where, key string) {
	if !IsVariable(key) {
		d.atKey(where+"."+key, "letters, digits and underscores", "%s: %q is no name of a variable", where, key)
	}
}

// IsVariable reports whether a variable of the environment can have a name.
func IsVariable(key string) bool { return fits("env", key) }

// checkSites finds what cannot be in a sites file.
func (d *decoder) checkSites(sites []Site) {
	if len(sites) == 0 {
		d.at("sites", "", "no site is given")
	}
	seen := map[string]bool{}
	for i := range sites {
		s, at := &sites[i], fmt.Sprintf("sites[%d]", i)
		switch {
		case !d.wasRead(at + ".name"):
		case s.Name == "":
			d.at(at, "", "%s: a site needs a `name`", at)
		case seen[s.Name]:
			d.at(at+".name", "", "%s: the name %q is given twice", at, s.Name)
		}
		seen[s.Name] = true
		if s.Provider == "" && d.wasRead(at+".provider") {
			d.at(at, "one of "+strings.Join(words()["sites[].provider"], ", "), "%s: a site needs a `provider`", at)
		}
		d.oneOf(at+".provider", s.Provider)
		d.oneOf(at+".runtime", s.Runtime)
		d.checkScratch(at+".scratch", s.Scratch)
		d.checkNetwork(at+".network", s.Network)
		d.positive(at+".slot", s.Slot, "no limit")
		if s.Slot > 0 && s.Slot <= LeastMargin {
			d.at(at+".slot", "", "%s.slot: %s leaves nothing to compute: the end of an attempt alone takes %s", at, s.Slot, LeastMargin)
		}
		d.checkHosts(s, at)
		d.checkSlurm(s, at)
		d.checkAWS(s, at)
		d.checkOpenStack(s, at)
		d.checkPaths(at+".paths", s.Paths)
		d.checkUse(s, at)
		within(d, at+".price", s.Price)
		within(d, at+".slots", s.Slots)
		within(d, at+".runs", s.Runs)
	}
}

// checkUse finds keys that mean nothing to a site of this kind.
func (d *decoder) checkUse(s *Site, at string) {
	if !slices.Contains(words()["sites[].provider"], s.Provider) || !d.allRead(at+".provider", at+".hosts", at+".login") {
		return
	}
	local, slurm := s.Provider == "local", s.Provider == "slurm"
	aws, openstack := s.Provider == "aws", s.Provider == "openstack"
	rented := aws || openstack
	for _, k := range []struct {
		key         string
		given, used bool
		by          string
	}{
		{"slurm", s.Slurm != nil, slurm, "provider slurm"},
		{"login", s.Login != "", slurm, "provider slurm"},
		{"aws", s.AWS != nil, aws, "provider aws"},
		{"openstack", s.OpenStack != nil, openstack, "provider openstack"},
		{"hosts", s.Hosts.Count != 0 || len(s.Hosts.Patterns) > 0, !rented, "provider local and ssh: the job says how many machines are rented"},
		{"wait", s.Wait != 0, !rented, "sites with a queue: a cloud without capacity is skipped at once"},
		{"runs", s.Runs != 0, !slurm && !rented, "provider local and ssh: Slurm has limits of its own, and rented machines have one run"},
		{"oversubscribe", s.Oversubscribe, !slurm && !rented, "provider local and ssh: Slurm shares nodes as their partition says, and rented machines have one run"},
		{"private_scratch", s.PrivateScratch, local && s.Hosts.Count != 0, "emulated hosts: provider local with a number of `hosts`"},
		{"link_rate", s.LinkRate != 0, local && s.Hosts.Count != 0, "emulated hosts: provider local with a number of `hosts`"},
		{"ssh_options", len(s.SSHOptions) > 0, s.Provider == "ssh" || rented || slurm && s.Login != "", "provider ssh, aws and openstack, and slurm with a `login`"},
	} {
		if k.given && !k.used {
			d.atKey(at+"."+k.key, "only for "+k.by, "%s.%s: this site has no use for it", at, k.key)
		}
	}
}

func (d *decoder) checkHosts(s *Site, at string) {
	switch s.Provider {
	case "local":
		if len(s.Hosts.Patterns) > 0 {
			d.at(at+".hosts", "", "%s.hosts: a local site takes a number of emulated hosts", at)
		}
		within(d, at+".hosts", s.Hosts.Count)
	case "ssh":
		if len(s.Hosts.Patterns) == 0 && d.allRead(at+".hosts") {
			d.at(at+".hosts", "such as [n1, \"ann@n[2-9]\"]", "%s: an ssh site needs a list of `hosts`", at)
		}
		seen := map[string]bool{}
		for i, p := range s.Hosts.Patterns {
			names, err := ExpandHosts(p)
			if err != nil {
				d.at(fmt.Sprintf("%s.hosts[%d]", at, i), "", "%s.hosts: %v", at, err)
			}
			for _, n := range names {
				if seen[n] {
					d.at(fmt.Sprintf("%s.hosts[%d]", at, i), "", "%s.hosts: %s is given twice", at, n)
					break
				}
				seen[n] = true
			}
		}
	}
}
