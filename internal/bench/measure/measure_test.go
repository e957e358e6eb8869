package measure

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/klauspost/compress/zstd"
)

// launch runs a job in place of a site: it prints, and leaves files where outputs arrive.
type launch func(job *spec.Job, output io.Writer) (Outcome, error)

func (l launch) Launch(_ context.Context, job *spec.Job, _ study.Environment, output io.Writer) (Outcome, error) {
	return l(job, output)
}

const text = `study: s
job: {image: docker.io/lab/x, workdir: /work, run: "solver ${n}", outputs: [{from: /work/out.txt, to: ./results}]}
vary: {n: [4]}
environments: {plain: {runtime: rootless}, box: {runtime: docker}}
metrics:
  speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}
  read: {keyvalue: '^(\w+)=(\S+)$', file: out.txt, key: read, unit: B/s, better: higher}
  seconds: {builtin: seconds}
check: [{regex: Finished}]
fair: [same-binaries, out-of-cache]
`

func taker(t *testing.T, l launch) *Taker {
	t.Helper()
	s, err := study.Parse("study.yaml", []byte(text), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, record.LogsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	return &Taker{Study: s, Dir: dir, Launcher: l, Cache: 1 << 20}
}

func result(to, output, file string) launch {
	return func(job *spec.Job, w io.Writer) (Outcome, error) {
		if _, err := io.WriteString(w, output); err != nil {
			return Outcome{}, err
		}
		at := filepath.Join(job.Outputs[0].To, to)
		if err := os.WriteFile(at, []byte(file), 0o644); err != nil {
			return Outcome{}, err
		}
		return Outcome{Compute: 2 * time.Second, MaxRSS: 1 << 21, Hosts: []string{"n1"}, Found: fair.Found{Programs: map[string]string{"/x": "1"}, Cores: 1, Busiest: 2}}, nil
	}
}

// TestSitesOfTheirOwn: an environment has one if it names another than the rest is measured on.
func TestSitesOfTheirOwn(t *testing.T) {
	for _, c := range []struct{ usual, first, named, want string }{
		{"", "rack", "", ""},
		{"lab", "rack", "", ""},
		{"", "rack", "rack", ""},
		{"lab", "rack", "lab", ""},
		{"lab", "rack", "rack", "rack"},
		{"", "rack", "aws", "aws"},
		{"", "", "aws", "aws"},
	} {
		k := taker(t, result("out.txt", "speed 7.5\n", "read=99\n"))
		k.Site, k.First = c.usual, func(*spec.Job) string { return c.first }
		e := k.Study.Environments["box"]
		e.Site = c.named
		k.Study.Environments["box"] = e
		row, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": "4"}}, Environment: "box"})
		flagged := slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, " site ") })
		if err != nil || row.Site != c.want || flagged != (c.want != "") {
			t.Errorf("%+v: site %q, flags %q, %v", c, row.Site, row.Flags, err)
		}
	}
}

// TestConditionsOfThisMachine: what this machine did before says nothing of a measurement on another one.
func TestConditionsOfThisMachine(t *testing.T) {
	for name, c := range map[string]struct {
		far bool
		bee string
	}{
		"here": {}, "by another bee": {bee: "/bee"}, "on another machine": {far: true}, "by another bee on another machine": {far: true, bee: "/bee"},
	} {
		k := taker(t, result("out.txt", "speed 7.5\n", "read=99\n"))
		k.Far = func(*spec.Job) bool { return c.far }
		e := k.Study.Environments["box"]
		e.Bee = c.bee
		k.Study.Environments["box"] = e
		row, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": "4"}}, Environment: "box"})
		if err != nil || (row.YardstickSeconds > 0) == c.far || (row.CachedBytes > 0) == c.far {
			t.Errorf("%s: %+v, %v", name, row, err)
		}
		if c.far && (row.Others != 0 || row.Load != 0 || row.Pressure != 0 || row.MHz != 0 || row.Steal != 0) {
			t.Errorf("%s: conditions of this machine are recorded: %+v", name, row)
		}
	}
}

// TestEachTryHasItsLog, so that the failure before is kept.
func TestEachTryHasItsLog(t *testing.T) {
	k := taker(t, result("out.txt", "speed 7.5\n", "read=99\n"))
	logs := map[string]bool{}
	for try := 1; try <= 2; try++ {
		row, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": "4"}}, Environment: "box", Try: try})
		if err != nil {
			t.Fatal(err)
		}
		logs[row.Log] = true
	}
	for log := range logs {
		if _, err := os.Stat(filepath.Join(k.Dir, log)); err != nil {
			t.Error(err)
		}
	}
	if len(logs) != 2 {
		t.Errorf("two tries have the logs %v", logs)
	}
}

func TestMeasure(t *testing.T) {
	m := runner.Measurement{Point: record.Point{ID: "n=4", Values: map[string]string{"n": "4"}}, Environment: "box", Block: 1}
	good := "speed 3\nspeed 7.5\nFinished\n"
	for name, tc := range map[string]struct {
		launch launch
		failed string // part of the error; empty: it succeeds
	}{
		"figures":                  {result("out.txt", good, "read=99\n"), ""},
		"a wrong answer":           {result("out.txt", "speed 7.5\n", "read=99\n"), "answer"},
		"a figure that is absent":  {result("out.txt", "Finished\n", "read=99\n"), "speed"},
		"an output that is absent": {result("other.txt", good, "read=99\n"), "out.txt"},
		"a key that is absent":     {result("out.txt", good, "write=99\n"), "read"},
		"a run that failed": {func(*spec.Job, io.Writer) (Outcome, error) {
			return Outcome{Failed: "no host", Remedy: "Wait."}, nil
		}, "no host"},
		"the end of what it printed": {func(_ *spec.Job, w io.Writer) (Outcome, error) {
			_, err := io.WriteString(w, "first\nno such mesh\n")
			return Outcome{Failed: "code 1"}, err
		}, "no such mesh"},
	} {
		t.Run(name, func(t *testing.T) {
			k := taker(t, tc.launch)
			row, err := k.Measure(t.Context(), m)
			if err != nil {
				t.Fatal(err)
			}
			if (row.Status == record.Failed) != (tc.failed != "") || !strings.Contains(row.Error, tc.failed) {
				t.Fatalf("%s, %q; expected an error with %q", row.Status, row.Error, tc.failed)
			}
			if _, err := os.Stat(filepath.Join(k.Dir, row.Log)); err != nil {
				t.Errorf("the log: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(k.Dir, ".work-*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			if tc.failed != "" {
				return
			}
			if kept, err := os.ReadFile(filepath.Join(k.Dir, strings.TrimSuffix(row.Log, logEnding)+".out.txt.zst")); err != nil {
				t.Errorf("the output with a figure: %v", err)
			} else if text := decompressed(t, kept); text != "read=99\n" {
				t.Errorf("the output with a figure is kept as %q", text)
			}
			for metric, want := range map[string]float64{"speed": 7.5, "read": 99, "seconds": 2} {
				if f := row.Metrics[metric]; len(f) != 1 || f[0].Value != want {
					t.Errorf("%s is %v, expected %v", metric, f, want)
				}
			}
			for _, word := range []string{"cores", "cache"} {
				if !slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, word) }) {
					t.Errorf("flags %q lack that of %s", row.Flags, word)
				}
			}
			if row.Programs["/x"] != "1" || !slices.Equal(row.Hosts, []string{"n1"}) {
				t.Errorf("%v on %v", row.Programs, row.Hosts)
			}
		})
	}
}

func decompressed(t *testing.T, raw []byte) string {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWhatIsNotDoneIsFlagged: what a study asks for is done or flagged.
func TestWhatIsNotDoneIsFlagged(t *testing.T) {
	k := taker(t, nil)
	k.Study.MetricNames, k.Study.Metrics["energy"] = append(k.Study.MetricNames, "energy"), study.Metric{Builtin: "energy"}
	flags := append(k.doubts(Outcome{}), k.doubts(Outcome{NoEnergy: []string{"on n1, there are no counters. Buy one."}})...)
	one := fair.Found{Programs: map[string]string{"/x": "1"}, Others: []fair.Found{{Host: "n2"}}, Unseen: []string{"n3"}}
	flags = append(flags, k.doubts(Outcome{Energy: 1, Found: one})...)
	testkit.Wording(t, "flags", strings.Join(flags, "\n"))
}

// TestWarmFilesAreFlagged: what a job, and each of its copies, has dropped from memory.
func TestWarmFilesAreFlagged(t *testing.T) {
	const dropped, kept, empty, large, onOne, onTwo = `{"cold_files":{"files":1,"pages":4,"in_memory":0}}`, `{"cold_files":{"files":1,"pages":4,"in_memory":1}}`, `{"cold_files":{"files":0,"pages":0,"in_memory":0}}`,
		`{"cold_files":{"files":1,"pages":4,"in_memory":4,"bytes":2000,"memory":1000}}`, `{"cold_files":{"files":1,"pages":4,"in_memory":0,"boot":"a"}}`, `{"cold_files":{"files":1,"pages":4,"in_memory":0,"boot":"b"}}`
	for _, c := range []struct {
		name    string
		outputs []string
		guest   bool
		kernels int
	}{
		{"dropped", []string{"x\n" + dropped + "\ny\n"}, false, 1},
		{"dropped in a guest", []string{dropped + "\n"}, true, 1},
		{"one stayed", []string{dropped + "\n" + kept + "\n"}, false, 1},
		{"nothing was dropped", []string{empty + "\n"}, false, 1},
		{"nothing is known", []string{"x\n"}, false, 1},
		{"no line of its own", []string{"x " + dropped + "\n"}, false, 1},
		{"a torn line", []string{dropped[:30]}, false, 1},
		{"one copy alone", []string{dropped, "x"}, false, 1},
		{"no output", nil, false, 1},
		{"twice the memory", []string{large + "\n"}, false, 1},
		{"on all hosts", []string{onOne + "\n" + onTwo + "\n" + onOne + "\n"}, false, 2},
		{"on one of two hosts", []string{onOne + "\n" + onOne + "\n"}, false, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			var outputs [][]byte
			for _, o := range c.outputs {
				outputs = append(outputs, []byte(o))
			}
			testkit.Wording(t, "flags", strings.Join(warm(outputs, c.guest, c.kernels), "\n"))
		})
	}
}

// TestAFaultOfThisMachineEndsTheStudy: it is no figure of an environment.
func TestAFaultOfThisMachineEndsTheStudy(t *testing.T) {
	broken := errors.New("the disk is full")
	k := taker(t, func(*spec.Job, io.Writer) (Outcome, error) { return Outcome{}, broken })
	if _, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": "4"}}, Environment: "plain"}); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// TestClear removes the outputs of a measurement that was killed, and nothing else.
func TestClear(t *testing.T) {
	k := Taker{Dir: t.TempDir()}
	for _, name := range []string{workPrefix + "123/result", "logs/x", "plan.json"} {
		file := filepath.Join(k.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := k.Clear(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(k.Dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("left: %v, %v; expected logs and the plan", entries, err)
	}
}

// TestTryHasNoInputsAndOutputs: whether an environment works is found out by the image alone.
func TestTryHasNoInputsAndOutputs(t *testing.T) {
	var got *spec.Job
	k := taker(t, func(job *spec.Job, _ io.Writer) (Outcome, error) { got = job; return Outcome{}, nil })
	if _, err := k.Try(t.Context(), record.Point{Values: map[string]string{"n": "4"}}, "box"); err != nil {
		t.Fatal(err)
	}
	if len(got.Outputs) > 0 || got.Runtime != "docker" || !slices.Equal(got.Run.Argv, []string{"true"}) {
		t.Errorf("tried with %+v", got)
	}
}

func TestLongOutputIsCut(t *testing.T) {
	var b strings.Builder
	l := &core.Limited{W: &b, Left: 5}
	if n, err := l.Write([]byte("1234567")); n != 7 || err != nil || b.String() != "12345" {
		t.Errorf("%d, %v, %q", n, err, b.String())
	}
}
