package e2e

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// example runs one of examples/ on two emulated hosts, and gives its bee.
func example(t *testing.T, name string) *testkit.Bee {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	copyExample(t, b, name)
	r := b.Try("--sites", "sites.yaml", "run", filepath.Join(name, "job.yaml"))
	if r.Code != 0 {
		t.Fatalf("%s ended with %d\n%s\n%s", name, r.Code, r.Stdout, r.Stderr)
	}
	var v testkit.RunView
	b.JSON(&v, "show", "--json", strings.TrimSpace(b.Must("ps", "-aq")))
	if len(v.Attempts) != 1 || len(v.Attempts[0].Hosts) != 2 {
		t.Errorf("it did not run on two hosts: %+v", v)
	}
	return b
}

// copyExample puts one of examples/ into a bee's working directory.
func copyExample(t *testing.T, b *testkit.Bee, name string) {
	t.Helper()
	copyInto(t, b, name, "sites.yaml")
	os.RemoveAll(filepath.Join(b.Work, name, "results"))
}

// copyInto puts parts of examples/ into it.
func copyInto(t *testing.T, b *testkit.Bee, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if out, err := exec.Command("cp", "-r", filepath.Join(testkit.Root(t), "examples", part), b.Work).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
}

func number(t *testing.T, text, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in\n%s", pattern, text)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestExampleMPI4Py(t *testing.T) {
	got := example(t, "mpi4py").Read("mpi4py/results/pi.txt")
	if !strings.HasPrefix(got, "pi = 3.1415926536 by ") || !strings.Contains(got, "lab-0, lab-1") {
		t.Errorf("got %q", got)
	}
}

// TestTheReadmesFirstBeefile does what the README says, with the files that it shows.
func TestTheReadmesFirstBeefile(t *testing.T) {
	testkit.Once(t)
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	b.File("sites.yaml", shown(t, "../README.md", "yaml", "sites:\n"))
	job := b.File("job.yaml", shown(t, "../README.md", "yaml", "name: pi\n"))
	copyInto(t, b, "mpi4py/input")
	b.Must("--sites", "sites.yaml", "check", job)
	b.Must("--sites", "sites.yaml", "run", job)
	if got := b.Read("results/pi.txt"); !strings.HasPrefix(got, "pi = 3.1415926536 by ") {
		t.Errorf("got %q", got)
	}
	if said := b.Must("show", "pi"); !strings.Contains(said, "lab-1") {
		t.Errorf("it did not run on two hosts of the first site:\n%s", said)
	}
}

func TestExampleGROMACS(t *testing.T) {
	log := example(t, "gromacs").Read("gromacs/results/md.log")
	if drift := number(t, log, `Conserved energy drift: (\S+) kJ/mol/ps per atom`); math.Abs(drift) > 0.02 {
		t.Errorf("the conserved energy drifts by %v kJ/mol/ps per atom", drift)
	}
	if ranks := number(t, log, `On (\d+) MPI ranks`); ranks != 2 {
		t.Errorf("it ran on %v MPI processes", ranks)
	}
}

func TestExampleLAMMPS(t *testing.T) {
	log := example(t, "lammps").Read("lammps/results/log.lammps")
	first := number(t, log, `(?m)^\s+0\s+\S+\s+\S+\s+\S+\s+(\S+)\s*$`)
	last := number(t, log, `(?m)^\s+500\s+\S+\s+\S+\s+\S+\s+(\S+)\s*$`)
	if math.Abs(last-first) > 1e-4*math.Abs(first) {
		t.Errorf("the total energy went from %v to %v", first, last)
	}
	if procs := number(t, log, `Loop time of \S+ on (\d+) procs`); procs != 2 {
		t.Errorf("it ran on %v processes", procs)
	}
}

func TestExampleHPCC(t *testing.T) {
	out := example(t, "hpcc").Read("hpcc/results/hpccoutf.txt")
	if procs := number(t, out, `CommWorldProcs=(\d+)`); procs != 2 {
		t.Errorf("it ran on %v processes", procs)
	}
	if !regexp.MustCompile(`\|\|Ax-b\|\|_oo.*PASSED`).MatchString(out) || strings.Contains(out, "FAILED") || !strings.Contains(out, "Success=1") {
		t.Errorf("HPL's residual did not pass:\n%s", out)
	}
}
