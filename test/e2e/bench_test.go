package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

type benchReport struct {
	Sentences []string `json:"sentences"`
	Result    struct {
		Blocks    int `json:"blocks"`
		Contrasts []struct {
			Environment string `json:"environment"`
			Metric      string `json:"metric"`
			Finding     struct {
				Verdict  string  `json:"verdict"`
				Estimate float64 `json:"estimate"`
			} `json:"finding"`
		} `json:"contrasts"`
		Failed []struct {
			Environment string `json:"environment"`
			Reason      string `json:"reason"`
		} `json:"failed"`
	} `json:"result"`
}

// handicapStudy is a study of a shell that counts, with an environment that counts further than
// the others.
func handicapStudy(t *testing.T, image string, steps, handicap int) string {
	t.Helper()
	return fmt.Sprintf(`study: handicap
job: {image: "docker-archive:%s", run: "i=0; while [ $i -lt $STEPS ]; do i=$((i+1)); done; echo counted $i", env: {STEPS: "%d"}, workdir: /work}
environments:
  plain: {runtime: rootless}
  equal: {runtime: rootless}
  handicap: {runtime: rootless, env: {STEPS: "%d"}}
  other: {runtime: rootless, only_named: true, bee: %q, env: {STEPS: "400000"}}
  apptainer: {runtime: apptainer}
metrics: {cpu: {builtin: host_cpu, primary: true}, start: {builtin: start_seconds}}
check: [{regex: '^counted [0-9]+$'}]
method: {blocks: 10}
`, image, steps, handicap, testkit.Binary(t))
}

// TestBenchFindsAHandicap measures an environment against itself, and against one that has
// more to compute; a runtime that is not there loses its column.
func TestBenchFindsAHandicap(t *testing.T) {
	t.Parallel()
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	study := func(steps int) string { return handicapStudy(t, image, 40000, steps) }
	file := bee.File("study.yaml", study(80000))
	out := filepath.Join(bee.Dir, "out")
	var r benchReport
	bee.JSON(&r, "bench", "run", "--wait", "0s", file, "-o", out, "--json")
	verdicts, estimates := map[string]string{}, map[string]float64{}
	for _, c := range r.Result.Contrasts {
		if c.Metric == "cpu" {
			verdicts[c.Environment], estimates[c.Environment] = c.Finding.Verdict, c.Finding.Estimate
		}
	}
	if verdicts["handicap"] != "slower" {
		t.Errorf("twice the work is %q, expected slower: %q", verdicts["handicap"], r.Sentences)
	}
	if math.Abs(estimates["equal"]) > 0.2 || estimates["handicap"] < estimates["equal"]+0.1 {
		t.Errorf("estimates %v", estimates)
	}
	if len(r.Result.Failed) != 1 || r.Result.Failed[0].Environment != "apptainer" || r.Result.Failed[0].Reason == "" {
		t.Errorf("left out: %+v, expected apptainer with a reason", r.Result.Failed)
	}
	if r.Result.Blocks != 10 {
		t.Errorf("%d blocks, expected 10", r.Result.Blocks)
	}
	page, err := os.ReadFile(filepath.Join(out, "report.html"))
	if err != nil || !strings.Contains(string(page), "handicap") {
		t.Errorf("the page: %v", err)
	}
	if text := bee.Must("bench", "report", out); !strings.Contains(text, "handicap: cpu slower by") {
		t.Errorf("bench report: %s", text)
	}
	if left := bee.Must("ps", "-a"); strings.Contains(left, "handicap") {
		t.Errorf("runs of measurements are left:\n%s", left)
	}

	t.Run("plan", func(t *testing.T) {
		var p struct {
			Baseline     string `json:"baseline"`
			Environments []struct {
				Name    string `json:"name"`
				Dropped string `json:"dropped"`
			} `json:"environments"`
		}
		bee.JSON(&p, "bench", "plan", file, "--json")
		if p.Baseline != "plain" || len(p.Environments) != 4 || p.Environments[3].Dropped == "" || p.Environments[1].Dropped != "" {
			t.Errorf("the plan is %+v", p)
		}
		one := bee.File("one.yaml", strings.Replace(study(80000), "method: {", "method: {compare: 1, ", 1))
		p.Environments = nil
		bee.JSON(&p, "bench", "plan", one, "--json")
		if len(p.Environments) != 4 || p.Environments[0].Dropped != "" || p.Environments[1].Dropped != "" || p.Environments[2].Dropped == "" {
			t.Errorf("the plan with one environment to compare is %+v", p)
		}
		p.Environments = nil
		bee.JSON(&p, "bench", "plan", one, "--env", "equal,handicap", "--json")
		if len(p.Environments) != 3 || p.Environments[2].Dropped != "" {
			t.Errorf("the plan with two that are named is %+v", p)
		}
	})
	t.Run("calibrate and compare", func(t *testing.T) {
		var c struct {
			Environment string `json:"environment"`
			Figures     []struct {
				Metric string   `json:"metric"`
				Margin *float64 `json:"margin"`
			} `json:"figures"`
		}
		calibrated := filepath.Join(bee.Dir, "calibrated")
		bee.JSON(&c, "bench", "calibrate", "--wait", "0s", file, "--blocks", "6", "-o", calibrated, "--json")
		if c.Environment != "plain" || len(c.Figures) != 1 || c.Figures[0].Metric != "cpu" || c.Figures[0].Margin == nil {
			t.Errorf("calibrated: %+v", c)
		}
		if got := bee.Try("bench", "compare", out, out, "--fail-on", "slower"); got.Code != 209 {
			t.Errorf("a comparison that decides nothing ends with %d, expected 209:\n%s", got.Code, got.Stderr)
		}
		bee.Must("bench", "compare", out, out, "--fail-on", "slower", "--allow-undecided")
		if got := bee.Must("bench", "compare", out, calibrated); !strings.Contains(got, "cpu") {
			t.Errorf("bench compare: %s", got)
		}
	})
	t.Run("resume refuses another job", func(t *testing.T) {
		few := filepath.Join(bee.Dir, "named")
		bee.File("named.yaml", fmt.Sprintf("image: \"docker-archive:%s\"\nrun: echo counted 1\nworkdir: /work\n", image))
		named := bee.File("named-study.yaml", "study: named\njob: {file: named.yaml}\nenvironments: {plain: {runtime: rootless}, equal: {runtime: rootless, site: lab}}\nmetrics: {cpu: {builtin: host_cpu}}\nmethod: {blocks: 1}\n")
		if got := bee.Try("bench", "run", "--wait", "0s", named, "-o", few, "--map", "cloud=local"); got.Code != 201 {
			t.Errorf("a site that the study does not have is replaced: %d\n%s", got.Code, got.Stderr)
		}
		bee.Must("bench", "run", "--wait", "0s", named, "-o", few, "--site", "local", "--map", "lab=local")
		if text := bee.Must("bench", "report", few, "--markdown"); !regexp.MustCompile(`\blocal\b.*\blab\b`).MatchString(text) {
			t.Errorf("the report conceals the other site: %s", text)
		}
		bee.Must("bench", "resume", "--wait", "0s", few)
		bee.File("named.yaml", fmt.Sprintf("image: \"docker-archive:%s\"\nrun: echo counted 2\nworkdir: /work\n", image))
		if got := bee.Try("bench", "resume", "--wait", "0s", few); got.Code != 201 || !strings.Contains(got.Stderr, "began: run") {
			t.Errorf("a study with another job is resumed: %d\n%s", got.Code, got.Stderr)
		}
	})
	t.Run("gate", func(t *testing.T) {
		gated := filepath.Join(bee.Dir, "gated")
		if got := bee.Try("bench", "run", "--wait", "0s", file, "-o", gated, "--env", "handicap", "--blocks", "7", "--fail-on", "slower"); got.Code != 208 {
			t.Errorf("a gate with a handicap ends with %d, expected 208:\n%s", got.Code, got.Stderr)
		}
		slow := bee.File("slow.yaml", strings.ReplaceAll(study(80000), "40000", "120000"))
		if got := bee.Try("bench", "run", "--wait", "0s", slow, "-o", gated+"2", "--env", "equal", "--blocks", "7", "--baseline", gated); got.Code != 201 || !strings.Contains(got.Stderr, "differ") {
			t.Errorf("former results of another job are compared: %d\n%s", got.Code, got.Stderr)
		}
		few := filepath.Join(bee.Dir, "few")
		if got := bee.Try("bench", "run", "--wait", "0s", file, "-o", few, "--env", "equal", "--blocks", "2", "--fail-on", "slower", "--baseline", out, "--json"); got.Code != 209 || !strings.Contains(got.Stdout, `"comparison"`) {
			t.Errorf("a gate without verdict ends with %d, expected 209:\n%s", got.Code, got.Stderr)
		}
	})
	t.Run("another bee", func(t *testing.T) {
		other := filepath.Join(bee.Dir, "other")
		bee.Must("bench", "run", "--wait", "0s", file, "-o", other, "--env", "other", "--blocks", "1")
		rows := rowsOf(t, other, "other")
		if len(rows) != 2 {
			t.Fatalf("%d measurements, expected 2", len(rows))
		}
		seen := 0 // looks become rare, and a busy host may start a job between two
		for _, row := range rows {
			if row.Status != "ok" || row.Runtime != "rootless" || len(row.Metrics["cpu"]) != 1 {
				t.Errorf("%s %s: %+v", row.Status, row.Error, row)
			}
			seen += len(row.Programs)
		}
		if seen == 0 {
			t.Error("no program of the other bee's jobs was seen")
		}
		raw, err := os.ReadFile(filepath.Join(other, "plan.json"))
		if err != nil || !strings.Contains(string(raw), `"bee": "bee `) {
			t.Errorf("the plan has no version of the other bee (%v)", err)
		}
	})
	t.Run("a wrong answer is a failure", func(t *testing.T) {
		wrong := bee.File("wrong.yaml", strings.Replace(study(1), "counted [0-9]+$", "counted 80000$", 1))
		results := filepath.Join(bee.Dir, "wrong")
		got := bee.Try("bench", "run", "--wait", "0s", wrong, "-o", results, "--env", "equal", "--fail-on", "failed")
		isRight := func(r benchRow) bool { return r.Status != "failed" || !strings.Contains(r.Error, "answer") }
		if rows := rowsOf(t, results, "equal"); got.Code != 200 || len(rows) == 0 || slices.ContainsFunc(rows, isRight) {
			t.Errorf("a study with wrong answers ends with %d, expected 200:\n%s\n%s", got.Code, got.Stdout, got.Stderr)
		}
	})
}

// TestBenchFindsATenthEachTime has twenty gates with a tenth more to compute, and twenty with the
// same. Power and chance are those of the simulated studies of internal/bench/stats.
func TestBenchFindsATenthEachTime(t *testing.T) {
	testkit.Long(t, "TestGateOnSimulatedStudies of internal/cli/benchcmd")
	bee := testkit.NewBee(t)
	file := bee.File("study.yaml", handicapStudy(t, testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}}), 300_000, 330_000))
	const (
		times     = 20
		undecided = 1 // of the gates with a tenth more: each finds it in 98 of 100 at least
		byChance  = 4 // of those with the same: more than four of twenty have a chance of 1 in 150
	)
	codes := map[string]map[int]int{"handicap": {}, "equal": {}}
	for n := range times {
		for environment := range codes {
			out := filepath.Join(bee.Dir, fmt.Sprint(environment, n))
			got := bee.Try("bench", "run", "--wait", "0s", file, "-o", out, "--env", environment, "--blocks", "20", "--fail-on", "slower")
			codes[environment][got.Code]++
			t.Logf("gate %d, %s, ends with %d:\n%s", n, environment, got.Code, got.Stdout)
		}
	}
	const slower, open = 208, 209
	if found := codes["handicap"]; found[slower]+found[open] != times || found[open] > undecided {
		t.Errorf("gates with a tenth more end with %v, expected 208", found)
	}
	if found := codes["equal"]; found[0]+found[slower]+found[open] != times || found[slower] > byChance {
		t.Errorf("gates with the same end with %v, expected 208 at most %d times", found, byChance)
	}
}

// TestBenchOfAJob measures a Beefile as it is.
func TestBenchOfAJob(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	job := bee.File("job.yaml", "image: docker-archive:"+image+"\nrun: \"echo speed 5\"\nworkdir: /work\n")
	got := bee.Try("bench", "run", "--wait", "0s", "--job", job, "--metric", `speed=regex:^speed (\S+)`, "--better", "higher", "--env", "rootless,charliecloud", "--blocks", "7", "-o", filepath.Join(bee.Dir, "out"))
	if got.Code != 0 {
		t.Fatalf("bench run --job ends with %d:\n%s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	var plan struct {
		Baseline string `json:"baseline"`
	}
	raw, err := os.ReadFile(filepath.Join(bee.Dir, "out", "plan.json"))
	if err == nil {
		err = json.Unmarshal(raw, &plan)
	}
	if err != nil || plan.Baseline != "native" {
		t.Errorf("the baseline is %q, %v; expected native", plan.Baseline, err)
	}
	want := "native"
	if os.Geteuid() != 0 {
		want = "native-loader"
	}
	if got := rowsOf(t, filepath.Join(bee.Dir, "out"), "native"); len(got) == 0 || got[0].Runtime != want {
		t.Errorf("native was measured as %+v, expected by %s", got, want)
	}
}

// TestBenchOfColdFiles drops a file from memory in a container and on the bare host, and flags
// what stays there.
func TestBenchOfColdFiles(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	file := bee.File("cold.yaml", fmt.Sprintf(`study: cold
job: {image: "docker-archive:%s", workdir: /work, run: 'head -c 1000000 /dev/zero > $DIR/file && "$BEE_PROGRAM" inside cold $DIR/file && rm $DIR/file', env: {DIR: .}}
environments: {native: {runtime: native}, rootless: {runtime: rootless}, memory: {runtime: rootless, env: {DIR: /dev/shm}}}
metrics: {cpu: {builtin: host_cpu, primary: true}, energy: {builtin: energy}}
fair: [cold-files]
method: {blocks: 1}
`, image))
	var here struct { // whether files of tests are on a disk
		Cold struct {
			InMemory int `json:"in_memory"`
		} `json:"cold_files"`
	}
	bee.JSON(&here, "inside", "cold", bee.File("here", strings.Repeat("x", 100000)))
	onDisk := here.Cold.InMemory == 0
	out := filepath.Join(bee.Dir, "out")
	bee.Must("bench", "run", "--wait", "0s", file, "-o", out)
	for _, e := range []string{"native", "rootless", "memory"} {
		rows := rowsOf(t, out, e)
		if len(rows) == 0 {
			t.Fatalf("%s was not measured", e)
		}
		for _, row := range rows {
			stayed := slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, "dropped") })
			unknown := slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, "verified") })
			noEnergy := slices.ContainsFunc(row.Flags, func(f string) bool { return strings.Contains(f, "energy") })
			if got := row.Metrics["energy"]; noEnergy != (len(got) == 0) || len(got) == 1 && got[0].Value <= 0 {
				t.Errorf("%s: the energy is %v, flags %q; expected joules, or else a reason", e, got, row.Flags)
			}
			if row.Status != "ok" || stayed != (e == "memory" || !onDisk) || unknown {
				t.Errorf("%s: %s %s, flags %q", e, row.Status, row.Error, row.Flags)
			}
		}
	}
}

// TestBenchOfTheHost measures programs that the host has installed, MPI among them, beside
// those of an image. One that the host lacks costs the column, with the reason and a remedy.
func TestBenchOfTheHost(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	mpirun := testkit.RequireTool(t, "mpirun")
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}, Entrypoint: []string{"/bin/sh", "-c", "exit 9"}, WorkingDir: "/of-the-image"})
	bee.File("input/step.sh", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo counted $i\n")
	file := bee.File("host.yaml", fmt.Sprintf(`study: host
job: {image: "docker-archive:%s", inputs: [{from: ./input, to: /work}], workdir: /work, run: [sh, step.sh]}
environments:
  native: {runtime: native, entrypoint: []}
  host: {runtime: native, native: host}
  wanted: {runtime: native, native: host, other_binaries: true, run: [mpirun, -n, "2", --oversubscribe, sh, /work/step.sh]}
  lacking: {runtime: native, native: host, run: "mpirun -n 2 true", env: {PATH: /nowhere}}
metrics: {cpu: {builtin: host_cpu, primary: true}}
check: [{regex: '^counted 20000$'}]
fair: [same-binaries]
method: {blocks: 2}
`, image))
	out := filepath.Join(bee.Dir, "out")
	var r benchReport
	bee.JSON(&r, "bench", "run", "--wait", "0s", file, "-o", out, "--json")
	verdicts := map[string]string{}
	for _, c := range r.Result.Contrasts {
		verdicts[c.Environment] = c.Finding.Verdict
	}
	if verdicts["host"] != "withheld" || verdicts["wanted"] == "withheld" || verdicts["wanted"] == "failed" {
		t.Errorf("the verdicts are %v, expected that of host alone withheld: %q", verdicts, r.Sentences)
	}
	if f := r.Result.Failed; len(f) != 1 || f[0].Environment != "lacking" || !strings.Contains(f[0].Reason, "mpirun") {
		t.Errorf("left out: %+v, expected the environment without mpirun", f)
	}
	seen := map[string]bool{}
	for _, e := range []string{"host", "wanted"} {
		for _, row := range rowsOf(t, out, e) {
			if row.Status != "ok" || row.Runtime != "native-host" || len(row.Foreign) > 0 {
				t.Errorf("%s: %s %s, by %s, foreign %v", e, row.Status, row.Error, row.Runtime, row.Foreign)
			}
			for path := range row.Programs {
				seen[path] = true
			}
		}
	}
	if real, err := filepath.EvalSymlinks(mpirun); err != nil || !seen[real] {
		t.Errorf("the programs that were seen lack %s (%v): %v", real, err, seen)
	}
}

type benchRow struct {
	Point       string            `json:"point"`
	Environment string            `json:"environment"`
	Run         string            `json:"run"`
	Shared      int               `json:"shared"`
	Status      string            `json:"status"`
	Error       string            `json:"error"`
	Runtime     string            `json:"runtime"`
	Site        string            `json:"site"`
	Cores       int               `json:"cores"`
	Programs    map[string]string `json:"programs"`
	Foreign     []string          `json:"foreign"`
	Flags       []string          `json:"flags"`
	Metrics     map[string][]struct {
		Value float64 `json:"value"`
	} `json:"metrics"`
}

// rowsOf are the measurements of an environment in a directory of results.
func rowsOf(t *testing.T, dir, environment string) (rows []benchRow) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "results.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var r benchRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		if r.Environment == environment {
			rows = append(rows, r)
		}
	}
	return rows
}

// TestBenchOfAnMPIJob measures a Beefile whose programs load MPI and Python at run time, as a
// user has it and as root has it, by the image's own paths: on the bare host and in a
// container, by the same files. The image is that of examples.
func TestBenchOfAnMPIJob(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "mmdebstrap")
	bee := testkit.NewBee(t)
	bee.CopyExamples("mpi4py/input")
	job := bee.File("job.yaml", "name: pi\n"+examplesBuild+`
inputs: [{from: ./input, to: /work}]
workdir: /work
run: mpirun -n 2 python3 pi.py && cat pi.txt
`)
	out := filepath.Join(bee.Dir, "out")
	var r benchReport
	bee.JSON(&r, "bench", "run", "--wait", "0s", "--job", job, "--metric", `pi=regex:^pi = (\S+)`, "--env", "rootless", "--blocks", "1", "-o", out, "--json")
	sameFiles(t, out, r.Sentences, "/libmpi.so", "native", "rootless")
}

// sameFiles verifies that all measurements of environments were right, and that what has a
// part in its path was the same file in all.
func sameFiles(t *testing.T, out string, sentences []string, part string, environments ...string) {
	t.Helper()
	sums := map[string]map[string]string{}
	for _, e := range environments {
		sums[e] = map[string]string{}
		for _, row := range rowsOf(t, out, e) {
			if row.Status != "ok" {
				t.Fatalf("%s: %s: %s", e, row.Status, row.Error)
			}
			for file, sum := range row.Programs {
				if strings.Contains(file, part) {
					sums[e][file] = sum
				}
			}
		}
		if len(sums[e]) != 1 || !maps.Equal(sums[e], sums[environments[0]]) {
			t.Errorf("the files %s are %v, expected one and the same: %q", part, sums, sentences)
		}
	}
}

// TestBenchLayers measures the study layers at its smallest: MPI, memory and files, on the
// bare host and in a container, by the same programs. Its long form has the containers of
// others too, and as many blocks as verdicts take.
func TestBenchLayers(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	environments, blocks := []string{"rootless"}, 1
	if testkit.Everything() {
		environments, blocks = []string{"rootless", "docker", "charliecloud"}, 10
		testkit.Docker(t)
	} else {
		t.Parallel()
	}
	bee := testkit.NewBee(t)
	out := filepath.Join(bee.Dir, "out")
	c := bee.Command("bench", "run", "--wait", "0s", "layers", "--size", "smoke", "--blocks", fmt.Sprint(blocks), "--env", strings.Join(environments, ","), "-o", out, "--json")
	var printed strings.Builder
	c.Stderr = &printed
	raw, err := c.Output()
	var r benchReport
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil {
		t.Fatalf("bench run layers: %v\n%s", err, printed.String())
	}
	if r.Result.Blocks != blocks || len(r.Result.Failed) > 0 {
		t.Errorf("%d blocks, expected %d: %q", r.Result.Blocks, blocks, r.Sentences)
	}
	primary := map[string]int{}
	for _, c := range r.Result.Contrasts {
		switch v := c.Finding.Verdict; {
		case v == "exploratory":
			continue
		case blocks == 1 && v != "too few":
			t.Errorf("one block has the verdict %s of %s", v, c.Metric)
		case v == "withheld" || v == "failed":
			t.Errorf("%s of %s is %s: %q", c.Metric, c.Environment, v, r.Sentences)
		}
		primary[c.Environment]++
	}
	all := append([]string{"native"}, environments...)
	for _, e := range environments {
		if primary[e] != 6 {
			t.Errorf("%s has %d primary figures, expected 6", e, primary[e])
		}
	}
	for _, e := range all {
		for _, row := range rowsOf(t, out, e) {
			if row.Status == "ok" && (len(row.Metrics["hpl"]) != 1 || row.Metrics["hpl"][0].Value <= 0) {
				t.Errorf("%s: hpl is %v", e, row.Metrics["hpl"])
			}
			for _, file := range row.Foreign {
				if !strings.Contains(filepath.Base(file), "nss") {
					t.Errorf("%s used %s of the host", e, file)
				}
			}
		}
	}
	sameFiles(t, out, r.Sentences, "/usr/bin/hpcc", all...)
	sameFiles(t, out, r.Sentences, "/libmpi.so", all...)
	sameFiles(t, out, r.Sentences, "/mca_pml_ob1.so", all...) // which the image's settings choose
}

// TestBenchOfSources builds a program from a directory in the study's image, and ends with the
// compiler's lines where that fails. Packages are installed for it, so it is one of long tests.
func TestBenchOfSources(t *testing.T) {
	testkit.Long(t, "TestSources of internal/bench/study")
	testkit.RequireTool(t, "mmdebstrap")
	bee := testkit.NewBee(t)
	bee.File("speed/speed.c", "#include <stdio.h>\nint main(void) { printf(\"speed %d\\n\", SPEED); }\n")
	file := bee.File("sources.yaml", `study: sources
job: {build: {debian: bookworm, slim: true}, workdir: /work, run: /src/speed/speed}
environments: {one: {runtime: rootless}, two: {runtime: rootless}}
sources: {speed: {about: "a program of this test, 1.0", packages: [gcc, libc6-dev], build: ["gcc -DSPEED=5 -o speed speed.c"]}}
metrics: {speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}}
method: {blocks: 1}
`)
	out := filepath.Join(bee.Dir, "out")
	if got := bee.Try("bench", "run", "--wait", "0s", file, "-o", out); got.Code != 201 || !strings.Contains(got.Stderr, "--source speed=DIR") {
		t.Errorf("without the sources: %d\n%s", got.Code, got.Stderr)
	}
	source := "speed=" + filepath.Join(bee.Work, "speed")
	bee.Must("bench", "run", "--wait", "0s", file, "-o", out, "--source", source)
	for _, row := range rowsOf(t, out, "two") {
		if row.Status != "ok" || row.Metrics["speed"][0].Value != 5 {
			t.Errorf("%s %s: %v", row.Status, row.Error, row.Metrics["speed"])
		}
	}
	bee.Must("bench", "resume", "--wait", "0s", out)
	bee.File("speed/speed.c", "int main(void) { return missing; }\n")
	if got := bee.Try("bench", "resume", "--wait", "0s", out); got.Code != 201 {
		t.Errorf("a study is continued with other sources: %d\n%s", got.Code, got.Stderr)
	}
	if got := bee.Try("bench", "run", "--wait", "0s", file, "-o", out+"2", "--source", source); got.Code != 200 || !strings.Contains(got.Stderr, "undeclared") {
		t.Errorf("a build that fails: %d\n%s", got.Code, got.Stderr)
	}
}

// TestBenchCopies measures two instances at once, in one container and in one each.
func TestBenchCopies(t *testing.T) {
	bee := testkit.NewBee(t)
	image := testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin"}})
	file := bee.File("copies.yaml", fmt.Sprintf(`study: copies
job: {image: "docker-archive:%s", workdir: /work, run: "grep ^Cpus_allowed_list: /proc/self/status; echo speed 5"}
environments:
  one: {runtime: rootless}
  two: {runtime: rootless, per_host: 2, limit: {cores: 1}}
copies: {count: 2, metric: sum}
metrics: {speed: {regex: '^speed (\S+)', unit: "1", better: higher, primary: true}}
method: {blocks: 1}
`, image))
	out := filepath.Join(bee.Dir, "out")
	bee.Must("bench", "run", "--wait", "0s", file, "-o", out)
	for _, e := range []string{"one", "two"} {
		rows := rowsOf(t, out, e)
		if len(rows) == 0 {
			t.Fatalf("%s was not measured", e)
		}
		for _, row := range rows {
			if row.Status != "ok" || len(row.Metrics["speed"]) != 3 || row.Metrics["speed"][0].Value != 10 {
				t.Errorf("%s: %s %s, the figures are %v, expected the sum 10 and two of 5", e, row.Status, row.Error, row.Metrics["speed"])
			}
		}
	}
}
