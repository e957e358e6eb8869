package study

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// whole has every key of a study.
const whole = `study: cfd
title: What do container and VM cost our solver?
source: docs of the solver, 2.1
job: {image: docker.io/lab/cfd:2.1, inputs: [{from: ./case, to: /work}], workdir: /work, nodes: "${hosts}", run: "mpirun -n ${ranks} solver ${case} $${HOME}"}
vary: {ranks: [1, 2, 4], hosts: [1, 1, 2], case: [small.cfg, large.cfg]}
zip: [[ranks, hosts]]
when: '.environment != "split4" or .ranks == 4'
sizes: {smoke: {case: [tiny.cfg]}, paper: {case: [large.cfg]}}
environments:
  native: {runtime: native}
  rootless: {}
  docker: {runtime: docker}
  cloud: {site: aws}
  old-bee: {bee: ./bee-1.2}
  vm-bare: {vm: {memory: 4G}, runtime: native}
  vm: {vm: {memory: 4G}}
  split4: {runtime: lxc, per_host: 4, limit: {cores: 1, memory: 768M}}
contrasts: [{vary: environment, against: native}, {vary: ranks, against: 1}]
copies: {count: 1, metric: sum}
metrics:
  speed:  {regex: '^Performance:\s+(\S+)', unit: ns/day, better: higher, primary: true}
  band:   {table: {file: np.out, columns: [bytes, mbps, seconds], key: bytes}, value: mbps, better: higher}
  hpl:    {keyvalue: '^(\w+)=(\S+)$', file: hpccoutf.txt, key: HPL_Tflops, better: higher}
  write:  {jq: '.tests[0].Results[0][] | select(.access=="write") | .bwMiB', file: ior.json, better: higher}
  start:  {builtin: start_seconds}
check:  [{regex: 'Finished'}, {jq: '.energy', equals: -1234.5, within: 1e-6}]
sources: {cfd: {about: "the solver's sources, 2.x", build: ["make CC=mpicc"]}}
fair: [same-binaries, same-limits, out-of-cache, cold-files]
claims: [{environment: rootless, metric: speed, says: equivalent, within: 5%, from: "BEE paper, fig. 11"}]
method: {name: robust, margin: 5%, blocks: 10..32, budget: 40m, reuse: none}
`

func TestWholeStudy(t *testing.T) {
	s, err := Parse("cfd.yaml", []byte(whole), "/studies")
	if err != nil {
		t.Fatal(err)
	}
	if s.Baseline != "native" || s.Method.Blocks != (Blocks{10, 32}) || s.Method.Margin != 0.05 || s.Metrics["start"].Unit != "s" {
		t.Errorf("%+v", s)
	}
	if want := []string{"native", "rootless", "docker", "cloud", "old-bee", "vm-bare", "vm", "split4"}; !slices.Equal(s.EnvironmentNames, want) {
		t.Errorf("environments %v, want %v", s.EnvironmentNames, want)
	}
	for size, want := range map[string]int{"": 6, "smoke": 3, "paper": 3, "here": 6} {
		points, err := s.Points(context.Background(), size)
		if err != nil || len(points) != want {
			t.Errorf("size %q: %d points, want %d (%v)", size, len(points), want, err)
		}
		for _, p := range points {
			if (p.Values["hosts"] == "2") != (p.Values["ranks"] == "4") || slices.Contains(p.Environments, "split4") != (p.Values["ranks"] == "4") {
				t.Errorf("size %q: %+v", size, p)
			}
		}
	}
	points, err := s.Points(context.Background(), "smoke")
	if err != nil {
		t.Fatal(err)
	}
	if id := points[2].ID(s.Variables); id != "ranks=4,hosts=2,case=tiny.cfg" {
		t.Errorf("the point is %q", id)
	}
	job, err := s.ComposeJob(&points[2], "vm")
	if err != nil || job.Nodes != 2 || job.Run.Shell != "mpirun -n 4 solver tiny.cfg ${HOME}" || job.VM == nil || job.VM.Memory != 4<<30 {
		t.Errorf("%+v, %v", job, err)
	}
}

// minimal is a study without the lines of some keys.
func minimal(replace ...string) string {
	text := `study: s
job: {image: i, run: "x ${n}"}
vary: {n: [1, 2]}
environments: {native: {runtime: native}, rootless: {}}
metrics: {time: {regex: '^Time: (\S+)', unit: s, better: lower}}
`
	return strings.NewReplacer(replace...).Replace(text)
}

// TestAlong: points are compared with those of another value, and else the same values.
func TestAlong(t *testing.T) {
	s, err := Parse("cfd.yaml", []byte(whole), "/studies")
	if err != nil {
		t.Fatal(err)
	}
	points, err := s.Points(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, pair := range s.Along(points, s.Contrasts[1]) {
		found = append(found, pair[0].ID(s.Variables)+" by "+pair[1].ID(s.Variables))
	}
	slices.Sort(found)
	want := []string{
		"ranks=2,hosts=1,case=large.cfg by ranks=1,hosts=1,case=large.cfg", "ranks=2,hosts=1,case=small.cfg by ranks=1,hosts=1,case=small.cfg",
		"ranks=4,hosts=2,case=large.cfg by ranks=1,hosts=1,case=large.cfg", "ranks=4,hosts=2,case=small.cfg by ranks=1,hosts=1,case=small.cfg",
	}
	if !slices.Equal(found, want) {
		t.Errorf("compared are %q, expected %q", found, want)
	}
}

// TestSources: what a user gives is built in the job's image, and what stands in for it is
// named otherwise.
func TestSources(t *testing.T) {
	text := strings.NewReplacer("image: i,", "build: {debian: bookworm, packages: [fio]},").Replace(minimal()) +
		"stand_in: another machine\nsources:\n  ior: {about: IOR 4, packages: [make, fio], build: [make, make install], stand_in: fio for IOR}\n  vpic: {about: VPIC, build: [make]}\n"
	s, err := Parse("s.yaml", []byte(text), "/")
	if err != nil {
		t.Fatal(err)
	}
	points, err := s.Points(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Missing(); !core.IsKind(err, core.Invalid) || !strings.Contains(core.Remedy(err), "--source vpic=DIR") || s.StandsIn() != "another machine; fio for IOR" {
		t.Errorf("without sources: %v, %q", err, s.StandsIn())
	}
	if err := s.Give("iro", Given{}); err == nil {
		t.Error("a source that the study does not have is taken")
	}
	if err := errors.Join(s.Give("ior", Given{Path: "/home/ior"}), s.Give("vpic", Given{Path: "/cache/1", Archive: true}), s.Missing()); err != nil || s.StandsIn() != "another machine" {
		t.Errorf("with sources: %v, %q", err, s.StandsIn())
	}
	job, err := s.ComposeJob(&points[0], "rootless")
	if err != nil {
		t.Fatal(err)
	}
	b := job.Build
	if !slices.Equal(b.Packages, []string{"fio", "make"}) || !slices.Equal(b.Copy, []spec.Copy{{From: "/home/ior", To: "/src/ior"}, {From: "/cache/1", To: "/src/vpic.archive"}}) {
		t.Errorf("packages %q, files %v", b.Packages, b.Copy)
	}
	if len(b.Run) != 4 || b.Run[1] != "cd /src/ior\nmake install" || !strings.HasPrefix(b.Run[2], "mkdir -p /src/vpic && tar ") || b.Run[3] != "cd /src/vpic\nmake" {
		t.Errorf("commands %q", b.Run)
	}
	other, err := Parse("s.yaml", []byte(minimal()+"sources: {x: {about: x, build: [make]}}\n"), "/")
	if err == nil {
		err = other.Give("x", Given{Path: "/x"})
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.ComposeJob(&points[0], "rootless"); !core.IsKind(err, core.Invalid) {
		t.Errorf("sources in an image of a registry: %v", err)
	}
}

func TestMistakes(t *testing.T) {
	var refused testkit.ErrorList
	for _, c := range []struct {
		name, text string
		place      string // line:column
	}{
		{"unknown key", minimal("vary:", "varry:"), "3:1"},
		{"unknown key of a job", minimal("image:", "imgae:"), "2:7"},
		{"unknown key of an environment", minimal("rootless: {}", "rootless: {vmm: true}"), "4:54"},
		{"wrong value of an environment", minimal("rootless: {}", "rootless: {nodes: many}"), "4:61"},
		{"wrong value of the job at a point", minimal("image: i", `image: i, nodes: "${n}x"`), "2:24"},
		{"no image", minimal("image: i, ", ""), "4:16"},
		{"pattern without a group", minimal(`(\S+)`, `\S+`), "5:25"},
		{"pattern that is none", minimal(`(\S+)`, `(\S+`), "5:25"},
		{"no direction", minimal(", better: lower", ""), "5:17"},
		{"unknown direction", minimal("better: lower", "better: loewr"), "5:58"},
		{"no unit", minimal(" unit: s,", ""), "5:17"},
		{"variable that no vary has", minimal("${n}", "${m}"), "2:22"},
		{"variable without use", minimal(" ${n}", ""), "3:8"},
		{"baseline that is none", minimal("metrics:", "contrasts: [{vary: environment, against: host}]\nmetrics:"), "5:42"},
		{"no primary metric", minimal("metrics: {", "metrics: {b: {builtin: seconds}, "), "5:1"},
		{"two sources of a metric", minimal("regex:", "jq: .a, regex:"), "5:17"},
		{"jq that is none", minimal(`regex: '^Time: (\S+)'`, `jq: '.a | ('`), "5:22"},
		{"unknown builtin", minimal(`regex: '^Time: (\S+)', unit: s, better: lower`, `builtin: secs`), "5:27"},
		{"reuse for the whole study", minimal("metrics:", "method: {reuse: study}\nmetrics:"), "5:17"},
		{"reuse with a figure of a whole container", minimal("metrics:", "method: {reuse: block}\nmetrics:", `regex: '^Time: (\S+)', unit: s, better: lower`, `builtin: host_cpu`), "6:27"},
		{"reuse with copies", minimal("metrics:", "method: {reuse: block}\ncopies: {count: 2}\nmetrics:"), "6:17"},
		{"reuse with a finding of a whole container", minimal("metrics:", "method: {reuse: block}\nfair: [out-of-cache]\nmetrics:"), "6:8"},
		{"reuse by the dissertation's method", minimal("metrics:", "method: {name: beserra2016, reuse: block}\nmetrics:"), "5:16"},
		{"reuse without a command", minimal("metrics:", "method: {reuse: block}\nmetrics:", `run: "x ${n}"`, `workdir: "/x/${n}"`), "5:17"},
		{"programs of the host in a guest", minimal("runtime: native", "runtime: native, native: host, vm: {memory: 1G}"), "4:50"},
		{"programs of nothing", minimal("runtime: native", "runtime: native, native: site"), "4:50"},
		{"unknown runtime", minimal("runtime: native", "runtime: nativ"), "4:34"},
		{"unknown size", minimal("metrics:", "sizes: {big: {n: [9]}}\nmetrics:"), "5:9"},
		{"zip of two lengths", minimal("n: [1, 2]", "n: [1, 2], m: [1]", "x ${n}", "x ${n} ${m}", "environments:", "zip: [[n, m]]\nenvironments:"), "3:1"},
		{"when that is no truth", minimal("environments:", "when: .n\nenvironments:"), "3:1"},
		{"no baseline at a point", minimal("environments:", "when: '.environment != \"native\"'\nenvironments:"), "4:1"},
		{"blocks that are none", minimal("metrics:", "method: {blocks: 10-32}\nmetrics:"), "5:18"},
		{"share that is none", minimal("metrics:", "method: {margin: five}\nmetrics:"), "5:18"},
		{"compares with less than none", minimal("metrics:", "method: {compare: -1}\nmetrics:"), "5:19"},
		{"claim without a source", minimal("metrics:", "claims: [{environment: rootless, metric: time, says: slower}]\nmetrics:"), "5:10"},
		{"claim of a spread without a bound", minimal("metrics:", "claims: [{environment: rootless, metric: time, says: steady, from: x}]\nmetrics:"), "5:10"},
		{"claim about no environment", minimal("metrics:", "claims: [{environment: rotless, metric: time, says: slower, from: x}]\nmetrics:"), "5:24"},
		{"primary sweep", minimal(`regex: '^Time: (\S+)'`, "table: {columns: [n, s], key: n}, value: s, primary: true"), "5:62"},
		{"too many points", minimal("[1, 2]", "["+strings.Repeat("1, ", 1000)+"2]"), "3:1"},
		{"key given twice", minimal("metrics:", "study: t\nmetrics:"), "5:1"},
		{"source of nothing", minimal("metrics:", "sources: {x: {build: [make]}}\nmetrics:"), "5:11"},
		{"source without a build", minimal("metrics:", "sources: {x: {about: y}}\nmetrics:"), "5:11"},
		{"no study", "{}", "1:1"},
		{"no Beefile", minimal("image: i, ", "file: /nowhere/job.yaml, "), "2:13"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("s.yaml", []byte(c.text), "/")
			all, is := errors.AsType[*spec.Errors](err)
			if !is || !core.IsKind(err, core.Invalid) {
				t.Fatalf("%v", err)
			}
			if !slices.ContainsFunc(all.Problems, func(p spec.Problem) bool { return fmt.Sprintf("%d:%d", p.Line, p.Column) == c.place }) {
				t.Errorf("want a problem at %s, got:\n%v", c.place, err)
			}
			refused.Add(c.name, err)
		})
	}
	refused.Compare(t, "mistakes")
}

// TestAllMistakesAtOnce reports each mistake of a file once, whatever the number of points.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := Parse("s.yaml", []byte(minimal("better: lower", "better: loewr", "rootless: {}", "rootless: {nodes: many}", "image: i", "image: i, retry: -1")), "/")
	all, is := errors.AsType[*spec.Errors](err)
	if !is || len(all.Problems) != 3 {
		t.Errorf("want three problems, got:\n%v", err)
	}
}

// TestJobInAFile takes a Beefile of its own, and places its mistakes by its name.
func TestJobInAFile(t *testing.T) {
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "job.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := minimal("image: i, run: \"x ${n}\"", "file: job.yaml, workdir: /w")
	write("image: i\nrun: x ${n}\nworkdir: /v\n")
	s, err := Parse("s.yaml", []byte(text), dir)
	if err != nil {
		t.Fatal(err)
	}
	points, err := s.Points(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if job, err := s.ComposeJob(&points[1], "rootless"); err != nil || job.Workdir != "/w" || job.Run.Shell != "x 2" {
		t.Errorf("%+v, %v", job, err)
	}
	write("image: i\nrun: x ${n}\nretry: -1\n")
	if _, err := Parse("s.yaml", []byte(text), dir); err == nil || !strings.Contains(err.Error(), "retry: -1 ") {
		t.Errorf("%v", err)
	}
}

func TestExtract(t *testing.T) {
	var refused testkit.ErrorList
	for _, c := range []struct {
		name string
		m    Metric
		text string
		want []Figure
	}{
		{"regex, last match", Metric{Regex: `^Time: (\S+)`}, "Time: 1\nx\nTime: 2.5e1\n", []Figure{{"", 25}}},
		{"regex without a match", Metric{Regex: `^Time: (\S+)`}, "one\ntwo\n", nil},
		{"regex of no number", Metric{Regex: `^Time: (\S+)`}, "Time: NaN\n", nil},
		{"empty output", Metric{Regex: `^Time: (\S+)`}, "\n", nil},
		{"key and value", Metric{KeyValue: `^(\w+)=(\S+)$`, Key: "HPL_Tflops"}, "a=1\nHPL_Tflops=0.012\nb=2\n", []Figure{{"", 0.012}}},
		{"key that is missing", Metric{KeyValue: `^(\w+)=(\S+)$`, Key: "c"}, "a=1\n", nil},
		{"table", Metric{Table: &Table{Columns: []string{"bytes", "mbps"}, Key: "bytes"}, Value: "mbps"}, "# bytes mbps x\nbytes mbps\n1 2\n 64\t3.5\n", []Figure{{"1", 2}, {"64", 3.5}}},
		{"row of a table", Metric{Table: &Table{Columns: []string{"bytes", "mbps"}, Key: "bytes"}, Value: "mbps", At: "64"}, "1 2\n64 3.5\n", []Figure{{"", 3.5}}},
		{"row that is missing", Metric{Table: &Table{Columns: []string{"bytes", "mbps"}, Key: "bytes"}, Value: "mbps", At: "32"}, "1 2\n", nil},
		{"no table", Metric{Table: &Table{Columns: []string{"bytes", "mbps"}, Key: "bytes"}, Value: "mbps"}, "failed\n", nil},
		{"jq", Metric{JQ: `.r[] | select(.a=="w") | .b`}, `{"r":[{"a":"r","b":1},{"a":"w","b":2.5}]}`, []Figure{{"", 2.5}}},
		{"jq of several", Metric{JQ: `.r[]`}, `{"r":[1,2]}`, nil},
		{"jq of a text", Metric{JQ: `.r`}, `{"r":"x"}`, nil},
		{"jq of none", Metric{JQ: `empty`}, `{}`, nil},
		{"jq of no JSON", Metric{JQ: `.r`}, `r=1`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.m.Extract(context.Background(), []byte(c.text))
			if !slices.Equal(got, c.want) || (err == nil) != (c.want != nil) {
				t.Errorf("got %v, %v; want %v", got, err, c.want)
			}
			if err != nil {
				refused.Add(c.name, err)
			}
		})
	}
	refused.Compare(t, "extract")
}

func TestVerify(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Check
		text string
		ok   bool
	}{
		{"pattern", Check{Regex: "^Finished"}, "x\nFinished\n", true},
		{"no pattern", Check{Regex: "^Finished"}, "x\n", false},
		{"number within", Check{JQ: ".e", Equals: "-1234.5", Within: 1e-6}, `{"e":-1234.5005}`, true},
		{"number beyond", Check{JQ: ".e", Equals: "-1234.5", Within: 1e-6}, `{"e":-1234.51}`, false},
		{"number of a pattern", Check{Regex: `E=(\S+)`, Equals: "2"}, "E=2.0", true},
		{"other text", Check{Regex: `E=(\S+)`, Equals: "yes"}, "E=no", false},
		{"truth", Check{JQ: ".ok"}, `{"ok":true}`, true},
		{"no truth", Check{JQ: ".ok"}, `{"ok":false}`, false},
		{"nothing", Check{JQ: ".ok"}, `{}`, false},
	} {
		if err := c.c.Verify(context.Background(), []byte(c.text)); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// FuzzParse gives any text to the parser.
func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add(minimal())
	f.Add(minimal("${n}", "$${n}${n}${", "rootless: {}", "rootless: &a {<<: *a}"))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "file") {
			t.Skip() // no file of this machine is read
		}
		s, err := Parse("f.yaml", []byte(text), "/nowhere")
		if (s == nil) != (err != nil) {
			t.Fatalf("%v, %v", s, err)
		}
	})
}

// FuzzExtract gives any output to the extractors.
func FuzzExtract(f *testing.F) {
	f.Add(`^(\w+)=(\S+)$`, ".a", "a=1\n1 2\n{\"a\":1}")
	f.Fuzz(func(t *testing.T, pattern, expression, text string) {
		if len(pattern)+len(expression) > 200 {
			t.Skip() // long patterns only take time
		}
		for _, m := range []Metric{{Regex: "(" + pattern + ")"}, {KeyValue: "(" + pattern + ")()", Key: "a"}, {JQ: expression}, {Table: &Table{Columns: []string{"a", "b"}, Key: "a"}, Value: "b"}} {
			if m.JQ != "" && strings.ContainsAny(expression, "fruw$*") {
				continue // no loop without an end, and no text without a bound
			}
			figures, err := m.Extract(context.Background(), []byte(text))
			if (err == nil) == (len(figures) == 0) {
				t.Fatalf("%+v: %v, %v", m, figures, err)
			}
		}
	})
}

// TestAStudyFileHasABound: a file without an end is refused at once, as a study and as the
// Beefile of one.
func TestAStudyFileHasABound(t *testing.T) {
	if s, err := Load("/dev/zero"); !core.IsKind(err, core.Invalid) {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := Parse("s.yaml", []byte("study: s\njob: {file: /dev/zero}\n"), "/"); !core.IsKind(err, core.Invalid) || !strings.Contains(err.Error(), "/dev/zero") {
		t.Errorf("%v, %v", s, err)
	}
}
