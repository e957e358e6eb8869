package benchcmd

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/report"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/testkit"
)

// A simulatedMachine draws figures with a noise of 3 %. It drifts from one measurement to the
// next, and the environment "other" takes factor times as long.
type simulatedMachine struct {
	rng    *rand.Rand
	drift  float64
	factor float64
}

func (s *simulatedMachine) Measure(_ context.Context, m runner.Measurement) (record.Row, error) {
	s.drift += s.rng.NormFloat64() * 0.01
	seconds := 10 * math.Exp(s.drift+s.rng.NormFloat64()*0.03)
	if m.Environment == "other" {
		seconds *= s.factor
	}
	return record.Row{Status: record.OK, Seconds: seconds, Metrics: map[string][]record.Figure{"seconds": {{Value: seconds}}}}, nil
}

// simulatedGate measures a study on such a machine to its end, and returns the exit code of its
// gate.
func simulatedGate(t *testing.T, factor float64, seed uint64) int {
	t.Helper()
	j, err := record.Create(t.TempDir(), record.Plan{
		Study: "simulated", Method: "robust", Margin: 0.05, Least: 10, Most: 32, Baseline: "base", Seed: seed,
		Environments: []record.Environment{{Name: "base"}, {Name: "other"}},
		Points:       []record.Point{{Environments: []string{"base", "other"}}},
		Metrics:      []record.Metric{{Name: "seconds", Unit: "s", Better: "lower", Primary: true}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := runner.Runner{
		Journal: j, Measurer: &simulatedMachine{rng: rand.New(rand.NewPCG(seed, 5)), factor: factor},
		Family: evaluate.Family(&j.Plan), Now: time.Now, Report: func(runner.Progress) {},
		Precise: func(rows []record.Row) bool { return evaluate.Precise(&j.Plan, rows) },
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	code, _ := errors.AsType[console.Exit](gate(report.New(j.Plan, j.Rows), benchOptions{failOn: []string{"slower"}}))
	return int(code)
}

// TestGateOnSimulatedStudies: a gate finds a tenth more time on a machine with noise and drift,
// and finds nothing slower where nothing is.
func TestGateOnSimulatedStudies(t *testing.T) {
	times := 4
	if testkit.Everything() {
		times = 200
	}
	tenth, same := map[int]int{}, map[int]int{}
	for seed := range uint64(times) {
		tenth[simulatedGate(t, 1.1, seed)]++
		same[simulatedGate(t, 1, seed)]++
	}
	t.Logf("exit codes with a tenth more: %v, with the same: %v", tenth, same)
	if tenth[console.ExitSlower] < times*98/100 || tenth[0] > 0 {
		t.Errorf("with a tenth more, gates end with %v, expected %d", tenth, console.ExitSlower)
	}
	if same[console.ExitSlower] > times*65/1000 {
		t.Errorf("with the same, gates end with %v, expected %d in 6.5 %% at most", same, console.ExitSlower)
	}
}
