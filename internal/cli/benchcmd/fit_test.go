package benchcmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
)

func TestRoomLacks(t *testing.T) {
	big := filepath.Join(t.TempDir(), "big")
	if err := os.WriteFile(big, make([]byte, 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	r := room{memory: 4 << 30, cores: 2, hosts: 2, disk: 4000}
	for name, c := range map[string]struct {
		job  spec.Job
		want string
	}{
		"small":           {spec.Job{Nodes: 1, Cores: 2, Memory: 4 << 30}, ""},
		"memory":          {spec.Job{Nodes: 2, Memory: 3 << 30}, "memory"},
		"memory of a VM":  {spec.Job{Nodes: 1, VM: &spec.VM{Memory: 5 << 30}}, "memory"},
		"cores":           {spec.Job{Nodes: 1, Cores: 3}, "cores"},
		"hosts":           {spec.Job{Nodes: 3}, "hosts"},
		"guests of hosts": {spec.Job{Nodes: 3, VM: &spec.VM{PerHost: 2}}, ""},
		"cores of guests": {spec.Job{Nodes: 1, VM: &spec.VM{CPUs: 3}}, ""},
		"inputs":          {spec.Job{Nodes: 1, Inputs: []spec.Input{{From: filepath.Dir(big)}}}, "disk"},
		"remote inputs":   {spec.Job{Nodes: 1, Inputs: []spec.Input{{From: "https://example.org/x"}}}, ""},
	} {
		if got := r.lacks(&c.job); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, expected %q in it", name, got, c.want)
		}
	}
	if got := (room{}).lacks(&spec.Job{Nodes: 1, Cores: 3, Memory: 1 << 40}); got != "" {
		t.Errorf("nothing is known of the machine: %q", got)
	}
	if r := roomHere(spec.Site{Slots: 7}, filepath.Join(big+"-not-there", "yet")); r.cores != 7 || r.disk == 0 {
		t.Errorf("this machine has %+v", r)
	}
}
