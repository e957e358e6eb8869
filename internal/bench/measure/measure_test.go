package measure

import (
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

// TestEnergy reads counters as the kernel has them: of whole processors, and of one that continued at 0.
func TestEnergy(t *testing.T) {
	dir := t.TempDir()
	write := func(zone, used string) {
		t.Helper()
		at := filepath.Join(dir, zone)
		if err := errors.Join(os.MkdirAll(at, 0o755), os.WriteFile(filepath.Join(at, "energy_uj"), []byte(used+"\n"), 0o644), os.WriteFile(filepath.Join(at, "max_energy_range_uj"), []byte("9000000\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("intel-rapl:0", "1000000")
	write("intel-rapl:0:0", "5")
	write("intel-rapl:1", "8000000")
	before := readEnergy(dir)
	write("intel-rapl:0", "3000000")
	write("intel-rapl:0:0", "4000000")
	write("intel-rapl:1", "500000")
	if j := readEnergy(dir).since(before); j != 2+1.5 {
		t.Errorf("%v J, expected 3.5", j)
	}
	if j := readEnergy(t.TempDir()).since(before); j != 0 {
		t.Errorf("%v J without a counter", j)
	}
}

// TestWhatIsNotDoneIsFlagged: what a study asks for is done or flagged.
func TestWhatIsNotDoneIsFlagged(t *testing.T) {
	k := taker(t, nil)
	k.Study.Fair = []string{"cold-files"}
	k.Study.MetricNames, k.Study.Metrics["energy"] = append(k.Study.MetricNames, "energy"), study.Metric{Builtin: "energy"}
	flags := k.doubts(Outcome{})
	for _, word := range []string{"from the disk", "energy"} {
		if !slices.ContainsFunc(flags, func(f string) bool { return strings.Contains(f, word) }) {
			t.Errorf("flags %q lack that of %s", flags, word)
		}
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
