package benchcmd

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/report"
	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/bench/studies"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestUnmeasurable names what this bee leaves out before anything starts.
func TestUnmeasurable(t *testing.T) {
	local := []spec.Site{{Name: "local", Provider: "local"}}
	for name, tc := range map[string]struct {
		e    study.Environment
		want string
	}{
		"another bee, native": {study.Environment{Runtime: "native", Bee: "/bee"}, "containers"},
		"the host's programs": {study.Environment{Runtime: "native", Native: "host"}, ""},
		"nothing":             {study.Environment{}, ""},
	} {
		if got, _ := unmeasurable(tc.e, &spec.Job{}, local); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, expected %q", name, got, tc.want)
		}
	}
}

// TestCalibrateWithoutArgument: bee's own study is measured, whatever file of its name is in the current directory. A file
// that is named is asked about.
func TestCalibrateWithoutArgument(t *testing.T) {
	t.Chdir(t.TempDir())
	theirs := "study: layers\njob: {image: docker.io/lab/x, run: evil}\nenvironments: {evil: {runtime: native}, b: {runtime: rootless}}\nmetrics: {seconds: {builtin: seconds}}\n"
	err := os.WriteFile("layers", []byte(theirs), 0o600)
	if err == nil {
		err = os.Chmod("layers", 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	own, _ := studies.Text("layers")
	o := benchOptions{verb: "calibrate", calibrate: true}
	if s, text, err := o.study(nil); err != nil || text != own || slices.Contains(s.EnvironmentNames, "evil") || o.file != "" {
		t.Errorf("without an argument, file %q with %.40q is measured: %v", o.file, text, err)
	}
	if _, text, err := o.study([]string{"layers"}); err != nil || text != theirs || o.file != "layers" {
		t.Errorf("of the file that is named, file %q with %.40q is measured: %v", o.file, text, err)
	}
}

// TestMarksOfLocalJobs: a job on this machine replaces nothing that bee has seen of it by printing
// what a guest or another machine would.
func TestMarksOfLocalJobs(t *testing.T) {
	const found = `{"cores":4711}`
	printed := inside.Mark(1) + "x" + inside.FoundMark(len(found)) + found + inside.Mark(2)
	for name, c := range map[string]struct {
		job      spec.Job
		provider string
		believed bool
	}{
		"on this machine":       {provider: "local"},
		"in a guest":            {job: spec.Job{VM: &spec.VM{}}, provider: "local", believed: true},
		"on another machine":    {provider: "ssh", believed: true},
		"in a guest of another": {job: spec.Job{VM: &spec.VM{}}, provider: "slurm", believed: true},
	} {
		var out bytes.Buffer
		clock, want := measure.Clock{W: &out}, printed
		if c.believed {
			want = "x"
		}
		err := errors.Join(outputOf(&c.job, spec.Site{Provider: c.provider}, &clock)(tasklog.Frame{Data: []byte(printed)}), clock.Close())
		f, known := clock.Found()
		guest, _ := clock.Elapsed()
		if err != nil || known != c.believed || (f.Cores == 4711) != c.believed || (guest > 0) != c.believed || out.String() != want {
			t.Errorf("%s: %+v, %v, %v, output %q, %v", name, f, known, guest, out.String(), err)
		}
	}
}

// TestSplitHosts: a host is split into containers on this machine alone, and no site is asked
// for a host for each. Guests share a host on every site.
func TestSplitHosts(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(`study: s
job: {image: docker.io/lab/x, run: "true"}
environments: {plain: {runtime: rootless}, split: {runtime: rootless, per_host: 4}, guests: {vm: {memory: 1G}, per_host: 4}}
metrics: {seconds: {builtin: seconds}}
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k, h := &measure.Taker{Study: s}, &hosts{}
	point := record.Point{Environments: s.EnvironmentNames}
	if err := h.require(k, planOf(s, point)); err != nil || h.need.Nodes != 1 {
		t.Errorf("a study of one host asks for %d, %v", h.need.Nodes, err)
	}
	for provider, refused := range map[string][]string{"local": nil, "ssh": {"split"}, "slurm": {"split"}, "virtualbox": {"split", "guests"}} {
		for _, name := range s.EnvironmentNames {
			job, err := k.Job(point, name, "")
			if err != nil {
				t.Fatal(err)
			}
			reason, remedy := unmeasurable(s.Environments[name], job, []spec.Site{{Name: "x", Provider: provider}})
			if want := slices.Contains(refused, name); (reason != "") != want || (remedy != "") != want {
				t.Errorf("%s on %s: %q, %q", name, provider, reason, remedy)
			}
		}
	}
}

// planOf is a plan with all environments of a study.
func planOf(s *study.Study, points ...record.Point) *record.Plan {
	p := &record.Plan{Points: points, Baseline: s.Baseline}
	for _, name := range s.EnvironmentNames {
		p.Environments = append(p.Environments, record.Environment{Name: name})
	}
	return p
}

// TestNeedsOfWhatRemains: environments that are left out need no hosts.
func TestNeedsOfWhatRemains(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(`study: s
job: {image: docker.io/lab/x, run: "true"}
environments: {plain: {runtime: rootless}, wide: {runtime: docker, nodes: 8, memory: 9G, gpus: 2}}
metrics: {seconds: {builtin: seconds}}
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	k, h, p := &measure.Taker{Study: s}, &hosts{}, planOf(s, record.Point{Environments: s.EnvironmentNames})
	if err := h.require(k, p); err != nil || h.need.Nodes != 8 || h.need.GPUs != 2 {
		t.Errorf("both need %+v, %v", h.need, err)
	}
	p.Environments[1].Dropped = "it is not here"
	if err := h.require(k, p); err != nil || h.need.Nodes != 1 || h.need.GPUs != 0 || h.need.Memory != 0 {
		t.Errorf("the one that is left needs %+v, %v", h.need, err)
	}
}

// TestUnfitIsKnownBefore: an environment that cannot be measured on its site loses its column by
// its keys alone, before a job is tried or a source is built.
func TestUnfitIsKnownBefore(t *testing.T) {
	s, err := study.Parse("study.yaml", []byte(`study: s
job: {image: docker.io/lab/x, run: "true"}
environments: {plain: {runtime: rootless}, split: {runtime: rootless, per_host: 4}, wide: {site: here, nodes: 3}, elsewhere: {site: here, runtime: rootless, per_host: 4}, guests: {site: vbox, nodes: 2}, rack: {nodes: 3}, pair: {nodes: 2}}
metrics: {seconds: {builtin: seconds}}
`), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := New(workspace.New(nil, nil, ""))
	a.StateDir, a.CacheDir = t.TempDir(), t.TempDir()
	a.Sites = filepath.Join(t.TempDir(), "sites.yaml")
	if err := os.WriteFile(a.Sites, []byte("sites: [{name: lab, provider: ssh, hosts: [h0, h1]}, {name: here, provider: local}, {name: vbox, provider: virtualbox, virtualbox: {machine: m, user: u, host_key: ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs3mXn0cVhQKpVq2rO1Lk4Yy9xqf3u2v0c5mQ7aZ1aB}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := &bench{app: a, taker: &measure.Taker{Study: s, Site: "lab"}}
	p := record.Plan{Study: s.Name, Points: []record.Point{{Environments: s.EnvironmentNames}}}
	if err := b.choose(&p, s); err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Environments {
		if want := slices.Contains([]string{"split", "wide", "guests", "rack"}, e.Name); (e.Dropped != "") != want || (e.Remedy != "") != want {
			t.Errorf("%s: %q, %q", e.Name, e.Dropped, e.Remedy)
		}
		if e.Dropped != "" {
			testkit.Wording(t, e.Name, e.Dropped+". "+e.Remedy)
		}
	}
	if err := tooFew(&p, b.o); err != nil {
		t.Errorf("two are left: %v", err)
	}
	p.Environments = p.Environments[:2]
	if err := tooFew(&p, b.o); !core.IsKind(err, core.Unsupported) {
		t.Errorf("one is left: %v", err)
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
	testkit.Wording(t, "verdicts", aheadText(&p))
	p.Environments[0].TrialSeconds, p.Environments[1].TrialSeconds = 1.5, 2
	testkit.Wording(t, "plan", planText(&p))
	p.Environments[1].Site, p.Environments[1].HourPrice, p.Environments[1].Currency, p.Environments[1].LeastBilledSeconds = "cloud", 3.6, "EUR", 60
	p.Environments[0].Site, p.Environments[0].HourPrice = "rack", 2.4
	testkit.Wording(t, "plan of sites with prices", planText(&p))
	p.Environments[1].Untested, p.Environments[1].Untried = true, "a real VirtualBox"
	p.BudgetSeconds = 3600
	testkit.Wording(t, "plan of sites with prices and a budget", planText(&p))
	p.Least, p.Most, p.BudgetSeconds = 4, 4, 90
	testkit.Wording(t, "no verdict", aheadText(&p))
}

// TestGate: a gate passes only by verdicts on what was asked for.
func TestGate(t *testing.T) {
	const ok, undecided, slower, failed = 0, console.ExitUndecided, console.ExitSlower, console.ExitPermanent
	verdict := func(v stats.Verdict, primary bool) evaluate.Contrast {
		return evaluate.Contrast{Environment: "b", Primary: primary, Finding: stats.Finding{Verdict: v}}
	}
	equal := verdict(stats.Equivalent, true)
	widened := equal
	widened.Finding.Widened = true
	for _, c := range []struct {
		name      string
		plan      record.Plan
		contrasts []evaluate.Contrast
		code      int
	}{
		{"equivalent", record.Plan{}, []evaluate.Contrast{equal}, ok},
		{"slower", record.Plan{}, []evaluate.Contrast{equal, verdict(stats.Slower, true)}, slower},
		{"failed", record.Plan{}, []evaluate.Contrast{equal, verdict(stats.Failed, true)}, failed},
		{"inconclusive", record.Plan{}, []evaluate.Contrast{equal, verdict(stats.Inconclusive, true)}, undecided},
		{"too few", record.Plan{}, []evaluate.Contrast{equal, verdict(stats.TooFew, true)}, undecided},
		{"withheld", record.Plan{}, []evaluate.Contrast{equal, verdict(stats.Withheld, true)}, undecided},
		{"a wider margin", record.Plan{}, []evaluate.Contrast{widened}, undecided},
		{"nothing was measured", record.Plan{}, nil, undecided},
		{"no primary figure was measured", record.Plan{}, []evaluate.Contrast{verdict(stats.Exploratory, false)}, undecided},
		{"an environment that was asked for is not here", record.Plan{Environments: []record.Environment{{Name: "c", Named: true, Dropped: "it is not here"}}}, []evaluate.Contrast{equal}, undecided},
		{"an environment of the study is not here", record.Plan{Environments: []record.Environment{{Name: "c", Dropped: "it is not here"}}}, []evaluate.Contrast{equal}, ok},
		{"the baseline is not here", record.Plan{Replaced: "a", Baseline: "c"}, []evaluate.Contrast{equal}, undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &report.Report{Plan: c.plan, Result: evaluate.Result{Contrasts: c.contrasts}}
			for _, allow := range []bool{false, true} {
				want := c.code
				if allow && want == undecided {
					want = ok
				}
				got, _ := errors.AsType[console.Exit](gate(r, benchOptions{failOn: []string{"slower", "failed"}, undecided: allow}))
				if int(got) != want {
					t.Errorf("got %d, expected %d (--allow-undecided %v)", got, want, allow)
				}
			}
			if err := gate(r, benchOptions{}); err != nil {
				t.Errorf("without a gate: %v", err)
			}
		})
	}
}
