package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestGROMACSGoesFromSlurmToSSHToThisMachine: a slot too short for the job on a
// cluster, a host lost among machines behind ssh, the end on this machine. What
// it computes is the same, to the last digit, as without any of that.
func TestGROMACSGoesFromSlurmToSSHToThisMachine(t *testing.T) {
	if os.Getenv("BEE_TEST_JOURNEY") == "" {
		t.Skip("wants six minutes of an idle machine with a quick disk: BEE_TEST_JOURNEY=1")
	}
	testkit.RequireTool(t, "mmdebstrap")
	farm := slurmfarm.Start(t, 2)
	b := testkit.NewBee(t)
	copyExample(t, b, "gromacs")
	write := func(name, old, text string) {
		t.Helper()
		path := filepath.Join(b.Work, "gromacs", name)
		raw, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(raw), old) {
			t.Fatalf("%s: no %q (%v)", name, old, err)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(raw), old, text, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("input/md.mdp", "nsteps          = 600", "nsteps          = 80000")
	write("job.yaml", "-deffnm md\noutputs", "-deffnm md -reprod\nresume: mpirun gmx_mpi -quiet mdrun -deffnm md -reprod -cpi md.cpt\ncheckpoint: {grace: 15s, paths: [/work/md.cpt]}\noutputs")
	b.Env = append(b.Env, "PATH="+farm.Bin+":"+os.Getenv("PATH"))
	sites := b.File("journey.yaml", fmt.Sprintf(`sites:
  - {name: cluster, provider: slurm, login: h0, scratch: %s, slot: 1m, price: 0.5}
  - {name: rack, provider: ssh, hosts: [h1, h2], scratch: %s, price: 0.1}
  - {name: laptop, provider: local, hosts: 2}
`, filepath.Join(farm.Dir, "scratch"), filepath.Join(farm.Dir, "rack")))
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", "gromacs/job.yaml"))
	// The rack's second host loses its power once the job has got further there.
	testkit.Eventually(t, 6*time.Minute, func() error {
		var v testkit.RunView
		b.JSON(&v, "show", "--json", id)
		if len(v.Attempts) != 2 || v.State != "running" {
			if v.State == "failed" || len(v.Attempts) > 2 {
				t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
			}
			return fmt.Errorf("%d attempts, %s", len(v.Attempts), v.State)
		}
		if r := b.Try("exec", id, "--", "grep", "-q", "Restarting from checkpoint", "/work/md.log"); r.Code != 0 {
			return fmt.Errorf("it has not begun: %s", r.Stderr)
		}
		return nil
	})
	time.Sleep(2 * time.Second) // in which it computes what will be lost
	if err := farm.Kill(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	v := b.Await(id, 8*time.Minute)
	text := b.Must("show", id)
	t.Log("\n" + text)
	if v.State != "succeeded" || len(v.Attempts) != 3 || v.Attempts[0].Site != "cluster" || v.Attempts[1].Site != "rack" || v.Attempts[2].Site != "laptop" {
		t.Fatalf("the run: %+v", v)
	}
	accounted(t, b, id)
	got := finish(t, b)
	if r := b.Try("--sites", sites, "run", "-q", "--site", "laptop", "gromacs/job.yaml"); r.Code != 0 {
		t.Fatalf("without any of that: %+v", r)
	}
	if want := finish(t, b); got != want {
		t.Errorf("it computed\n%s\nand without moving\n%s", got, want)
	}
}

// finish is the last step's energies and the coordinates of all atoms.
func finish(t *testing.T, b *testkit.Bee) string {
	t.Helper()
	log := b.Read("gromacs/results/md.log")
	energies := regexp.MustCompile(`(?s)Energies \(kJ/mol\)\n.*?\n\n`).FindAllString(log, -1)
	if len(energies) < 3 {
		t.Fatalf("%d blocks of energies in the log", len(energies))
	}
	// The last block is an average over what one process saw.
	last := energies[len(energies)-2]
	_, coordinates, _ := strings.Cut(b.Read("gromacs/results/md.gro"), "\n") // without the title
	return last + coordinates
}

// accounted fails when the phases of a run leave more than a twentieth of its
// time without a name.
func accounted(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	var v struct {
		Created, Ended time.Time
		Attempts       []struct{ Phases map[string]float64 }
	}
	b.JSON(&v, "show", "--json", id)
	sum, run := 0.0, 0.0
	for _, a := range v.Attempts {
		for name, took := range a.Phases {
			sum += took
			if name == "run" {
				run += took
			}
		}
	}
	wall := v.Ended.Sub(v.Created).Seconds()
	t.Logf("of %.1f s, %.1f s went to computing, and %.1f s have no name", wall, run, wall-sum)
	if wall-sum > 2+wall/20 {
		t.Errorf("of %.1f s only %.1f s are accounted for", wall, sum)
	}
}
