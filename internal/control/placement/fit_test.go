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

// TestBurstBuffersAreOfThisMachine: sites elsewhere cannot take the job, and emulated hosts only from root.
func TestBurstBuffersAreOfThisMachine(t *testing.T) {
	job := &spec.Job{Nodes: 1, Volume: spec.Volume{Kind: spec.VolumeBurst, Remote: "/far"}}
	if err := CheckVolume(spec.Site{Name: "here", Provider: "local"}, job); err != nil {
		t.Error(err)
	}
	lab := spec.Site{Name: "lab", Provider: "local", Hosts: spec.Hosts{Count: 2}}
	if err := checkBurst(lab, true); err != nil {
		t.Error(err)
	}
	if err := checkBurst(lab, false); !core.IsKind(err, core.Unsupported) {
		t.Errorf("%s of an ordinary user: %v", lab.Name, err)
	}
	lab.PrivateScratch = true
	for _, site := range []spec.Site{lab, {Name: "far", Provider: "ssh"}, {Name: "queue", Provider: "slurm"}} {
		if err := CheckVolume(site, job); !core.IsKind(err, core.Unsupported) {
			t.Errorf("%s: %v", site.Name, err)
		}
	}
}
