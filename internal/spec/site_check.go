package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// siteCheck finds what cannot be at a site of a sites file.
type siteCheck struct {
	report *report
	site   *Site
	at     string // its path in the file
}

// checkSites finds what cannot be in a sites file.
func (r *report) checkSites(sites []Site) {
	if len(sites) == 0 {
		r.at("sites", "", "no site is given")
	}
	seen := map[string]bool{}
	for i := range sites {
		s, at := &sites[i], fmt.Sprintf("sites[%d]", i)
		sc := siteCheck{report: r, site: s, at: at}
		switch {
		case !r.wasRead(at + ".name"):
		case s.Name == "":
			r.at(at, "", "%s: a site needs a `name`", at)
		case seen[s.Name]:
			r.at(at+".name", "", "%s: the name %q is given twice", at, s.Name)
		}
		seen[s.Name] = true
		if s.Provider == "" && r.wasRead(at+".provider") {
			r.at(at, "one of "+strings.Join(words()["sites[].provider"], ", "), "%s: a site needs a `provider`", at)
		}
		r.oneOf(at+".provider", s.Provider)
		r.oneOf(at+".runtime", s.Runtime)
		sc.scratch()
		r.checkNetwork(at+".network", s.Network)
		r.positive(at+".slot", s.Slot, "no limit")
		if s.Slot > 0 && s.Slot <= LeastMargin {
			r.at(at+".slot", "", "%s.slot: %s leaves nothing to compute: the end of an attempt alone takes %s", at, s.Slot, LeastMargin)
		}
		sc.hosts()
		sc.slurm()
		sc.aws()
		sc.openStack()
		sc.virtualBox()
		sc.paths()
		sc.use()
		sc.price()
		within(r, at+".slots", s.Slots)
		within(r, at+".runs", s.Runs)
	}
}

// use finds keys that mean nothing to a site of this kind.
func (sc *siteCheck) use() {
	s, at := sc.site, sc.at
	if !slices.Contains(words()["sites[].provider"], s.Provider) || !sc.report.allRead(at+".provider", at+".hosts", at+".login") {
		return
	}
	local, slurm := s.Provider == "local", s.Provider == "slurm"
	aws, openstack := s.Provider == "aws", s.Provider == "openstack"
	rented, virtualbox := aws || openstack, s.Provider == "virtualbox"
	for _, k := range []struct {
		key         string
		given, used bool
		by          string
	}{
		{"slurm", s.Slurm != nil, slurm, "provider slurm"},
		{"login", s.Login != "", slurm, "provider slurm"},
		{"aws", s.AWS != nil, aws, "provider aws"},
		{"openstack", s.OpenStack != nil, openstack, "provider openstack"},
		{"virtualbox", s.VirtualBox != nil, virtualbox, "provider virtualbox"},
		{"hosts", s.Hosts.Count != 0 || len(s.Hosts.Patterns) > 0, !rented && !virtualbox, "provider local and ssh: the job says how many machines are rented, and a site of virtualbox has one guest"},
		{"wait", s.Wait != 0, !rented && !virtualbox || openstack && s.OpenStack != nil && s.OpenStack.Lease != nil, "sites with a queue, and openstack with a `lease`: a cloud without capacity is skipped at once"},
		{"runs", s.Runs != 0, !slurm && !rented && !virtualbox, "provider local and ssh: Slurm has limits of its own, and rented machines and guests have one run"},
		{"oversubscribe", s.Oversubscribe, !slurm && !rented && !virtualbox, "provider local and ssh: Slurm shares nodes as their partition says, and rented machines and guests have one run"},
		{"private_scratch", s.PrivateScratch, local && s.Hosts.Count != 0, "emulated hosts: provider local with a number of `hosts`"},
		{"link_rate", s.LinkRate != 0, local && s.Hosts.Count != 0, "emulated hosts: provider local with a number of `hosts`"},
		{"ssh_options", len(s.SSHOptions) > 0, s.Provider == "ssh" || rented || virtualbox || slurm && s.Login != "", "provider ssh, aws, openstack and virtualbox, and slurm with a `login`"},
	} {
		if k.given && !k.used {
			sc.report.atKey(at+"."+k.key, "only for "+k.by, "%s.%s: this site has no use for it", at, k.key)
		}
	}
}

// hosts finds lists of hosts that the provider cannot use.
func (sc *siteCheck) hosts() {
	s, at := sc.site, sc.at
	switch s.Provider {
	case "local":
		if len(s.Hosts.Patterns) > 0 {
			sc.report.at(at+".hosts", "", "%s.hosts: a local site takes a number of emulated hosts", at)
		}
		within(sc.report, at+".hosts", s.Hosts.Count)
	case "ssh":
		if len(s.Hosts.Patterns) == 0 && sc.report.allRead(at+".hosts") {
			sc.report.at(at+".hosts", "such as [n1, \"ann@n[2-9]\"]", "%s: an ssh site needs a list of `hosts`", at)
		}
		seen := map[string]bool{}
		for i, p := range s.Hosts.Patterns {
			names, err := ExpandHosts(p)
			if err != nil {
				sc.report.at(fmt.Sprintf("%s.hosts[%d]", at, i), "", "%s.hosts: %v", at, err)
			}
			for _, n := range names {
				if seen[n] {
					sc.report.at(fmt.Sprintf("%s.hosts[%d]", at, i), "", "%s.hosts: %s is given twice", at, n)
					break
				}
				seen[n] = true
			}
		}
	}
}

// paths finds names and paths of a site that no mount could use.
func (sc *siteCheck) paths() {
	at, paths := sc.at+".paths", sc.site.Paths
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		key, dir := at+"."+name, paths[name]
		switch {
		case !fits("sites[].paths", name):
			sc.report.atKey(key, "letters, digits, `.`, `_` and `-`", "%s: %q is no name of a path", at, name)
		case dir == "~" || strings.HasPrefix(dir, "~/"):
			sc.report.at(key, "$HOME"+dir[1:], "%s: ~ is not known on the hosts", key)
		case strings.ContainsAny(dir, "\x00\n"):
			sc.report.at(key, "", "%s: %q is no path", key, dir)
		case !onSite(dir) && sc.report.allRead(key):
			sc.report.at(key, "such as /gpfs/proj/era5", "%s: %q is no absolute path on the hosts", key, dir)
		}
	}
}

// scratch finds directories that depend on where bee is called.
func (sc *siteCheck) scratch() {
	at, dir := sc.at+".scratch", sc.site.Scratch
	switch {
	case dir == "" || strings.HasPrefix(dir, "/") || strings.HasPrefix(dir, "$"):
	case dir == "~" || strings.HasPrefix(dir, "~/"):
		sc.report.at(at, "$HOME"+dir[1:], "%s: ~ is not known on the hosts", at)
	default:
		sc.report.at(at, "such as /scratch/$USER", "%s: %q is no absolute path on the hosts", at, dir)
	}
}
