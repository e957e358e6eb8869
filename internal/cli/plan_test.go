package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
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
		if err := d.bee(append([]string{"--sites", sites}, args...)...); !errors.Is(err, console.Exit(console.ExitUnsupported)) || !strings.Contains(d.out.String(), "cluster") {
			t.Errorf("%v: %v, %s", args, err, d.out.String())
		}
	}
}
