package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVolumeOnTwoHostsContinues has two hosts count in one burst buffer. A checkpoint is taken of both, both
// count on, and all processes are killed. The next attempt continues on both hosts from exactly that
// checkpoint, although the remote had later counts.
func TestVolumeOnTwoHostsContinues(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "nodes: 2", "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		"checkpoint: {grace: 30s, command: 'touch ask; until [ -e at0 ] && [ -e at1 ]; do sleep 0.1; done', paths: ['/work/count*']}",
		`run: '/.bee/rsh ${BEE_NODELIST#*,} "cd /work; sh count.sh 1" & sh count.sh 0; wait'`)
	b.File("far/count.sh", `n=$(cat count$1 2>/dev/null || echo 0); echo "$1 from $n" >> log
until [ -e enough ]; do
  n=$((n+1)); echo $n > new$1; mv new$1 count$1
  if [ -e ask ]; then [ -e go ] || echo $n > at$1; until [ -e go ]; do sleep 0.1; done; fi
  sleep 0.1
done
`)
	far := filepath.Join(b.Work, "far")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, hosts: 2}\n  - {name: two, provider: local, hosts: 2}\n")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	// number reads a number of the remote.
	number := func(name string) (n int, err error) {
		raw, err := os.ReadFile(filepath.Join(far, name))
		if err == nil {
			_, err = fmt.Sscan(string(raw), &n)
		}
		return n, err
	}
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	// beyond waits until the remote has counts of both hosts beyond some.
	beyond := func(zero, one int) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			for name, than := range map[string]int{"count0": zero, "count1": one} {
				if n, err := number(name); err != nil || n <= than {
					return b.Explained(id, fmt.Sprintf("%s is %d, %v", name, n, err))
				}
			}
			return nil
		})
	}
	beyond(0, 0)
	b.Must("checkpoint", id)
	testkit.Eventually(t, time.Minute, func() error {
		var v struct{ Checkpoints []struct{ Attempt int } }
		if b.JSON(&v, "show", "--json", id); len(v.Checkpoints) == 0 {
			return errors.New("the checkpoint is not on record")
		}
		return nil
	})
	zero, err := number("at0")
	one, oerr := number("at1")
	if err := errors.Join(err, oerr); err != nil {
		t.Fatal(err)
	}
	b.Touch(id, "/work/go")
	beyond(zero, one)
	for _, which := range []string{"node", "volume-"} {
		for _, p := range processes(b, which) {
			testkit.Kill(p)
		}
	}
	testkit.Eventually(t, 2*time.Minute, func() error {
		log, err := os.ReadFile(filepath.Join(far, "log"))
		if err != nil || strings.Count(string(log), "from") < 4 {
			return b.Explained(id, fmt.Sprintf("the log of the remote is %q, %v", log, err))
		}
		return nil
	})
	b.Touch(id, "/work/enough")
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	log, err := os.ReadFile(filepath.Join(far, "log"))
	for _, line := range []string{"0 from 0\n", "1 from 0\n", fmt.Sprintf("0 from %d\n", zero), fmt.Sprintf("1 from %d\n", one)} {
		if err != nil || strings.Count(string(log), line) != 1 {
			t.Errorf("attempts began %q, %v; the checkpoint had %d and %d", log, err, zero, one)
		}
	}
	if _, err := os.Stat(filepath.Join(far, ".bee")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the remote has records of BEE: %v", err)
	}
	for _, dir := range []string{"volumes", "mounts", "clients"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}

// TestVolumeOfHostsWithAScratchEach: emulated hosts that share no scratch have one burst buffer all the same. It is in
// no directory that ends with the lease.
func TestVolumeOfHostsWithAScratchEach(t *testing.T) {
	testkit.RequireUser(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "nodes: 2", "volume: {kind: burst, remote: './far', disk: 64M}", "workdir: /work", "inputs: [{from: ./input, to: /work}]",
		`run: 'cat there in > a; /.bee/rsh ${BEE_NODELIST#*,} "cd /work; cat a > b; mkdir d; echo deep > d/f"; cat b d/f'`, "outputs: [{from: /work/b, to: ./results}]")
	b.File("input/in", "input\n")
	b.File("far/there", "remote\n")
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, private_scratch: true}\n")
	if out := b.Must("--sites", sites, "run", job); !strings.Contains(out, "remote\ninput\ndeep\n") {
		t.Errorf("the job has printed %q", out)
	}
	far := filepath.Join(b.Work, "far")
	for name, text := range map[string]string{"a": "remote\ninput\n", "b": "remote\ninput\n", "d/f": "deep\n"} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if got := b.Read("results/b"); got != "remote\ninput\n" {
		t.Errorf("the output has %q", got)
	}
	noVolumesLeft(t, b, far)
}
