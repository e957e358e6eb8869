package spec

import (
	"fmt"
	"runtime"
	"slices"
)

// HostsKnown is how many hosts a site is known to have without asking it; 0: it has to
// be asked.
func (s *Site) HostsKnown() int {
	switch s.Provider {
	case "local":
		return max(1, s.Hosts.Count)
	case "virtualbox":
		return 1
	case "ssh":
		known := 0
		for _, p := range s.Hosts.Patterns {
			names, err := ExpandHosts(p)
			if err != nil {
				return 0
			}
			known += len(names)
		}
		return known
	}
	return 0
}

// coresKnown is how many cores each host of a site has, as far as that is known without
// asking it; 0: it has to be asked.
func (s *Site) coresKnown() int {
	switch {
	case s.Slots > 0:
		return s.Slots
	case s.Provider == "local":
		return runtime.NumCPU()
	}
	return 0
}

// CheckHosts finds a job that wants more hosts than each of its sites is known to have.
func (t *Draft) CheckHosts(f SitesFile) {
	sites, err := SelectSites(t.Job, f.Sites, f.Path)
	if err != nil || !t.read || !t.report.allRead("nodes", "vm", "sites") || t.Job.Nodes < 1 {
		return // it is reported by CheckSites, or by Finish
	}
	most, name := 0, ""
	for _, s := range sites {
		switch known := s.HostsKnown(); {
		case known == 0 || known >= t.Job.Hosts():
			return
		case known > most:
			most, name = known, s.Name
		}
	}
	if name != "" {
		hint := fmt.Sprintf("lower it, or give a site more hosts; %s has the most, %d", name, most)
		if file, err := SitesPath(); f.Path == "" && err == nil {
			hint = fmt.Sprintf("lower it, or to try it here, write `sites: [{name: lab, provider: local, hosts: %d}]` to %s", t.Job.Hosts(), file)
		}
		t.report.at("nodes", hint, "nodes: the job wants %d hosts, and none of its sites has as many", t.Job.Hosts())
	}
}

// writesToMount reports whether the command begins in a mount to which it may write.
func (j *Job) writesToMount() bool {
	return j.Workdir != "" && slices.ContainsFunc(j.Mounts, func(m Mount) bool { return m.Write && below(j.Workdir, m.To) })
}

// Warnings are what is likely to surprise the user of a job on these sites, though it can
// be run.
func (j *Job) Warnings(sites []Site) []string {
	var list []string
	if len(j.Outputs) == 0 && j.Volume.Kind != VolumeBurst && !j.writesToMount() && (j.Workdir != "" || len(j.Inputs) > 0 || j.Checkpoint != nil) {
		list = append(list, "what the job writes is gone when it ends: it has no `outputs:`, which name what to collect")
	}
	if c := j.Checkpoint; c != nil && !j.SavesVM() && len(c.Paths) == 0 {
		list = append(list, "`checkpoint:` has no `paths:`, which name the files of a checkpoint: whether the job wrote one cannot be seen, and a log that grows counts as one")
	}
	if v := j.VM; v != nil && v.Fabric == "multicast" && v.Encryption != EncryptionNone && j.Nodes > 1 {
		list = append(list, "`fabric: multicast` sends what the guests say to each other, and a volume that they share over it, in clear: whoever is on the hosts' network can read and change it. `encryption: none` says that this is meant; the other fabrics encrypt")
	}
	for _, s := range sites {
		if cores := s.coresKnown(); cores > 0 && j.RanksPerNode > cores && s.TooSmall(j) == "" {
			list = append(list, fmt.Sprintf("on site %s, %d ranks share %d cores of each host: `ranks_per_node` is larger than its `slots`", s.Name, j.RanksPerNode, cores))
		}
	}
	return list
}

// SkippedSites are the sites that no run of the job asks, with the reason of each.
func (j *Job) SkippedSites(sites []Site) []string {
	var list []string
	for _, s := range sites {
		if why := s.TooSmall(j); why != "" {
			list = append(list, fmt.Sprintf("site %s is skipped: %s", s.Name, why))
		}
	}
	return list
}

// TooSmall returns why a site is known, without asking it, to be too small for a job; "": it is not
// known to be.
func (s *Site) TooSmall(j *Job) string {
	if known := s.HostsKnown(); known > 0 && known < j.Hosts() {
		return fmt.Sprintf("the job wants %d hosts, and it has %d", j.Hosts(), known)
	}
	if s.Provider != "local" && s.Provider != "ssh" { // others may have hosts of several sizes
		return ""
	}
	if cores := s.coresKnown(); cores > 0 && j.Cores > cores {
		return fmt.Sprintf("the job wants %d cores on each host, and it has %d", j.Cores, cores)
	}
	return ""
}
