package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

type benchHosts struct {
	Held []struct {
		Site       string `json:"site"`
		Owner      string `json:"owner"`
		Allocation string `json:"allocation"`
		Released   bool   `json:"released"`
		Hosts      []struct {
			Name string `json:"name"`
		} `json:"hosts"`
	} `json:"held"`
	Exercised []struct {
		Environment string   `json:"environment"`
		Hosts       []string `json:"hosts"`
		Measured    int      `json:"measured"`
	} `json:"exercised"`
}

func hostsOf(t *testing.T, dir string) (h benchHosts) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "hosts.json"))
	if err == nil {
		err = json.Unmarshal(raw, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestBenchHoldsOneAllocation: all measurements of a study are in one allocation, a process
// that continues it after a kill finds that again, and the sweep releases it.
func TestBenchHoldsOneAllocation(t *testing.T) {
	bee, farm, _ := cluster(t, 2, "")
	study := bee.File("study.yaml", `study: held
job: {file: job.yaml, run: "echo counted 1"}
environments: {plain: {runtime: rootless}, equal: {runtime: rootless}}
metrics: {seconds: {builtin: seconds, primary: true}}
`)
	killed := func(name string) string {
		t.Helper()
		out := filepath.Join(bee.Dir, name)
		c := bee.Command("bench", "run", "--wait", "0s", study, "--site", "cluster", "--blocks", "1000", "-o", out)
		var log bytes.Buffer
		c.Stderr = &log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, time.Minute, func() error {
			rows, err := os.ReadFile(filepath.Join(out, "results.jsonl"))
			if n := bytes.Count(rows, []byte("\n")); err == nil && n < 2 {
				err = fmt.Errorf("%d rows; bee prints %s", n, &log)
			}
			return err
		})
		if used := bee.Must("sweep", "--dry-run"); strings.Contains(used, "cluster\t") {
			t.Errorf("the sweep would remove what is in use:\n%s", used)
		}
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		c.Wait() //nolint:errcheck // it was killed
		return out
	}
	out := killed("out")
	before := hostsOf(t, out)
	if len(before.Held) != 1 || before.Held[0].Site != "cluster" || before.Held[0].Allocation == "" || before.Held[0].Released || len(before.Held[0].Hosts) != 1 {
		t.Fatalf("a study that was killed holds %+v", before.Held)
	}
	if found := bee.Must("sweep", "--dry-run"); !strings.Contains(found, before.Held[0].Owner) {
		t.Errorf("the sweep does not find %s:\n%s", before.Held[0].Owner, found)
	}
	// Its runs and its allocation are there. It continues in that, to the number of blocks that
	// the plan has now.
	plan := filepath.Join(out, "plan.json")
	text, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	few := strings.NewReplacer(`"most_blocks": 1000`, `"most_blocks": 1`, `"least_blocks": 1000`, `"least_blocks": 1`).Replace(string(text))
	if err := os.WriteFile(plan, []byte(few), 0o644); err != nil {
		t.Fatal(err)
	}
	bee.Must("bench", "resume", "--wait", "0s", out)
	after := hostsOf(t, out)
	if left := bee.Must("ps", "-a"); strings.Contains(left, "held-") {
		t.Errorf("the measurement that was killed is left:\n%s", left)
	}
	if len(after.Held) != 1 || after.Held[0].Allocation != before.Held[0].Allocation || !after.Held[0].Released {
		t.Errorf("it continued on %+v, and before had %+v", after.Held, before.Held)
	}
	measured := 0
	for _, e := range after.Exercised {
		if measured += e.Measured; len(e.Hosts) != 1 || e.Hosts[0] != after.Exercised[0].Hosts[0] {
			t.Errorf("%s was measured on %v, others on %v", e.Environment, e.Hosts, after.Exercised[0].Hosts)
		}
	}
	if measured < 6 { // two blocks of three
		t.Errorf("%d measurements on %+v", measured, after.Exercised)
	}
	if queue, err := farm.Do("squeue", "--noheader"); err != nil || strings.Contains(queue, after.Held[0].Allocation) {
		t.Errorf("the allocation is left: %v\n%s", err, queue)
	}

	if !testkit.Everything() {
		return
	}
	owner := hostsOf(t, killed("swept")).Held[0].Owner
	if found := bee.Must("sweep"); !strings.Contains(found, owner) {
		t.Errorf("the sweep does not find %s:\n%s", owner, found)
	}
}

// TestBenchBehindSSH: a study is measured on hosts behind ssh, in place of a site that it
// names too, and the report says so.
func TestBenchBehindSSH(t *testing.T) {
	t.Parallel()
	bee, farm, _ := rack(t, 2)
	bee.Env = append(bee.Env, "BEE_SITES="+bee.File("sites.yaml", bee.Read("sites.yaml")+"  - {name: home, provider: local}\n"))
	const far = `run: '$AGENT h1 "%s"; sleep 0.3; echo on $(hostname)', env: {AGENT: /.bee/rsh}`
	study := bee.File("study.yaml", fmt.Sprintf(`study: away
job: {file: job.yaml, run: "sleep 0.3; echo on $(hostname)"}
environments: {native: {runtime: native}, rootless: {runtime: rootless}, cloud: {site: aws, runtime: rootless}, here: {site: home}, split: {runtime: rootless, per_host: 2}, wide: {runtime: rootless, nodes: 2, %s}, native-wide: {runtime: native, nodes: 2, %s}}
metrics: {seconds: {builtin: seconds, primary: true}}
fair: [same-binaries]
`, fmt.Sprintf(far, "cp /bin/busybox /tmp/busybox-far; exec /tmp/busybox-far sleep 1.1"), fmt.Sprintf(far, "sleep 0.6")))
	out := filepath.Join(bee.Dir, "out")
	if r := bee.Try("bench", "run", study, "--site", "rack", "--map", "gcp=rack", "-o", out); r.Code == 0 {
		t.Error("a site that no environment names has another in its place")
	}
	var r struct {
		Result struct {
			Contrasts []struct {
				Environment string `json:"environment"`
				Finding     struct {
					Blocks int `json:"blocks"`
				} `json:"finding"`
			} `json:"contrasts"`
			Failed []struct {
				Environment string `json:"environment"`
				Remedy      string `json:"remedy"`
			} `json:"failed"`
		} `json:"result"`
	}
	bee.JSON(&r, "bench", "run", "--wait", "0s", study, "--site", "rack", "--map", "aws=rack", "--blocks", "1", "-o", out, "--json")
	if f := r.Result.Failed; len(f) != 1 || f[0].Environment != "split" || f[0].Remedy == "" || len(r.Result.Contrasts) != 5 {
		t.Errorf("left out: %+v, expected split with a remedy; compared: %+v", f, r.Result.Contrasts)
	}
	for _, c := range r.Result.Contrasts {
		want := 1
		if strings.HasSuffix(c.Environment, "wide") { // on other hosts than the baseline
			want = 0
		}
		if c.Finding.Blocks != want {
			t.Errorf("%s is compared in %d blocks, expected %d", c.Environment, c.Finding.Blocks, want)
		}
	}
	for environment, site := range map[string]string{"native": "", "rootless": "", "cloud": "", "here": "home"} {
		for _, row := range rowsOf(t, out, environment) {
			if sum := row.Programs["/bin/busybox"]; len(sum) != 64 || row.Cores < 1 {
				t.Errorf("%s: what computed there is %v, on %d cores", environment, row.Programs, row.Cores)
			}
			if row.Site != site {
				t.Errorf("%s is measured on a site of its own, %q", environment, row.Site)
			}
		}
	}
	for _, environment := range []string{"wide", "native-wide"} {
		far := 0 // looks become rare, and a busy host may start a program between two
		for _, row := range rowsOf(t, out, environment) {
			unseen := slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, "not seen") })
			if row.Status != "ok" || unseen || len(row.Programs) == 0 {
				t.Errorf("%s: %s %s, flags %q; the programs of both hosts are %v", environment, row.Status, row.Error, row.Flags, row.Programs)
			}
			if row.Programs["/tmp/busybox-far"] != "" {
				far++
			}
		}
		if (far > 0) != (environment == "wide") {
			t.Errorf("%s: the program of the second host was seen %d times", environment, far)
		}
	}
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range hostsOf(t, out).Exercised {
		want := []string{"h0"}
		switch e.Environment {
		case "here":
			want = []string{name}
		case "wide", "native-wide":
			want = []string{"h0", "h1"}
		}
		if e.Measured < 2 || !slices.Equal(e.Hosts, want) {
			t.Errorf("%s was measured %d times, on %v", e.Environment, e.Measured, e.Hosts)
		}
	}
	if title, _, _ := strings.Cut(bee.Must("bench", "report", out, "--markdown"), "\n"); !regexp.MustCompile(`\brack\b.*\baws\b`).MatchString(title) {
		t.Errorf("the title is %q", title)
	}
	left(t, farm)
}

// TestBenchOfAnMPIJobOverHosts: mpirun of the image reaches three hosts behind ssh, in containers and on the bare hosts,
// where volume, image and prefix of an ordinary user are at other paths on each.
func TestBenchOfAnMPIJobOverHosts(t *testing.T) {
	testkit.Long(t, "TestBenchBehindSSH")
	testkit.RequireTool(t, "mmdebstrap")
	bee, farm, _ := rack(t, 3)
	bee.CopyExamples("mpi4py/input")
	study := bee.File("study.yaml", `study: wide
job:
  `+examplesBuild+`
  inputs: [{from: ./input, to: /work}]
  nodes: 3
  ranks_per_node: 1
  workdir: /work
  run: mpirun -n 3 --map-by node python3 pi.py && cat pi.txt && mpirun -n 3 --map-by node uname -n
environments: {native: {runtime: native}, rootless: {runtime: rootless}}
metrics: {pi: {regex: '^pi = (\S+)', unit: "1", better: higher, primary: true}}
check: [{regex: '^h0$'}, {regex: '^h1$'}, {regex: '^h2$'}]
fair: [same-binaries]
`)
	out := filepath.Join(bee.Dir, "out")
	var r benchReport
	bee.JSON(&r, "bench", "run", "--wait", "0s", study, "--site", "rack", "--blocks", "1", "-o", out, "--json")
	sameFiles(t, out, r.Sentences, "/libmpi.so", "native", "rootless")
	for _, e := range []string{"native", "rootless"} {
		for _, row := range rowsOf(t, out, e) {
			if slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, "not seen") }) {
				t.Errorf("%s: flags %q", e, row.Flags)
			}
		}
	}
	left(t, farm)
}

// TestCoresOfAJobAreBounded: the processes of a job use as many cores as it names.
func TestCoresOfAJobAreBounded(t *testing.T) {
	testkit.AsRootToo(t)
	bee, job := busyboxJob(t, "cores: 1", "run: grep Cpus_allowed_list /proc/self/status")
	list := func(text string) string {
		_, cores, _ := strings.Cut(text, ":")
		cores, _, _ = strings.Cut(strings.TrimSpace(cores), "\n")
		return cores
	}
	bee.Oversubscribe()
	if cores := list(bee.Try("run", "-q", job).Stdout); cores == "" || strings.ContainsAny(cores, "-,") {
		t.Errorf("a job of one core may use %q", cores)
	}
}

// TestBenchInAllocations: a study that was killed in an allocation of its user continues in the
// next one, and its figures of the two are not paired.
func TestBenchInAllocations(t *testing.T) {
	testkit.Long(t, "TestBenchHoldsOneAllocation")
	b, farm, _ := cluster(t, 1, "")
	study := b.File("study.yaml", `study: granted
job: {file: job.yaml, run: "echo counted 1"}
environments: {plain: {runtime: rootless}, equal: {runtime: rootless}}
metrics: {seconds: {builtin: seconds, primary: true}}
`)
	out := filepath.Join(b.Dir, "out")
	inAllocation := func(args ...string) (string, error) {
		return farm.Do(append(append([]string{"salloc", "--nodes=1", "--exclusive", "--quiet"}, beeThere(t, b)...), args...)...)
	}
	ended := make(chan error, 1)
	go func() {
		text, err := inAllocation("bench", "run", "--wait", "0s", study, "--blocks", "1000", "-o", out)
		if strings.Contains(text, "report.html") {
			err = fmt.Errorf("it was not killed: %w\n%s", err, text)
		} else {
			err = nil // salloc reports the end of its command, or does not
		}
		ended <- err
	}()
	testkit.Eventually(t, 2*time.Minute, func() error {
		rows, err := os.ReadFile(filepath.Join(out, "results.jsonl"))
		if n := bytes.Count(rows, []byte("\n")); err == nil && n < 2 {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	})
	if text, err := farm.Do("pkill", "-KILL", "-f", "'^"+testkit.Binary(t)+" bench run .*"+out+"'"); err != nil { // this test's alone
		t.Fatal(err, text)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	plan := filepath.Join(out, "plan.json")
	text, err := os.ReadFile(plan)
	if err != nil {
		t.Fatal(err)
	}
	few := strings.NewReplacer(`"most_blocks": 1000`, `"most_blocks": 2`, `"least_blocks": 1000`, `"least_blocks": 2`).Replace(string(text))
	if err := os.WriteFile(plan, []byte(few), 0o644); err != nil {
		t.Fatal(err)
	}
	if printed, err := inAllocation("bench", "resume", "--wait", "0s", out); err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	epochs := map[int]int{}
	raw, err := os.ReadFile(filepath.Join(out, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var r struct {
			Epoch  int    `json:"epoch"`
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.Status != "ok" {
			t.Errorf("%v: %s", err, line)
		}
		epochs[r.Epoch]++
	}
	if all := epochs[0] + epochs[1]; len(epochs) != 2 || all < 9 { // three blocks of three
		t.Errorf("rows by epoch: %v, expected two epochs", epochs)
	}
}
