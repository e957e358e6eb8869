package head

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// scriptedNode starts containers in which a command is its own exit code: "0", "3". "error"
// cannot be started, "wait" runs until a signal, and "done" succeeds at once.
type scriptedNode struct {
	Node
	began   func(argv string)
	started func() // a container; nil: nothing happens then
}

func (n scriptedNode) StartCase(context.Context, string, plan.Case, string) (*container.Container, error) {
	if n.started != nil {
		n.started()
	}
	return &container.Container{Container: scriptedContainer{node: n}, Release: func() {}}, nil
}

type scriptedContainer struct {
	driver.Container
	node scriptedNode
}

func (c scriptedContainer) Exec(_ context.Context, command driver.Command) (driver.Process, error) {
	c.node.began(command.Args[0])
	p := scriptedProcess{code: new(int), done: make(chan struct{})}
	switch command.Args[0] {
	case "error":
		return nil, &core.Error{Kind: core.Permanent, Op: "start"}
	case "wait":
		return p, nil
	case "done":
		close(p.done)
		return p, nil
	}
	fmt.Sscan(command.Args[0], p.code) //nolint:errcheck // it is a number
	close(p.done)
	return p, nil
}

func (c scriptedContainer) Stop(context.Context, time.Duration) error { return nil }

type scriptedProcess struct {
	driver.Process
	code *int
	done chan struct{}
}

func (p scriptedProcess) Signal(context.Context, os.Signal) error {
	*p.code = 143
	close(p.done)
	return nil
}

func (p scriptedProcess) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.done:
		return core.Exit{Code: *p.code}, nil
	default:
	}
	select {
	case <-p.done:
		return core.Exit{Code: *p.code}, nil
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}

// TestEndsOfCases: a case has the exit code of its last command, and none where it continues or
// could not run. Its run command alone writes a checkpoint, if its Beefile has one.
func TestEndsOfCases(t *testing.T) {
	for name, c := range map[string]struct {
		one                       plan.Case
		ended, saved, failedToRun bool
		code                      int
	}{
		"it has succeeded":                  {one: plan.Case{Steps: [][]string{{"0"}, {"0"}, {"0"}}, Command: 1, Saves: true}, ended: true},
		"its setup has failed":              {one: plan.Case{Steps: [][]string{{"3"}, {"0"}}, Command: 1, Saves: true}, ended: true, code: 3},
		"it was asked after its setup":      {one: plan.Case{Steps: [][]string{{"0"}, {"wait"}}, Command: 1, Saves: true}, saved: true},
		"it was asked in its setup":         {one: plan.Case{Steps: [][]string{{"wait"}, {"0"}}, Command: 1, Saves: true}},
		"it was asked in its post":          {one: plan.Case{Steps: [][]string{{"0"}, {"wait"}}, Saves: true}},
		"it was asked without a checkpoint": {one: plan.Case{Steps: [][]string{{"wait"}}}},
		"it continues after its setup":      {one: plan.Case{Steps: [][]string{{"0"}, {"85"}}, Command: 1, Saves: true}, saved: true},
		"its setup ends with that code":     {one: plan.Case{Steps: [][]string{{"85"}, {"0"}}, Command: 1, Saves: true}, ended: true, code: 85},
		"it ends so without a checkpoint":   {one: plan.Case{Steps: [][]string{{"85"}}}, ended: true, code: 85},
		"it succeeds as it is asked":        {one: plan.Case{Steps: [][]string{{"done"}}, Saves: true}, ended: true},
		"its setup succeeds then":           {one: plan.Case{Steps: [][]string{{"done"}, {"0"}}, Command: 1, Saves: true}},
		"its command cannot run":            {one: plan.Case{Steps: [][]string{{"0"}, {"error"}}, Command: 1}, ended: true, failedToRun: true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cs := newCases(t, c.one, func(argv string) {
			if argv == "wait" || argv == "done" {
				cancel(errSlotEnds)
			}
		})
		if err := cs.run(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		end := cs.of(7)
		if end.Ended() != c.ended || end.Saved != c.saved || cs.continues() != c.saved || (end.Message != "") != c.failedToRun || (end.Exit != nil) != (c.ended && !c.failedToRun) || end.Exit != nil && end.Exit.Code != c.code {
			t.Errorf("%s: %+v, %+v", name, end, end.Exit)
		}
		cancel(nil)
	}
}

// TestACaseContinues by what it has for that, and without its setup, in the volume that it had.
func TestACaseContinues(t *testing.T) {
	for resume, want := range map[string]string{"": "[0 0]", "00": "[00 0]"} {
		one := plan.Case{Steps: [][]string{{"1"}, {"0"}, {"0"}}, Command: 1, Saves: true}
		if resume != "" {
			one.Resume = [][]string{{resume}, {"0"}}
		}
		var began []string
		cs := newCases(t, one, func(argv string) { began = append(began, argv) })
		state := filepath.Join(cs.volume, plan.CaseDir(7), "state")
		if err := os.MkdirAll(filepath.Dir(state), 0o700); err != nil {
			t.Fatal(err)
		}
		for path, text := range map[string]string{state: "x", filepath.Join(cs.volume, plan.CasesFile): `{"number":7,"saved":true}` + "\n"} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := cs.run(t.Context()); err != nil || fmt.Sprint(began) != want || !cs.of(7).Ended() {
			t.Errorf("%v: it has run %v, want %v", err, began, want)
		}
		if _, err := os.Stat(state); err != nil {
			t.Error(err)
		}
	}
}

// TestACaseThatContinuesLeavesNoCheckpoint from its first command on: a head that dies then has
// left a directory that was computed in. Where none has begun, it still has its checkpoint.
func TestACaseThatContinuesLeavesNoCheckpoint(t *testing.T) {
	for _, begins := range []bool{true, false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		die := func() { cancel(errors.New("its host is lost")) }
		var cs *cases
		saved := func() bool {
			other := &cases{volume: cs.volume} // of the next attempt
			if err := other.read(); err != nil {
				t.Error(err)
			}
			return other.of(7).Saved
		}
		cs = newCases(t, plan.Case{Steps: [][]string{{"0"}, {"wait"}}, Command: 1, Saves: true}, func(string) {
			if saved() {
				t.Error("it computes in its checkpoint")
			}
			die()
		})
		if !begins {
			cs.node = scriptedNode{began: func(argv string) { t.Errorf("%s begins", argv) }, started: die}
		}
		if err := os.WriteFile(filepath.Join(cs.volume, plan.CasesFile), []byte(`{"number":7,"saved":true}`+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cs.run(ctx); err != nil || saved() == begins {
			t.Errorf("begins: %t, %v; it has a checkpoint: %t", begins, err, saved())
		}
	}
}

// TestATornRecord hides no case that ends after it.
func TestATornRecord(t *testing.T) {
	var began []string
	cs := newCases(t, plan.Case{Steps: [][]string{{"0"}}}, func(argv string) { began = append(began, argv) })
	if err := os.WriteFile(filepath.Join(cs.volume, plan.CasesFile), []byte(`{"number":7,"ex`), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // attempts
		if err := cs.run(t.Context()); err != nil || len(began) != 1 || !cs.of(7).Ended() {
			t.Errorf("%v: it has run %v", err, began)
		}
	}
}

// TestCasesThatDoNotBegin: once so many have failed, the others end without beginning, but for one that
// has a checkpoint, and which has begun.
func TestCasesThatDoNotBegin(t *testing.T) {
	for _, c := range []struct {
		stopAt             int
		began, stopped     string
		failed, checkpoint int
	}{
		{0, "[0 3 0 4 0]", "[]", 2, 0},
		{1, "[0 3]", "[3 4 5]", 1, 0},
		{2, "[0 3 0 4]", "[5]", 2, 0},
		{3, "[0 3 0 4 0]", "[]", 2, 0},
		{-1, "[]", "[1 2 3 4 5]", 0, 0},
		{1, "[0 3 0]", "[3 4]", 1, 5},
	} {
		var began []string
		cs := newCases(t, plan.Case{}, func(argv string) { began = append(began, argv) })
		cs.plan.Cases, cs.plan.CaseStopAt, cs.plan.CaseCores = nil, c.stopAt, 1<<20 // one at a time
		for i, code := range []string{"0", "3", "0", "4", "0"} {
			cs.plan.Cases = append(cs.plan.Cases, plan.Case{Number: i + 1, Steps: [][]string{{code}}, Saves: true})
		}
		if c.checkpoint > 0 {
			if err := os.WriteFile(filepath.Join(cs.volume, plan.CasesFile), fmt.Appendf(nil, `{"number":%d,"saved":true}`+"\n", c.checkpoint), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := cs.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		stopped, failed := []int{}, 0
		for _, one := range cs.plan.Cases {
			end := cs.of(one.Number)
			if end.NotBegun() {
				stopped = append(stopped, one.Number)
			}
			if end.Failed() {
				failed++
			}
			if !end.Ended() {
				t.Errorf("%+v: case %d has no end", c, one.Number)
			}
		}
		if fmt.Sprint(began) != c.began || fmt.Sprint(stopped) != c.stopped || failed != c.failed {
			t.Errorf("%+v: began %v, stopped %v, failed %d", c, began, stopped, failed)
		}
	}
}

// TestCasesAtOnce have cores and memory of their own.
func TestCasesAtOnce(t *testing.T) {
	for _, c := range []struct {
		cores  int
		memory int64
		most   int
		want   int
	}{{0, 0, 0, 64}, {8, 0, 0, 8}, {1, 30, 0, 3}, {100, 0, 0, 1}, {1, 1000, 0, 1}, {1, 0, 8, 8}, {1, 30, 8, 3}, {1, 0, 100, 64}} {
		cs := &cases{plan: &plan.Plan{CaseCores: c.cores, CaseMemory: c.memory, CaseAtOnce: c.most}}
		if got := cs.atOnce(64, 100); got != c.want {
			t.Errorf("of %+v, %d run at once", c, got)
		}
	}
}

func newCases(t *testing.T, one plan.Case, began func(argv string)) *cases {
	t.Helper()
	dir := t.TempDir()
	j, err := journal.New(filepath.Join(dir, "journal"))
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	one.Number = 7
	volume := filepath.Join(dir, "volume")
	if err := os.Mkdir(volume, 0o700); err != nil {
		t.Fatal(err)
	}
	end := newEnding(time.Minute)
	return &cases{
		plan: &plan.Plan{Pack: true, Cases: []plan.Case{one}, Checkpoint: &plan.Checkpoint{Signal: 15, Grace: time.Minute}},
		node: scriptedNode{began: began}, volume: volume, journal: j, output: taskOutput{log: tasklog.New(log), end: end}, end: end,
	}
}
