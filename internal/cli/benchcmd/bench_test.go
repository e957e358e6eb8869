package benchcmd

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestTwoStudiesExcludeEachOther: the second names the first.
func TestTwoStudiesExcludeEachOther(t *testing.T) {
	a := New(workspace.New(nil, nil, ""))
	a.StateDir, a.CacheDir = t.TempDir(), t.TempDir()
	unlock, err := a.benchLock("layers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.benchLock("apps"); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), "layers") {
		t.Errorf("a second study: %v", err)
	}
	unlock()
	unlock, err = a.benchLock("apps")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// TestUnmeasurable names what this bee leaves out before anything starts.
func TestUnmeasurable(t *testing.T) {
	local := []spec.Site{{Name: "local", Provider: "local"}}
	for name, tc := range map[string]struct {
		e    study.Environment
		want string
	}{
		"the host's programs": {study.Environment{Runtime: "native", Native: "host"}, "programs of the host"},
		"another bee, native": {study.Environment{Runtime: "native", Bee: "/bee"}, "containers"},
		"nothing":             {study.Environment{}, ""},
	} {
		if got := unmeasurable(tc.e, &spec.Job{}, local); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, expected %q", name, got, tc.want)
		}
	}
}

// TestWants: an environment that is measured only by name is left out of the others.
func TestWants(t *testing.T) {
	s := &study.Study{Baseline: "a", Environments: map[string]study.Environment{"a": {}, "b": {}, "c": {OnlyNamed: true}}}
	for env, want := range map[string]string{"": "ab", "b": "ab", "c": "ac"} {
		o, got := benchOptions{}, ""
		if env != "" {
			o.env = []string{env}
		}
		for _, e := range []string{"a", "b", "c"} {
			if o.wants(s, e) {
				got += e
			}
		}
		if got != want {
			t.Errorf("--env %q measures %s, expected %s", env, got, want)
		}
	}
}

// TestRepeating prints the command of a study with what was asked for.
func TestRepeating(t *testing.T) {
	a := New(workspace.New(nil, nil, ""))
	c := a.newBenchRunCommand()
	if err := c.ParseFlags([]string{"--env", "a,b", "--metric", "x=regex:^x (.*)", "--map", "aws=lab", "-o", "out", "--wait", "0s"}); err != nil {
		t.Fatal(err)
	}
	if got, want := repeating(c, []string{"my study.yaml"}), `run 'my study.yaml' --env=a --env=b --map=aws=lab '--metric=x=regex:^x (.*)'`; got != want {
		t.Errorf("got %s, expected %s", got, want)
	}
}

// TestAhead: before the first block a study says how much it measures, and whether that
// suffices for verdicts.
func TestAhead(t *testing.T) {
	p := record.Plan{
		Least: 10, Most: 20, Baseline: "a", Environments: []record.Environment{{Name: "a"}, {Name: "b"}, {Name: "c", Dropped: "it is not here"}},
		Points: []record.Point{{Environments: []string{"a", "b", "c"}}}, Metrics: []record.Metric{{Name: "x", Primary: true}},
	}
	if got, want := aheadText(&p), "1 point, 3 measurements each block, up to 20 blocks; verdicts on 1 primary figure from block 10 on"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
	p.Least, p.Most, p.BudgetSeconds = 4, 4, 90
	if got, want := aheadText(&p), "1 point, 3 measurements each block, up to 4 blocks within 1m30s; no verdict, as those on 1 primary figure take 6 blocks"; got != want {
		t.Errorf("got %q, expected %q", got, want)
	}
}
