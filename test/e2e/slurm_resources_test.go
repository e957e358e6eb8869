package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// submitted waits until Slurm has a job of a run, and gives what scontrol shows of it.
func submitted(t *testing.T, farm *slurmfarm.Farm, run string) string {
	t.Helper()
	var number string
	testkit.Eventually(t, 60*time.Second, func() error {
		out, err := farm.Do("squeue", "--noheader", "--states=all", "--name=bee-"+run, "--format=%A")
		if number = strings.TrimSpace(out); err == nil && number == "" {
			err = errors.New("Slurm has no job of run " + run)
		}
		return err
	})
	out, err := farm.Do("scontrol", "--oneliner", "show", "job", number)
	if err != nil {
		t.Fatal(err, out)
	}
	return out
}

// TestAShortJobIsBackfilled: a job that names its time and its cores starts before one that
// asks for the site's whole slot, on a node that waits for a third job.
func TestAShortJobIsBackfilled(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 4h", "time: 2m", "cores: 1", "memory: 300M", "run: echo $BEE_RANKS_PER_NODE")
	for _, nodes := range []string{"--nodes=1", "--nodes=2"} { // the second waits for both nodes
		if out, err := farm.Do("sbatch", nodes, "--time=30", "--exclusive", "--wrap='sleep 1000'"); err != nil {
			t.Fatal(err, out)
		}
	}
	long := b.File("long.yaml", strings.NewReplacer("time: 2m\n", "", "cores: 1\n", "", "memory: 300M\n", "").Replace(b.Read("job.yaml")))
	id := strings.TrimSpace(b.Must("run", "-d", long))
	if shown := submitted(t, farm, id); !strings.Contains(shown, " TimeLimit=04:00:00 ") || !strings.Contains(shown, "JobState=PENDING") {
		t.Errorf("the long one: %s", shown)
	}
	if plan := b.Must("plan", job); !strings.Contains(plan, "2m ") {
		t.Errorf("the plan of the short one:\n%s", plan)
	}
	if plan := b.Must("plan", long); !strings.Contains(plan, "4h ") || strings.Contains(plan, " now ") {
		t.Errorf("the plan of the long one:\n%s", plan)
	}
	if out := b.Must("run", "--name", "short", "-q", job); out != "1\n" {
		t.Errorf("the short one printed %q", out)
	}
	short := b.Await("short", time.Minute)
	if short.State != "succeeded" {
		t.Errorf("the short one: %+v", short)
	}
	shown := submitted(t, farm, short.ID)
	for _, want := range []string{" TimeLimit=00:02:00 ", " CPUs/Task=1 ", " MinMemoryNode=300M ", " NumCPUs=1 "} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in %s", want, shown)
		}
	}
	if shown := submitted(t, farm, id); !strings.Contains(shown, "JobState=PENDING") {
		t.Errorf("the long one began meanwhile: %s", shown)
	}
	b.Must("stop", id)
	if out, err := farm.Do("scancel", "--user="+fmt.Sprint(os.Getuid())); err != nil {
		t.Error(err, out)
	}
}
