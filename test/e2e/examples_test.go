package e2e

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

func TestExampleMPI4Py(t *testing.T) {
	testkit.AsRootToo(t)
	got := testkit.Example(t, "mpi4py").Read("mpi4py/pi.txt")
	if !strings.HasPrefix(got, "pi = 3.1415926536 by ") || !strings.Contains(got, "lab-0, lab-1") {
		t.Errorf("got %q", got)
	}
}

// TestTheReadmesFirstBeefile does what the README says, with the files that it shows.
func TestTheReadmesFirstBeefile(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	b.File("sites.yaml", shown(t, "../README.md", "yaml", "sites:\n"))
	job := b.File("job.yaml", shown(t, "../README.md", "yaml", "name: pi\n"))
	b.CopyExamples("mpi4py/input")
	b.Must("--sites", "sites.yaml", "check", job)
	b.Must("--sites", "sites.yaml", "run", job)
	if got := b.Read("pi.txt"); !strings.HasPrefix(got, "pi = 3.1415926536 by ") {
		t.Errorf("got %q", got)
	}
	if printed := b.Must("show", "pi"); !strings.Contains(printed, "lab-1") {
		t.Errorf("it did not run on two hosts of the first site:\n%s", printed)
	}
}

// TestTheFirstRunOfTheTutorial runs docs/tutorial/first-run.md with another image.
func TestTheFirstRunOfTheTutorial(t *testing.T) {
	t.Parallel()
	_, rest, found := strings.Cut(shown(t, "tutorial/first-run.md", "yaml", "name: hello\n"), "image: docker.io/library/debian:12\n")
	if !found {
		t.Fatal("the tutorial has another image")
	}
	b, job := busyboxJob(t, strings.TrimSuffix(rest, "\n"))
	b.File("names.txt", shown(t, "tutorial/first-run.md", "text", "Ada\n"))
	b.Must("run", job)
	if got := b.Read("results/greetings.txt"); got != "hello Ada\nhello Grace\n" {
		t.Errorf("got %q", got)
	}
}

// TestTheMPITutorial runs the files of docs/tutorial/mpi.md.
func TestTheMPITutorial(t *testing.T) {
	t.Parallel()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	b.File("sites.yaml", shown(t, "tutorial/mpi.md", "yaml", "sites:\n  - {name: lab, "))
	b.File("input/hello.py", shown(t, "tutorial/mpi.md", "python", "from mpi4py"))
	job := b.File("job.yaml", shown(t, "tutorial/mpi.md", "yaml", "name: hello-mpi\n"))
	out := b.Must("--sites", "sites.yaml", "run", job)
	if got := b.Read("results/sum.txt"); got != "6\n" || !strings.Contains(out, "rank 3 of 4 on lab-1\n") {
		t.Errorf("the sum is %q, the output: %s", got, out)
	}
}

func TestExampleGROMACS(t *testing.T) {
	log := testkit.Example(t, "gromacs").Read("gromacs/md.log")
	if drift := testkit.Number(t, log, `Conserved energy drift: (\S+) kJ/mol/ps per atom`); math.Abs(drift) > 0.02 {
		t.Errorf("the conserved energy drifts by %v kJ/mol/ps per atom", drift)
	}
	if ranks := testkit.Number(t, log, `On (\d+) MPI ranks`); ranks != 2 {
		t.Errorf("it ran on %v MPI processes", ranks)
	}
}

func TestExampleLAMMPS(t *testing.T) {
	b := testkit.Example(t, "lammps")
	var measured struct {
		Progress struct{ Done, Total float64 } `json:"progress"`
	}
	if b.JSON(&measured, "metrics", "--json", "melt"); measured.Progress.Done != 500 || measured.Progress.Total != 500 {
		t.Errorf("its progress at its end is %+v", measured.Progress)
	}
	log := b.Read("lammps/log.lammps")
	first := testkit.Number(t, log, `(?m)^\s+0\s+\S+\s+\S+\s+\S+\s+(\S+)\s*$`)
	last := testkit.Number(t, log, `(?m)^\s+500\s+\S+\s+\S+\s+\S+\s+(\S+)\s*$`)
	if math.Abs(last-first) > 1e-4*math.Abs(first) {
		t.Errorf("the total energy went from %v to %v", first, last)
	}
	if procs := testkit.Number(t, log, `Loop time of \S+ on (\d+) procs`); procs != 2 {
		t.Errorf("it ran on %v processes", procs)
	}
}

func TestExampleHPCC(t *testing.T) {
	out := testkit.Example(t, "hpcc").Read("hpcc/hpccoutf.txt")
	if procs := testkit.Number(t, out, `CommWorldProcs=(\d+)`); procs != 2 {
		t.Errorf("it ran on %v processes", procs)
	}
	if !regexp.MustCompile(`\|\|Ax-b\|\|_oo.*PASSED`).MatchString(out) || strings.Contains(out, "FAILED") || !strings.Contains(out, "Success=1") {
		t.Errorf("HPL's residual did not pass:\n%s", out)
	}
}
