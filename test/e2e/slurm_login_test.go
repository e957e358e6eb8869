package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAnotherLoginNodeGoesOn with a run when the one that it was begun on is gone: all that
// it takes is the home that both have.
func TestAnotherLoginNodeGoesOn(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, "", "workdir: /work", "outputs: [{from: /work/*, to: results}]", "run: "+steadyCounter)
	sites := b.File("own.yaml", "sites: [{name: here, provider: slurm, scratch: "+filepath.Join(farm.Dir, "scratch")+"}]\n")
	on := func(host int, args ...string) string {
		t.Helper()
		out, err := farm.DoOn(host, append(append(beeThere(t, b), "--sites", sites), args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	words := strings.Fields(on(0, "run", "-q", "-d", job))
	id := words[len(words)-1]
	controlledOn := func(host int) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			raw, err := os.ReadFile(filepath.Join(b.Dir, "state", "runs", id, "lock"))
			if err == nil && !strings.HasSuffix(string(raw), "\n"+farm.Names[host]+"\n") {
				err = fmt.Errorf("its controller is %q", raw)
			}
			return err
		})
	}
	testkit.Eventually(t, time.Minute, func() error {
		_, err := farm.DoOn(2, append(append(beeThere(t, b), "--sites", sites), "exec", id, "--", "test", "-e", "/work/log")...)
		return err
	})
	controlledOn(0)
	killControllers(t, b)
	on(2, "supervise")
	controlledOn(2)
	on(2, "logs", "-f", id)
	v := b.Await(id, 20*time.Second)
	if v.State != "succeeded" || len(v.Attempts) != 1 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); log != "from 0\n" || b.Read("results/done") != "80\n" {
		t.Errorf("attempts began %q", log)
	}
	nothingQueued(t, farm)
}
