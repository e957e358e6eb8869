package measure

import (
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

const copiesText = `study: s
job: {image: docker.io/lab/x, workdir: /work, run: "echo speed $(cat in)$BIAS; echo answer > out.txt", outputs: [{from: /work/out.txt, to: ./results}]}
vary: {n: [1, 3]}
environments: {plain: {runtime: rootless}, split: {per_host: 2, limit: {cores: 1, memory: 512M}}, guests: {vm: {memory: 4G}, per_host: 2, limit: {cores: 1, memory: 1G}}}
copies: {count: "${n}", metric: METRIC}
metrics: {speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}, seconds: {builtin: seconds}}
check: [{regex: answer, file: out.txt}]
`

func copiesTaker(t *testing.T, metric string, l launch) *Taker {
	t.Helper()
	s, err := study.Parse("study.yaml", []byte(strings.Replace(copiesText, "METRIC", metric, 1)), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, record.LogsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Taker{Study: s, Dir: dir, Launcher: l, Cores: 1}
}

// really runs a job's command in a directory, as its only host would, and brings its outputs.
func really(t *testing.T, bias string) launch {
	return func(job *spec.Job, w io.Writer) (Outcome, error) {
		volume := t.TempDir()
		if err := os.WriteFile(filepath.Join(volume, "in"), []byte("2"), 0o600); err != nil {
			return Outcome{}, err
		}
		c := exec.Command(job.Run.Argv[0], job.Run.Argv[1:]...)
		c.Dir, c.Env, c.Stdout, c.Stderr = volume, append(os.Environ(), "BEE_NODELIST=one", "BEE_NUM_NODES=1", "BIAS="+bias), w, w
		if err := c.Run(); err != nil {
			return Outcome{Failed: err.Error()}, nil
		}
		for _, o := range job.Outputs {
			from := filepath.Join(volume, strings.TrimPrefix(o.From, "/work/"))
			raw, err := os.ReadFile(from)
			if o.Optional && os.IsNotExist(err) {
				continue
			}
			if err == nil {
				err = os.WriteFile(filepath.Join(o.To, filepath.Base(from)), raw, 0o600)
			}
			if err != nil {
				return Outcome{}, err
			}
		}
		return Outcome{Compute: 1, Hosts: []string{"one"}}, nil
	}
}

func at(n string) record.Point { return record.Point{ID: "n=" + n, Values: map[string]string{"n": n}} }

func TestCopiesAreSummedOrMeant(t *testing.T) {
	for metric, want := range map[string]float64{"sum": 6, "each": 2} {
		k := copiesTaker(t, metric, really(t, ""))
		row, err := k.Measure(t.Context(), runner.Measurement{Point: at("3"), Environment: "plain", Block: 1})
		if err != nil || row.Status != record.OK {
			t.Fatalf("%s: %v, %s", metric, err, row.Error)
		}
		f := row.Metrics["speed"]
		if len(f) != 4 || f[0] != (record.Figure{Value: want}) || f[3] != (record.Figure{Key: "copy-2", Value: 2}) {
			t.Errorf("%s: the figures are %+v", metric, f)
		}
		if len(row.Metrics["seconds"]) != 1 {
			t.Errorf("%s: a figure of the whole run is %v", metric, row.Metrics["seconds"])
		}
	}
}

// TestACopyThatFailsIsNoFigure: the sum of those that are left would be a figure of another
// study.
func TestACopyThatFailsIsNoFigure(t *testing.T) {
	k := copiesTaker(t, "sum", really(t, " no number"))
	k.Study.Metrics["speed"] = study.Metric{Regex: `^speed (.+)`, Better: "higher", Primary: true}
	row, err := k.Measure(t.Context(), runner.Measurement{Point: at("3"), Environment: "plain", Block: 1})
	if err != nil || row.Status != record.Failed {
		t.Errorf("copies without figures: %v, %s with %v", err, row.Status, row.Metrics)
	}
	out, err := exec.Command("/bin/sh", "-c", "cd "+t.TempDir()+" && BEE_NUM_NODES=1 BEE_NODELIST=one\nexport BEE_NUM_NODES\n"+copiesScript("test -e ../copy-go && [ ${PWD##*-} != 1 ]", 3)).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "copy 1 ") {
		t.Errorf("a copy that fails: %v, %s", err, out)
	}
}

func TestOverlap(t *testing.T) {
	for want, all := range map[float64][]window{1: {{0, 10}, {0, 10}}, 0.5: {{0, 10}, {5, 15}}, -1: {{0, 10}, {20, 30}}} {
		if got := overlap(all); got != want {
			t.Errorf("%v overlap by %v, expected %v", all, got, want)
		}
	}
	if got := overlap([]window{{3, 3}, {3, 3}}); got != 1 {
		t.Errorf("copies too short to tell: %v", got)
	}
}

func TestLimits(t *testing.T) {
	k := copiesTaker(t, "sum", nil)
	split, err := k.Job(at("1"), "split", "")
	if err != nil {
		t.Fatal(err)
	}
	if split.Nodes != 2 || split.Cores != 1 || split.VM != nil {
		t.Errorf("two containers of one core each are %d nodes with %v", split.Nodes, split.Env)
	}
	guests, err := k.Job(at("1"), "guests", "")
	if err != nil {
		t.Fatal(err)
	}
	if guests.Nodes != 2 || guests.VM.PerHost != 2 || guests.VM.CPUs != 1 || guests.VM.Memory != 1<<30 || guests.Cores != 0 {
		t.Errorf("two guests are %d nodes of %+v with %v", guests.Nodes, guests.VM, guests.Env)
	}
	if split.Memory != 512<<20 || guests.Memory != 0 {
		t.Errorf("containers of 512 MiB have %d bytes, guests of 1 GiB %d", split.Memory, guests.Memory)
	}
	for memory, flagged := range map[int64]bool{0: true, 1 << 30: true, 512 << 20: false} {
		flags := k.unlimited(runner.Measurement{Point: at("1"), Environment: "split"}, split, Outcome{Found: fair.Found{Memory: memory}})
		if slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, "memory") }) != flagged {
			t.Errorf("where control groups allow %d bytes of 512 MiB, the flags are %q", memory, flags)
		}
	}
	flags := k.unlimited(runner.Measurement{Point: at("1"), Environment: "split"}, split, Outcome{})
	testkit.Wording(t, "flags", strings.Join(flags, "\n"))
	many, err := k.Job(at("3"), "plain", "/results")
	if err != nil {
		t.Fatal(err)
	}
	to := map[string]int{}
	for _, o := range many.Outputs {
		to[o.To]++
	}
	if want := map[string]int{"/results/copy-0": 3, "/results/copy-1": 3, "/results/copy-2": 3}; !maps.Equal(to, want) {
		t.Errorf("outputs go to %v, expected %v", to, want)
	}
}
