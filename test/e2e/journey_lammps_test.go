package e2e

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// lammps is the job of an example, as docs/how-to/checkpoints.md says it is made ready to
// move: what it prints of the last step is the same as without.
func lammps(steps string) journey {
	return journey{
		example: "lammps",
		ready: func(t *testing.T, b *testkit.Bee) {
			edit(t, b, "lammps/input/in.melt", "run          500", sameOrder+"restart      100 a.restart b.restart\nrun          "+steps)
			b.File("lammps/input/in.resume", shown(t, "how-to/checkpoints.md", "text", "read_restart"))
			edit(t, b, "lammps/input/in.resume", "neighbor ", sameOrder+"neighbor ")
			edit(t, b, "lammps/input/in.resume", "3000 upto", steps+" upto")
			run := "run: mpirun lmp -in in.melt\n"
			_, further, _ := strings.Cut(shown(t, "how-to/checkpoints.md", "yaml", "name: melt\n"), run)
			edit(t, b, "lammps/job.yaml", run, run+further+"volume: /data\n")
		},
		begun:  []string{"sh", "-c", "ls /data/*.restart"},
		onward: []string{"test", "-e", "/data/checked.data"},
		log:    "lammps/log.lammps", resumed: "read_restart",
		finish: func(t *testing.T, b *testkit.Bee) string { return lastStep(t, b, steps) },
	}
}

func TestLAMMPSGoesFromSlurmToSSHToThisMachine(t *testing.T) {
	testkit.Long(t, "TestGROMACSMoves")
	lammps("16000").travel(t)
}

func TestLAMMPSMoves(t *testing.T) {
	testkit.Long(t, "TestGROMACSMoves")
	lammps("4000").move(t)
}

// sameOrder keeps LAMMPS from sorting its atoms, as it would when it continues: sums
// in another order differ in their last digits, and then grow apart.
const sameOrder = "atom_modify  sort 0 0\n"

// lastStep is what LAMMPS prints of its last step: temperature and energies.
func lastStep(t *testing.T, b *testkit.Bee, steps string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^ +`+steps+`( +[-0-9.]+){4} *$`).FindAllString(b.Read("lammps/log.lammps"), -1)
	if len(lines) != 1 {
		t.Fatalf("its last step: %q", lines)
	}
	return strings.TrimSpace(lines[0])
}
