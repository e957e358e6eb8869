package console

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// A job that prints nothing for hours has not been starting all that time.
func TestTheTerminalIsTheJobsOnceItRuns(t *testing.T) {
	for _, phase := range []core.Phase{core.PhaseSetup, core.PhaseRun} {
		var shown strings.Builder
		p := &Progress{out: &shown, live: true, status: output.NewStatusLine(&shown)}
		p.Report(plan.Event{Phase: core.PhaseStart, Begin: true})
		if !strings.HasSuffix(shown.String(), "starting containers …") {
			t.Fatalf("shown: %q", shown.String())
		}
		p.Report(plan.Event{Phase: phase, Begin: true})
		if !strings.HasSuffix(shown.String(), "\r\x1b[K") {
			t.Errorf("%s: shown: %q", phase, shown.String())
		}
	}
}

// What takes long is reported with how long it has taken: on a terminal in one line,
// elsewhere once in a while.
func TestWaitingIsToldWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		for live, want := range map[bool]string{true: "\r\x1b[Kbooting after 3s …\r\x1b[K", false: "bee: booting after 3s\n"} {
			var shown strings.Builder
			p := &Progress{out: &shown, live: live, status: output.NewStatusLine(&shown)}
			for _, waited := range []time.Duration{3100 * time.Millisecond, 6100 * time.Millisecond} {
				p.Report(plan.Event{Phase: core.PhaseStart, Rank: -1, Message: "booting", Waited: waited})
			}
			p.Report(plan.Event{Phase: core.PhaseRun, Begin: true})
			if shown.String() != want {
				t.Errorf("on a terminal %t: %q", live, shown.String())
			}
		}
	})
}

// TestALongStepTellsItsRate, and what is left of it where that is known.
func TestALongStepTellsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown strings.Builder
		p := &Progress{out: &shown}
		for i := range int64(3) {
			p.Report(plan.Event{Rank: -1, Message: "copying a", Done: 1e6 + i*20e6, Total: 101e6})
			time.Sleep(10 * time.Second) // in virtual time
		}
		for i := range int64(2) { // another, of which nobody knows the end
			p.Report(plan.Event{Rank: -1, Message: "fetching b", Done: 1 + i*5e9})
			time.Sleep(10 * time.Second) // in virtual time
		}
		want := "bee: copying a 1.0 MB of 101.0 MB (0 %)\nbee: copying a 21.0 MB of 101.0 MB (20 %), 2.0 MB/s, 40s left\n" +
			"bee: copying a 41.0 MB of 101.0 MB (40 %), 2.0 MB/s, 30s left\nbee: fetching b 1 B\nbee: fetching b 5.0 GB, 500.0 MB/s\n"
		if shown.String() != want {
			t.Errorf("shown:\n%swant:\n%s", shown.String(), want)
		}
	})
}

func TestCostText(t *testing.T) {
	for cost, want := range map[float64]string{0: "0.00", 0.0001: "<0.01", 0.005: "0.01", 0.5: "0.50", 1234.5: "1234.50"} {
		if got := CostText(cost, ""); got != want {
			t.Errorf("%v: %q, not %q", cost, got, want)
		}
	}
}

// TestOutputWaitsForTheAnswer: what the job writes does not overwrite a question.
func TestOutputWaitsForTheAnswer(t *testing.T) {
	var out strings.Builder
	p := &Progress{out: &out, Stdout: &out, stderr: &out, held: &heldOutput{}}
	data := []byte("line\n")
	for range 2 {
		if err := p.Output(tasklog.Frame{Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	copy(data, "XXXX") // the reader uses it again
	if out.Len() > 0 {
		t.Errorf("written while the question is open: %q", out.String())
	}
	p.answered()
	if out.String() != "line\nline\n" {
		t.Errorf("then %q", out.String())
	}
	p.held = &heldOutput{}
	for range maxHeld/1000 + 2 {
		if err := p.Output(tasklog.Frame{Data: make([]byte, 1000)}); err != nil {
			t.Fatal(err)
		}
	}
	if out.Len() == 10 || p.held.size > maxHeld {
		t.Errorf("%d bytes are held", p.held.size)
	}
}
