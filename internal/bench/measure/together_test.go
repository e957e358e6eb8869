package measure

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/spec"
)

const togetherText = `study: s
job: {image: docker.io/lab/x, workdir: /work, run: "echo speed $(cat in)${n}; [ ${n} != 7 ] && echo answer > out.txt", outputs: [{from: /work/out.txt, to: ./results}]}
vary: {n: [1, 7, 3], hosts: [1, 2]}
environments: {plain: {runtime: rootless, nodes: "${hosts}"}}
metrics: {speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}, seconds: {builtin: seconds}}
check: [{regex: answer, file: out.txt}]
method: {reuse: block}
`

// TestTogether: points that differ in their command alone share a container, and each has its own
// output, files, code and log. One that fails leaves the others alone.
func TestTogether(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(togetherText), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k := &Taker{Study: s, Dir: t.TempDir(), Cores: 1}
	if err := os.Mkdir(filepath.Join(k.Dir, record.LogsDir), 0o755); err != nil {
		t.Fatal(err)
	}
	launched := 0
	run := really(t, "")
	k.Launcher = launch(func(job *spec.Job, w io.Writer) (Outcome, error) {
		launched++
		return run(job, w)
	})
	var all []runner.Measurement
	var points []record.Point
	for _, n := range []string{"1", "7", "3"} {
		for _, hosts := range []string{"1", "2"} {
			p := record.Point{ID: "n=" + n + ",hosts=" + hosts, Values: map[string]string{"n": n, "hosts": hosts}, Environments: s.EnvironmentNames}
			points, all = append(points, p), append(all, runner.Measurement{Point: p, Environment: "plain", Block: 1, Try: 1})
		}
	}
	if n, err := k.Containers(points, "plain"); err != nil || n != 2 {
		t.Errorf("%d containers, %v; expected one for each number of hosts", n, err)
	}
	rows, err := k.Together(t.Context(), all)
	if err != nil || len(rows) != len(all) || launched != 2 {
		t.Fatalf("%d rows of %d containers, %v", len(rows), launched, err)
	}
	for i, m := range all {
		row := &rows[i]
		if row.Shared != 3 || row.Log == "" || (i > 0 && row.Log == rows[i-1].Log) {
			t.Errorf("%s: %d shared, log %q", m.Point.ID, row.Shared, row.Log)
		}
		if _, err := os.Stat(filepath.Join(k.Dir, row.Log)); err != nil {
			t.Error(err)
		}
		if m.Point.Values["n"] == "7" {
			if row.Status != record.Failed || !strings.Contains(row.Error, "speed 27") {
				t.Errorf("%s, whose command fails: %s, %q", m.Point.ID, row.Status, row.Error)
			}
			continue
		}
		if f := row.Metrics["speed"]; row.Status != record.OK || len(f) != 1 || f[0].Value != map[string]float64{"1": 21, "3": 23}[m.Point.Values["n"]] {
			t.Errorf("%s: %s %s, %+v", m.Point.ID, row.Status, row.Error, f)
		}
	}
	k.Launcher = launch(func(*spec.Job, io.Writer) (Outcome, error) { return Outcome{Failed: "the lab is closed"}, nil })
	rows, err = k.Together(t.Context(), all[:1])
	if err != nil || rows[0].Status != record.Failed || !strings.Contains(rows[0].Error, "the lab is closed") {
		t.Errorf("a container that does not start: %v, %+v", err, rows)
	}
}
