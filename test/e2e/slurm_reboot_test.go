package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// reboot ends all that runs on a cluster's login node, Slurm's controller by TERM, so that
// it writes down what it knows, and gives what starts its daemons again.
func reboot(t *testing.T, farm *slurmfarm.Farm) (start func()) {
	t.Helper()
	network := func(pid string) string { name, _ := os.Readlink(filepath.Join("/proc", pid, "ns", "net")); return name }
	words := func(pid string) []string {
		raw, _ := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []string
	login, controller := "", 0
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		pids = append(pids, e.Name())
		if w := words(e.Name()); filepath.Base(w[0]) == "slurmctld" && strings.Contains(strings.Join(w, " "), farm.Slurm) {
			login = network(e.Name())
			controller, _ = strconv.Atoi(e.Name())
		}
	}
	if login == "" {
		t.Fatal("no slurmctld runs")
	}
	var daemons [][]string
	var others []int
	for _, pid := range pids {
		w := words(pid)
		if network(pid) != login || strings.Contains(strings.Join(w, " "), "emulated-hosts") {
			continue
		}
		if name := filepath.Base(w[0]); (name == "munged" || name == "slurmctld") && len(w) > 1 {
			daemons = append(daemons, w)
		}
		if n, _ := strconv.Atoi(pid); n != controller {
			others = append(others, n)
		}
	}
	if err := syscall.Kill(controller, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if syscall.Kill(controller, 0) == nil {
			return errors.New("slurmctld has not ended")
		}
		return nil
	})
	for _, pid := range others {
		testkit.Kill(pid)
	}
	if len(daemons) != 2 {
		t.Fatalf("its daemons: %q", daemons)
	}
	return func() {
		for _, w := range daemons {
			_, err := farm.Launch(t.Context(), emulate.Command{
				Host: 0, Path: testkit.RequireTool(t, filepath.Base(w[0])), Argv: w, Env: append(os.Environ(), farm.Env...),
				Tag: filepath.Base(w[0]), Log: filepath.Join(farm.Slurm, "again.log"),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		farm.StartLogin(t, 0)
	}
}

// TestALoginNodeThatReboots, and Slurm's controller with it: the job knows nothing of it,
// and who watches waits.
func TestALoginNodeThatReboots(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 5m}\n  - {name: laptop, provider: local", "workdir: /work", "checkpoint: {grace: 3s}", "outputs: [{from: /work/*, to: results}]",
		"run: "+strings.Replace(steadyCounter, "80", "200", 1))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	begun(t, b, id)
	printed(t, b, id, event.KindAutostart, `"site":"cluster"`)
	printed(t, b, id, event.KindAttemptState, `"state":"starting"`) // before, the run waits in the queue of a site that does not answer
	start := reboot(t, farm)
	printed(t, b, id, event.KindUnreachable, `"site":"cluster"`)
	start()
	v := b.Await(id, 3*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 1 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	if log := b.Read("results/log"); log != "from 0\n" || b.Read("results/done") != "200\n" {
		t.Errorf("attempts began %q", log)
	}
}
