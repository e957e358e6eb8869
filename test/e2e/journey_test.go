package e2e

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// journey is a job that travels: a slot too short for it on a cluster, a host lost
// among machines behind ssh, the end on this machine.
type journey struct {
	// example is the job's, without a checkpoint, and ready makes it one that moves.
	example string
	ready   func(t *testing.T, b *testkit.Bee)
	// keep, if set, takes what its setup makes, after it has run without moving, so
	// that it needs no setup any more.
	keep func(t *testing.T, b *testkit.Bee)
	// begun is a command in its container that succeeds once it computes, and onward
	// one that does once an attempt has read a checkpoint.
	begun, onward []string
	// log is the file of its results that has the word resumed after that.
	log, resumed string
	// finish is what it has computed.
	finish func(t *testing.T, b *testkit.Bee) string
}

// shortSlot is the cluster's: the last 30 seconds are for saving (`grace` of 20s, and
// 10s for the rest). What is before them has to be enough for a beginning on a busy
// machine, and less than the whole job takes on one that has nothing else to do: up
// to seven times as long was seen on one and the same. So journeys are not made beside
// others of these tests.
const shortSlot = 36 * time.Second

// gromacs is the job of an example: what it computes is the same, to the last digit,
// as without moving.
func gromacs(steps string) journey {
	return journey{
		example: "gromacs",
		ready: func(t *testing.T, b *testkit.Bee) {
			edit(t, b, "gromacs/input/md.mdp", "nsteps          = 600", "nsteps          = "+steps)
			edit(t, b, "gromacs/job.yaml", "-deffnm md\noutputs", "-deffnm md -reprod\nresume: mpirun gmx_mpi -quiet mdrun -deffnm md -reprod -cpi md.cpt\nvolume: /data\ncheckpoint: {grace: 20s, paths: [/data/md.cpt]}\noutputs")
		},
		keep: func(t *testing.T, b *testkit.Bee) {
			if err := os.Rename(filepath.Join(b.Work, "gromacs/md.tpr"), filepath.Join(b.Work, "gromacs/input/md.tpr")); err != nil {
				t.Fatal(err)
			}
			b.File("gromacs/job.yaml", regexp.MustCompile(`(?ms)^setup:.*?(^run:)`).ReplaceAllString(b.Read("gromacs/job.yaml"), "$1"))
		},
		begun:  []string{"grep", "-q", "Started mdrun", "/data/md.log"},
		onward: []string{"grep", "-q", "Restarting from checkpoint", "/data/md.log"},
		log:    "gromacs/md.log", resumed: "Restarting from checkpoint",
		finish: energiesAndCoordinates,
	}
}

func TestGROMACSGoesFromSlurmToSSHToThisMachine(t *testing.T) {
	testkit.Long(t, "TestGROMACSMoves")
	gromacs("9000").travel(t)
}

func TestGROMACSMoves(t *testing.T) { gromacs("1500").move(t) }

// prepare puts the job into a bee's working directory, with its volume where the sites
// of journeys have it.
func (j journey) prepare(t *testing.T, b *testkit.Bee) (job string) {
	t.Helper()
	b.CopyExample(j.example)
	j.ready(t, b)
	job = j.example + "/job.yaml"
	b.File(job, strings.ReplaceAll(b.Read(job), "/work", "/data"))
	return job
}

// move has the job computed on one site, and begun there and moved to another.
func (j journey) move(t *testing.T) {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	job := j.prepare(t, b)
	sites := b.File("journey.yaml", "sites:\n  - {name: desk, provider: local, hosts: 2}\n  - {name: laptop, provider: local, hosts: 2, private_scratch: true}\n")
	if r := b.Try("--sites", sites, "run", "-q", job); r.Code != 0 {
		t.Fatalf("without moving: %+v", r)
	}
	want := j.finish(t, b)
	if j.keep != nil {
		j.keep(t, b)
	}
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try(append([]string{"exec", id, "--"}, j.begun...)...); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	b.Must("move", id)
	v := b.Await(id, 3*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "desk" || v.Attempts[1].Site != "laptop" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	accounted(t, b, id)
	if !strings.Contains(b.Read(j.log), j.resumed) {
		t.Errorf("it began anew: no %q in %s", j.resumed, j.log)
	}
	if got := j.finish(t, b); got != want {
		t.Errorf("it computed\n%s\nand without moving\n%s", got, want)
	}
}

// travel makes the journey, and holds it against one that stays on the submitting machine.
func (j journey) travel(t *testing.T) {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	farm := slurmfarm.Start(t, 2)
	b := testkit.NewBee(t)
	b.Env = append(b.Env, farm.Farm.Env()...)
	job := j.prepare(t, b)
	sites := func(slot time.Duration) string {
		return b.File("journey.yaml", fmt.Sprintf(`sites:
  - {name: cluster, provider: slurm, login: h0, scratch: %s, slot: %s, price: 0.5}
  - {name: rack, provider: ssh, hosts: [h1, h2], scratch: %s, price: 0.1}
  - {name: laptop, provider: local, hosts: 2}
`, filepath.Join(farm.Dir, "scratch"), slot, filepath.Join(farm.Dir, "rack")))
	}
	// First without moving. Meanwhile the image is brought to the other sites, as
	// by an earlier run there: else it would count against the cluster's slot.
	home := strings.TrimSpace(b.Must("--sites", sites(20*time.Minute), "run", "-d", "--site", "laptop", job))
	testkit.Eventually(t, 10*time.Minute, func() error { // in which the image may be built
		if r := b.Try("exec", home, "--", "test", "-e", "/data"); r.Code != 0 {
			return b.Explained(home, r.Stderr)
		}
		return nil
	})
	head := regexp.MustCompile(`(?s)^.*?env:[^\n]*\n`).FindString(b.Read(job))
	b.File(j.example+"/visit.yaml", head+"run: \"true\"\n")
	for _, site := range []string{"cluster", "rack"} {
		if r := b.Try("--sites", "journey.yaml", "run", "-q", "--site", site, j.example+"/visit.yaml"); r.Code != 0 {
			t.Fatalf("a visit to %s: %+v", site, r)
		}
	}
	v := b.Await(home, 5*time.Minute)
	if v.State != "succeeded" {
		t.Fatalf("without moving: %s", b.Must("show", home))
	}
	want := j.finish(t, b)
	// The rest needs no preparation, and gets time for a part of it on the cluster.
	if j.keep != nil {
		j.keep(t, b)
	}
	id := strings.TrimSpace(b.Must("--sites", sites(shortSlot), "run", "-d", job))
	// The rack's second host loses its power once the job has got further there.
	testkit.Eventually(t, 4*time.Minute, func() error {
		var v testkit.RunView
		b.JSON(&v, "show", "--json", id)
		if len(v.Attempts) != 2 || v.State != "running" {
			if v.State == "failed" || v.State == "succeeded" || len(v.Attempts) > 2 {
				t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
			}
			return fmt.Errorf("%d attempts, %s", len(v.Attempts), v.State)
		}
		if r := b.Try(append([]string{"exec", id, "--"}, j.onward...)...); r.Code != 0 {
			return fmt.Errorf("it has not begun: %s", r.Stderr)
		}
		return nil
	})
	if err := farm.Kill(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	v = b.Await(id, 5*time.Minute)
	t.Log("\n" + b.Must("show", id))
	if v.State != "succeeded" || len(v.Attempts) != 3 || v.Attempts[0].Site != "cluster" || v.Attempts[1].Site != "rack" || v.Attempts[2].Site != "laptop" {
		t.Fatalf("the run: %+v", v)
	}
	accounted(t, b, id)
	if got := j.finish(t, b); got != want {
		t.Errorf("it computed\n%s\nand without moving\n%s", got, want)
	}
	// What the lost host still holds would be tried to be removed for ever.
	for _, pid := range b.Controllers() {
		testkit.Kill(pid)
	}
}

// edit replaces a text in a file that has to be there.
func edit(t *testing.T, b *testkit.Bee, name, old, text string) {
	t.Helper()
	raw := b.Read(name)
	if !strings.Contains(raw, old) {
		t.Fatalf("%s: no %q", name, old)
	}
	b.File(name, strings.Replace(raw, old, text, 1))
}

// energiesAndCoordinates are the last step's, and those of all atoms.
func energiesAndCoordinates(t *testing.T, b *testkit.Bee) string {
	t.Helper()
	log := b.Read("gromacs/md.log")
	energies := regexp.MustCompile(`(?s)Energies \(kJ/mol\)\n.*?\n\n`).FindAllString(log, -1)
	if len(energies) < 3 {
		t.Fatalf("%d blocks of energies in the log", len(energies))
	}
	// The last block is an average over what one process saw.
	last := energies[len(energies)-2]
	_, coordinates, _ := strings.Cut(b.Read("gromacs/md.gro"), "\n") // without the title
	return last + coordinates
}

// allNamed fails when what a run's time went to is not all of it.
func allNamed(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	var v struct {
		Created, Ended time.Time
		Time           map[string]float64
	}
	b.JSON(&v, "show", "--json", id)
	sum := 0.0
	for _, took := range v.Time {
		sum += took
	}
	if wall := v.Ended.Sub(v.Created).Seconds(); v.Time["compute"] == 0 || math.Abs(wall-sum) > 0.1 {
		t.Errorf("%.3f s went to %v", wall, v.Time)
	}
}

// accounted fails when the phases of a run leave more than a twentieth of its
// time without a name, or name more than there was.
func accounted(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	var v struct {
		Created, Ended time.Time
		Attempts       []struct{ Phases map[string]float64 }
	}
	b.JSON(&v, "show", "--json", id)
	allNamed(t, b, id)
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
	testkit.Figure(t, "of %.1f s, %.1f s (%.0f %%) went to computing, and %.1f s have no name", wall, run, 100*run/wall, wall-sum)
	if math.Abs(wall-sum) > 2+wall/20 {
		t.Errorf("of %.1f s, %.1f s are accounted for", wall, sum)
	}
}
