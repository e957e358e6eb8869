package cli

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
)

// TestAPlanWithoutASiteFails, also for scripts that read its JSON.
func TestAPlanWithoutASiteFails(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir) // where there is no Slurm
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\n"), 0o600), os.WriteFile(sites, []byte("sites: [{name: cluster, provider: slurm}]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"plan", job}, {"plan", "--json", job}} {
		d := newDesk(t)
		if err := d.bee(append([]string{"--sites", sites}, args...)...); !errors.Is(err, console.Exit(console.ExitUnsupported)) {
			t.Errorf("%v: %v, %s", args, err, d.out.String())
		}
		var list []control.Prospect
		if len(args) == 3 && (json.Unmarshal(d.out.Bytes(), &list) != nil || len(list) != 1 || list[0].Site != "cluster" || list[0].Usable || list[0].Reason == "") {
			t.Errorf("it writes %s", d.out.String())
		}
	}
}

// TestAPlanHasTheCostOfASlot by the price at the site, of all hosts of the job.
func TestAPlanHasTheCostOfASlot(t *testing.T) {
	dir := t.TempDir()
	job, sites := filepath.Join(dir, "job.yaml"), filepath.Join(dir, "sites.yaml")
	if err := errors.Join(os.WriteFile(job, []byte("image: busybox\nrun: \"true\"\nnodes: 2\n"), 0o600), os.WriteFile(sites, []byte("sites: [{name: here, provider: local, hosts: 2, price: 1.5, slot: 4h}]\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	if err := d.bee("--sites", sites, "plan", "--json", job); err != nil && !errors.Is(err, console.Exit(console.ExitUnsupported)) {
		t.Fatal(err)
	}
	var list []control.Prospect
	if err := json.Unmarshal(d.out.Bytes(), &list); err != nil || len(list) != 1 || list[0].CostPerHour != 3 || list[0].CostPerSlot != 12 {
		t.Errorf("it writes %s, %v", d.out.String(), err)
	}
}
