package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVolumeOfARun runs a job whose volume is a burst buffer, as the how-to shows: what it reads is on
// the remote, what it writes is there when the run has succeeded, and nothing else is left. Before,
// bee plan measures the remote.
func TestVolumeOfARun(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t,
		"volume: {kind: burst, remote: ./far, disk: 64M, expect: {write: 1M, every: 1m}}",
		"inputs: [{from: ./input, to: /work}]",
		"run: 'cat in/a there > out; mkdir d; echo deep > d/f; mv there moved; id -u > id; if rm fail; then exit 7; fi'",
		"workdir: /work",
		"outputs: [{from: /work/out, to: ./results}]")
	b.File("input/in/a", "input\n")
	b.File("far/there", "remote\n")
	far := filepath.Join(b.Work, "far")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	var plan []struct {
		BurstBuffer *struct {
			Verdict, Remote string
			LineRate        float64 `json:"line_bytes_per_second"`
		} `json:"burst_buffer"`
	}
	if b.JSON(&plan, "plan", "--json", job); len(plan) != 1 || plan[0].BurstBuffer == nil || plan[0].BurstBuffer.Verdict == "" || plan[0].BurstBuffer.LineRate <= 0 || plan[0].BurstBuffer.Remote != far {
		t.Errorf("no verdict: %+v", plan)
	}
	if names, err := os.ReadDir(far); err != nil || len(names) != 1 {
		t.Errorf("bee plan has left %v, %v", names, err)
	}
	b.Must("run", job)
	want := map[string]string{"in/a": "input\n", "moved": "remote\n", "out": "input\nremote\n", "d/f": "deep\n", "id": itoa(os.Getuid()) + "\n"}
	for name, text := range want {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	if got := contents(t, far); len(got) != len(want)+2 {
		t.Errorf("the remote has %v", got)
	}
	if got := b.Read("results/out"); got != want["out"] {
		t.Errorf("the output has %q", got)
	}
	if err := os.Rename(filepath.Join(far, "moved"), filepath.Join(far, "there")); err != nil {
		t.Fatal(err)
	}
	b.File("far/fail", "")
	if r := b.Try("run", job); r.Code != 7 {
		t.Errorf("%+v", r)
	}
	if got := contents(t, far); len(got) != len(want)+2 {
		t.Errorf("after a job that failed, the remote has %v", got)
	}
	if left := append(processes(b, "volume-"), 0)[0]; left != 0 {
		t.Errorf("process %d is left", left)
	}
	for _, dir := range []string{"volumes", "mounts"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}

// TestVolumeOfARunPrefetches: what `prefetch` names is in the buffer before the job reads it.
func TestVolumeOfARunPrefetches(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M, prefetch: [in/*.nc]}", "workdir: /work",
		"run: 'until [ -e go ]; do sleep 0.1; done; cat in/a.nc > out'")
	text := strings.Repeat("0123456789abcdef", 1<<16)
	b.File("far/in/a.nc", text)
	b.File("far/in/b", text)
	far := filepath.Join(b.Work, "far")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	id := strings.TrimSpace(b.Must("run", "-d", job))
	fetched := func() (n int64) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			r := b.Try("volume", "status", "--json", far)
			var s struct{ Misses int64 }
			if err := json.Unmarshal([]byte(r.Stdout), &s); r.Code != 0 || err != nil || s.Misses < int64(len(text)) {
				return b.Explained(id, fmt.Sprintf("fetched %d bytes: %+v, %v", s.Misses, r, err))
			}
			n = s.Misses
			return nil
		})
		return n
	}
	if got := fetched(); got != int64(len(text)) {
		t.Errorf("fetched %d bytes", got)
	}
	testkit.Eventually(t, time.Minute, func() error { // files are fetched before the container starts, too
		if r := b.Try("exec", id, "--", "true"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
	b.Touch(id, "/work/go")
	b.Must("wait", id)
	if got, err := os.ReadFile(filepath.Join(far, "out")); err != nil || string(got) != text {
		t.Errorf("the remote has %d bytes, %v", len(got), err)
	}
}

// TestVolumeOfARunOnTwoHosts runs a job whose hosts use one burst buffer: what one writes the other one reads,
// both append to one file, and the remote has all of it.
func TestVolumeOfARunOnTwoHosts(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t,
		"nodes: 2", "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		`run: 'echo zero > a; /.bee/rsh ${BEE_NODELIST#*,} "cd /work; cat a > got; mv a b; echo one > c; for i in 1 2 3 4 5; do echo 1 >> log; done" & for i in 1 2 3 4 5; do echo 0 >> log; done; wait; ls a; cat c b > both'`,
		"outputs: [{from: /work/log, to: ./results}]")
	sites := b.File("lab.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n")
	far := filepath.Join(b.Work, "far")
	if err := os.MkdirAll(far, 0o755); err != nil {
		t.Fatal(err)
	}
	b.Must("run", "--sites", sites, "--site", "lab", job)
	for name, text := range map[string]string{"got": "zero\n", "both": "one\nzero\n"} {
		if got, err := os.ReadFile(filepath.Join(far, name)); err != nil || string(got) != text {
			t.Errorf("the remote has %q in %s, %v", got, name, err)
		}
	}
	got := b.Read("results/log")
	if zeros, ones := strings.Count(got, "0\n"), strings.Count(got, "1\n"); zeros != 5 || ones != 5 || len(got) != 20 {
		t.Errorf("the log has %q", got)
	}
	if left := append(processes(b, "volume-"), 0)[0]; left != 0 {
		t.Errorf("process %d is left", left)
	}
	for _, dir := range []string{"volumes", "mounts", "clients"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
}

// TestVolumeOfARunMoves has a job count in a burst buffer: a checkpoint is taken, the node and the buffer's
// processes are killed, and the run continues from exactly that checkpoint. Then it moves to another site,
// from where it was. The remote has all of it in the end, and nothing of BEE.
func TestVolumeOfARunMoves(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireFUSE(t)
	b, job := busyboxJob(t, "volume: {kind: burst, remote: ./far, disk: 64M}", "workdir: /work",
		"checkpoint: {grace: 30s, command: 'touch ask; while [ -e ask ]; do sleep 0.1; done', paths: [/work/count]}", `run: |
  n=$(cat count 2>/dev/null || echo 0); echo "from $n" >> log
  until [ -e enough ]; do n=$((n+1)); echo $n > new; mv new count; [ ! -e ask ] || { rm ask; until [ -e go ]; do sleep 0.1; done; rm go; }; sleep 0.1; done`)
	b.File("far/kept", "kept")
	far := filepath.Join(b.Work, "far")
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local}\n  - {name: two, provider: local}\n")
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(b.Dir, "state", "mounts", "*"))
		for _, near := range mounts {
			endVolumes(b, near)
		}
	})
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	// counted waits until the remote has a line of the log for each attempt, and the count has grown.
	counted := func(attempts int) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			log, err := os.ReadFile(filepath.Join(far, "log"))
			if err != nil || strings.Count(string(log), "from ") < attempts {
				return b.Explained(id, fmt.Sprintf("the log of the remote is %q, %v", log, err))
			}
			from, count := 0, 0
			lines := strings.Fields(string(log))
			raw, err := os.ReadFile(filepath.Join(far, "count"))
			if err == nil {
				_, err = fmt.Sscan(lines[len(lines)-1]+" "+string(raw), &from, &count)
			}
			if err != nil || count < from+3 {
				return b.Explained(id, fmt.Sprintf("counted from %d to %d, %v", from, count, err))
			}
			return nil
		})
	}
	counted(1)
	b.Must("checkpoint", id)
	testkit.Eventually(t, time.Minute, func() error {
		var v struct{ Checkpoints []struct{ Attempt int } }
		if b.JSON(&v, "show", "--json", id); len(v.Checkpoints) == 0 {
			return errors.New("the checkpoint is not on record")
		}
		return nil
	})
	raw, err := os.ReadFile(filepath.Join(far, "count")) // of the checkpoint: the job stands still, as its files are copied
	if err != nil {
		t.Fatal(err)
	}
	saved := 0
	if _, err := fmt.Sscan(string(raw), &saved); err != nil {
		t.Fatal(err)
	}
	b.Touch(id, "/work/go")
	testkit.Eventually(t, time.Minute, func() error {
		kept, err := filepath.Glob(filepath.Join(far, ".bee", "generations", "2", "*.data"))
		if err != nil || len(kept) == 0 {
			return b.Explained(id, fmt.Sprintf("nothing is kept of checkpoint 2: %v, %v", kept, err))
		}
		return nil
	})
	for _, which := range []string{"node", "volume-client ", "volume-io "} {
		for _, p := range processes(b, which) {
			testkit.Kill(p)
		}
	}
	counted(2)
	if r := b.Try("volume", "mount", far, b.Work); r.Code == 0 {
		t.Error("another volume has the remote of the run")
	}
	b.Must("--sites", sites, "move", "--site", "one", id) // the lost one was followed by another site
	counted(3)
	b.Touch(id, "/work/enough")
	v := b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 3 || v.Attempts[1].Site != "two" || v.Attempts[2].Site != "one" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	var from [3]int
	log, err := os.ReadFile(filepath.Join(far, "log"))
	if err == nil {
		_, err = fmt.Sscanf(string(log), "from %d\nfrom %d\nfrom %d\n", &from[0], &from[1], &from[2])
	}
	if err != nil || from[0] != 0 || from[1] != saved || from[2] < saved+3 {
		t.Errorf("attempts began %q, %v; the checkpoint had %d", log, err, saved)
	}
	names, err := os.ReadDir(far)
	if err != nil || len(names) != 4 { // kept, log, count, enough
		t.Errorf("the remote has %v, %v", names, err)
	}
	for _, dir := range []string{"volumes", "mounts"} {
		if names, err := os.ReadDir(filepath.Join(b.Dir, "state", dir)); err != nil || len(names) > 0 {
			t.Errorf("%s: %v, %v", dir, names, err)
		}
	}
	b.CheckNothingLeft(20 * time.Second)
}
