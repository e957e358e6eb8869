package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
)

// TestAnUpdateUnderLiveRuns: runs on this machine, behind ssh and under Slurm lose their
// supervisor, and bee is replaced. The program that launched them follows them to their end,
// from its copy, which is removed when the last of them is over.
func TestAnUpdateUnderLiveRuns(t *testing.T) {
	t.Parallel()
	farm := slurmfarm.Start(t, 2)
	b, job := busyboxJob(t, "run: 'touch log; while [ ! -e go ]; do sleep 0.1; done; echo done > end'", "volume: /data", "workdir: /data", "outputs: [{from: /data/end, to: './results/${run.id}'}]")
	b.Env = append(append(b.Env, farm.Farm.Env()...), "BEE_SITES="+b.File("sites.yaml", fmt.Sprintf(`sites:
  - {name: laptop, provider: local, oversubscribe: true}
  - {name: rack, provider: ssh, hosts: [h1], scratch: %s, oversubscribe: true}
  - %s
`, filepath.Join(farm.Dir, "rack"), clusterSite(farm, ", slot: 10m"))))
	t.Cleanup(func() { nothingQueued(t, farm) })
	b.Install("")
	var ids []string
	for _, site := range []string{"laptop", "rack", "cluster"} {
		ids = append(ids, strings.TrimSpace(b.Must("run", "-d", "--site", site, job)))
	}
	for _, id := range ids {
		counting(t, b, id)
	}
	first := testkit.AwaitControllers(t, b, 1)[0]
	launcher := programAt(t, first)
	testkit.Kill(first)
	testkit.AwaitControllers(t, b, 0)
	b.Install("another version")
	b.Must("supervise")
	if again := programAt(t, testkit.AwaitControllers(t, b, 1)[0]); again != launcher || !strings.HasPrefix(again, filepath.Join(b.Dir, "state", "binaries")) {
		t.Errorf("the runs are controlled by %s, and were launched by %s", again, launcher)
	}
	for _, id := range ids {
		b.Touch(id, "go")
	}
	for _, id := range ids {
		if v := b.Await(id, 60*time.Second); v.State != "succeeded" || len(v.Attempts) != 1 {
			t.Errorf("run %s: %+v\n%s", id, v, b.Try("logs", "--controller", id).Stdout)
		} else if got := b.Read("results/" + id + "/end"); got != "done\n" {
			t.Errorf("run %s has left %q", id, got)
		}
	}
	testkit.AwaitControllers(t, b, 0)
	b.Must("run", "-q", "--site", "laptop", b.File("next.yaml", strings.Split(b.Read("job.yaml"), "run:")[0]+"run: 'true'\n"))
	left, err := filepath.Glob(filepath.Join(b.Dir, "state", "binaries", "*", "bee"))
	if err != nil || len(left) != 1 || left[0] == launcher {
		t.Fatalf("kept are %v, %v", left, err)
	}
	if raw, err := os.ReadFile(left[0]); err != nil || !bytes.HasSuffix(raw, []byte("another version")) {
		t.Errorf("kept is another program than the new one: %v", err)
	}
}

// programAt is the program that a process executes.
func programAt(t *testing.T, pid int) string {
	t.Helper()
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		t.Fatal(err)
	}
	return program
}
