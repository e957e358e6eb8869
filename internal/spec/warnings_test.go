package spec

import (
	"runtime"
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	many := runtime.NumCPU() + 1
	small := Site{Name: "lab", Provider: "local", Hosts: Hosts{Count: 2}}
	rack := Site{Name: "rack", Provider: "ssh", Hosts: Hosts{Patterns: []string{"n[1-4]", "m"}}, Slots: 4}
	queue := Site{Name: "cluster", Provider: "slurm"}
	outputs := []Output{{From: "/work/a", To: "."}}
	for name, c := range map[string]struct {
		job   Job
		sites []Site
		want  int
	}{
		"nothing":              {Job{Nodes: 2, Outputs: outputs}, []Site{small, rack, queue}, 0},
		"no outputs":           {Job{Nodes: 1, Workdir: "/work"}, []Site{small}, 1},
		"below a mount":        {Job{Nodes: 1, Workdir: "/data/run", Mounts: []Mount{{From: "/p", To: "/data", Write: true}}}, []Site{small}, 0},
		"a mount to read":      {Job{Nodes: 1, Workdir: "/data/run", Mounts: []Mount{{From: "/p", To: "/data"}}}, []Site{small}, 1},
		"beside a mount":       {Job{Nodes: 1, Workdir: "/database", Mounts: []Mount{{From: "/p", To: "/data", Write: true}}}, []Site{small}, 1},
		"drained anyway":       {Job{Nodes: 1, Workdir: "/work", Volume: Volume{Kind: VolumeBurst}}, []Site{small}, 0},
		"no paths":             {Job{Nodes: 1, Outputs: outputs, Checkpoint: &Checkpoint{}}, []Site{small}, 1},
		"paths":                {Job{Nodes: 1, Outputs: outputs, Checkpoint: &Checkpoint{Paths: []string{"/work/a"}}}, []Site{small}, 0},
		"machines are saved":   {Job{Nodes: 1, Outputs: outputs, VM: &VM{}, Checkpoint: &Checkpoint{Mode: CheckpointVM}}, []Site{small}, 0},
		"multicast":            {Job{Nodes: 2, Outputs: outputs, VM: &VM{Fabric: "multicast"}}, []Site{small}, 1},
		"multicast, meant so":  {Job{Nodes: 2, Outputs: outputs, VM: &VM{Fabric: "multicast", Encryption: EncryptionNone}}, []Site{small}, 0},
		"nobody to hear it":    {Job{Nodes: 1, Outputs: outputs, VM: &VM{Fabric: "multicast"}}, []Site{small}, 0},
		"one site is small":    {Job{Nodes: 3}, []Site{small, rack, queue}, 1},
		"both are small":       {Job{Nodes: 6}, []Site{small, rack, queue}, 2},
		"several on a host":    {Job{Nodes: 4, VM: &VM{PerHost: 2}}, []Site{small}, 0},
		"cores of this host":   {Job{Nodes: 1, RanksPerNode: many}, []Site{small}, 1},
		"cores of others":      {Job{Nodes: 1, RanksPerNode: 5}, []Site{rack, queue}, 1},
		"too many cores":       {Job{Nodes: 1, Cores: 5, RanksPerNode: 5}, []Site{rack, queue}, 1},
		"cores of a queue":     {Job{Nodes: 1, Cores: 5}, []Site{{Name: "cluster", Provider: "slurm", Slots: 4}}, 0},
		"this machine, no lab": {Job{Nodes: 2}, DefaultSites(), 1},
	} {
		if got := append(c.job.Warnings(c.sites), c.job.SkippedSites(c.sites)...); len(got) != c.want {
			t.Errorf("%s: warnings %q, want %d", name, got, c.want)
		}
	}
}

func TestTooManyHostsAreFoundWithoutAsking(t *testing.T) {
	sites := SitesFile{Sites: []Site{{Name: "lab", Provider: "local", Hosts: Hosts{Count: 2}}, {Name: "rack", Provider: "ssh", Hosts: Hosts{Patterns: []string{"n[1-4]"}}}}}
	withQueue := SitesFile{Sites: append(sites.Sites[:2:2], Site{Name: "cluster", Provider: "slurm"})}
	for text, c := range map[string]struct {
		sites SitesFile
		valid bool
	}{
		"nodes: 5":                     {sites, false},
		"nodes: 4":                     {sites, true},
		"nodes: 3\nsites: [lab]":       {sites, false},
		"nodes: 5 ":                    {withQueue, true},
		"nodes: 5\nsites: [lab, rack]": {withQueue, false},
		"nodes: 9\nvm: {per_host: 3}":  {sites, true},
		"nodes: 2\nsites: [elsewhere]": {sites, true}, // CheckSites reports it
		"image: b\nnodes: 0":           {sites, false},
	} {
		d := parseDraft("job.yaml", []byte("image: a\n"+text+"\n"), "/")
		d.CheckHosts(c.sites)
		if _, err := d.Finish(); (err == nil) != c.valid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestTooManyHostsWithoutASitesFile: the hint has a whole file and its path.
func TestTooManyHostsWithoutASitesFile(t *testing.T) {
	t.Setenv("BEE_SITES", "/etc/lab.yaml")
	for file, want := range map[string]bool{"": true, "/etc/lab.yaml": false} {
		d := parseDraft("job.yaml", []byte("image: a\nnodes: 2\n"), "/")
		d.CheckHosts(SitesFile{Path: file, Sites: DefaultSites()})
		_, err := d.Finish()
		if err == nil || strings.Contains(err.Error(), "`sites: [{name: lab, provider: local, hosts: 2}]` to /etc/lab.yaml") != want {
			t.Errorf("%q: %v", file, err)
		}
	}
}
