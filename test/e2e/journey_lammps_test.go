package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLAMMPSGoesFromSlurmToSSHToThisMachine, as docs/checkpointing.md says it is
// made ready for that: what it prints of the last step is the same as without.
func TestLAMMPSGoesFromSlurmToSSHToThisMachine(t *testing.T) {
	testkit.Once(t)
	journey{
		example: "lammps",
		ready: func(t *testing.T, b *testkit.Bee) {
			edit(t, b, "lammps/input/in.melt", "run          500", "restart      200 a.restart b.restart\nrun          3000")
			b.File("lammps/input/in.resume", shown(t, "checkpointing.md", "text", "read_restart"))
			edit(t, b, "lammps/job.yaml", "run: mpirun lmp -in in.melt\n", shown(t, "checkpointing.md", "yaml", "run: mpirun lmp -in in.melt\n")+"volume: /data\n")
		},
		onward: []string{"test", "-e", "/data/checked.data"},
		finish: lastStep,
	}.travel(t)
}

// lastStep is what LAMMPS prints of its last step: temperature and energies.
func lastStep(t *testing.T, b *testkit.Bee) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^ +3000( +[-0-9.]+){4} *$`).FindAllString(b.Read("lammps/results/log.lammps"), -1)
	if len(lines) != 1 {
		t.Fatalf("its last step: %q", lines)
	}
	return strings.TrimSpace(lines[0])
}
