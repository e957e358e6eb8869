package placement

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

func TestTooFewHostsAreToldWithHowManyItTakes(t *testing.T) {
	err := CheckFacts("lab", driver.Facts{Usable: true, Hosts: 3}, 9)
	if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "hosts: 9}") {
		t.Errorf("got %v; %s", err, core.Remedy(err))
	}
}

// TestSitesThatAreTooSmall: what the sites file has of a site is enough to refuse it.
func TestSitesThatAreTooSmall(t *testing.T) {
	rack := spec.Site{Name: "rack", Provider: "ssh", Hosts: spec.Hosts{Patterns: []string{"n[1-2]"}}, Slots: 4}
	for name, c := range map[string]struct {
		site spec.Site
		job  spec.Job
		fits bool
	}{
		"fits":             {rack, spec.Job{Nodes: 2, Cores: 4}, true},
		"hosts":            {rack, spec.Job{Nodes: 3}, false},
		"cores":            {rack, spec.Job{Nodes: 1, Cores: 5}, false},
		"is asked itself":  {spec.Site{Name: "queue", Provider: "slurm", Slots: 4}, spec.Job{Nodes: 99, Cores: 99}, true},
		"guests of a host": {rack, spec.Job{Nodes: 4, VM: &spec.VM{PerHost: 2}}, true},
	} {
		err := CheckSize(c.site, &c.job)
		if (err == nil) != c.fits || err != nil && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSitesWithBurstBuffers: a site takes the job if its hosts can drain the buffer.
func TestSitesWithBurstBuffers(t *testing.T) {
	lab := spec.Site{Name: "lab", Provider: "local", Hosts: spec.Hosts{Count: 2}}
	apart := lab
	apart.Name, apart.PrivateScratch = "apart", true
	here, far, queue, rented := spec.Site{Name: "here", Provider: "local"}, spec.Site{Name: "far", Provider: "ssh"}, spec.Site{Name: "queue", Provider: "slurm"}, spec.Site{Name: "rented", Provider: "aws"}
	for _, c := range []struct {
		site   spec.Site
		remote string
		fits   bool
	}{
		{here, "/far", true},
		{here, "archive:run7", true},
		{lab, "/far", true},
		{apart, "/far", true},
		{far, "archive:run7", true},
		{far, "/far", true},
		{far, "s3://bucket/run7", true},
		{queue, "s3://bucket/run7", true},
		{queue, "/far", true},
		{rented, "archive:run7", false},
	} {
		err := CheckVolume(c.site, &spec.Job{Nodes: 1, Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: c.remote}})
		if c.fits && err != nil || !c.fits && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
			t.Errorf("%s with %s: %v", c.site.Name, c.remote, err)
		}
	}
}

// TestBurstBuffersNeedMounts: a site that cannot mount is refused with what to ask for, for jobs with a burst buffer alone.
func TestBurstBuffersNeedMounts(t *testing.T) {
	job := &spec.Job{Nodes: 1, Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "/far"}}
	err := CheckMounts("here", job, driver.Facts{BurstNeeds: "Ask."})
	if !core.IsKind(err, core.Unsupported) || core.Remedy(err) != "Ask." {
		t.Errorf("got %v; %s", err, core.Remedy(err))
	}
	if err := CheckMounts("here", &spec.Job{Nodes: 1}, driver.Facts{BurstNeeds: "Ask."}); err != nil {
		t.Error(err)
	}
	if err := CheckMounts("here", job, driver.Facts{}); err != nil {
		t.Error(err)
	}
}
