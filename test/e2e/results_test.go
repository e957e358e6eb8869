package e2e

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// junitSuite is what tests read of JUnit's XML.
type junitSuite struct {
	Name   string `xml:"name,attr"`
	Tests  int    `xml:"tests,attr"`
	Failed int    `xml:"failures,attr"`
	Errors int    `xml:"errors,attr"`
	Cases  []struct {
		Name    string    `xml:"name,attr"`
		Failure *struct{} `xml:"failure"`
		Error   *struct{} `xml:"error"`
		Skipped *struct{} `xml:"skipped"`
		Out     string    `xml:"system-out"`
	} `xml:"testcase"`
}

func readJUnit(t *testing.T, b *testkit.Bee, name string) junitSuite {
	t.Helper()
	var v struct {
		Suite junitSuite `xml:"testsuite"`
	}
	if err := xml.Unmarshal([]byte(b.Read(name)), &v); err != nil {
		t.Fatalf("%v in\n%s", err, b.Read(name))
	}
	return v.Suite
}

// TestResults: bee run and bee wait write what became of runs for CI services, and end with the
// same code. Texts of the job are no markup in it.
func TestResults(t *testing.T) {
	b, job := busyboxJob(t, `run: 'echo "]]></system-out><error>evil</error> <script>evil()</script>"; printf "\033[31m\140evil\140\n"; exit 3'`)
	b.Oversubscribe()
	files := []string{"--junit", "results/junit.xml", "--summary", "results/summary.md"}
	run := func(want int, args ...string) {
		t.Helper()
		if r := b.Try(append(args, files...)...); r.Code != want {
			t.Fatalf("%q ended with %+v, want %d", args, r, want)
		}
	}
	if r := b.Try(append(append([]string{"run", "-q"}, files...), job)...); r.Code != 3 || !strings.Contains(r.Stdout, "evil") {
		t.Fatalf("%+v", r)
	}
	v := readJUnit(t, b, "results/junit.xml")
	if v.Name != "small" || v.Tests != 1 || v.Failed != 1 || len(v.Cases) != 1 || v.Cases[0].Failure == nil || !strings.Contains(v.Cases[0].Out, "</system-out><error>evil</error>") || strings.Contains(v.Cases[0].Out, "\x1b") {
		t.Errorf("of a run that failed: %+v", v)
	}
	if summary := b.Read("results/summary.md"); !strings.HasPrefix(summary, "## Run ` small `") || strings.Contains(summary, "\x1b") || !strings.Contains(summary, "evil()") {
		t.Errorf("the summary is\n%s", summary)
	}
	if info, err := os.Stat(filepath.Join(b.Work, "results", "junit.xml")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	run(3, "wait", "small")
	if v := readJUnit(t, b, "results/junit.xml"); v.Failed != 1 {
		t.Errorf("of the wait: %+v", v)
	}
	// What was there of an earlier command is not taken for this one's.
	run(202, "wait", "nothing-of-this-name")
	if v := readJUnit(t, b, "results/junit.xml"); v.Tests != 1 || v.Errors != 1 || v.Cases[0].Error == nil || v.Cases[0].Name != "nothing-of-this-name" {
		t.Errorf("of no run: %+v", v)
	}
	b.File("wrong.yaml", "image: small\nruns: x\n")
	if r := b.Try(append(append([]string{"run"}, files...), "wrong.yaml")...); r.Code != 201 || readJUnit(t, b, "results/junit.xml").Cases[0].Name != "wrong.yaml" {
		t.Errorf("of a wrong Beefile: %+v", r)
	}
	if f := b.Fail("run", "-d", "--junit", "results/junit.xml", job); f.Kind != "invalid" || f.Remedy == "" {
		t.Errorf("with -d: %+v", f)
	}
	b.File("file", "")
	if f := b.Fail("run", "--junit", "file/junit.xml", job); f.Kind != "invalid" || len(strings.Fields(b.Must("ps", "-aq"))) != 1 {
		t.Errorf("where nothing can be written: %+v", f)
	}
}

// TestResultsOfAnArray: each case is a test of its own, and --if-new that starts nothing is one
// that was skipped.
func TestResultsOfAnArray(t *testing.T) {
	b, job := busyboxJob(t, "array: {cases: {seed: [0, 4]}}", "run: 'echo seed ${case.seed}; exit ${case.seed}'")
	b.Oversubscribe()
	if r := b.Try("run", "-q", "--junit", "junit.xml", "--summary", "summary.md", job); r.Code != 4 {
		t.Fatalf("%+v", r)
	}
	v := readJUnit(t, b, "junit.xml")
	if v.Name != "small" || v.Tests != 2 || v.Failed != 1 || v.Cases[0].Name != "case 1 (seed=0)" || v.Cases[0].Failure != nil || v.Cases[1].Failure == nil || v.Cases[1].Out != "seed 4" {
		t.Errorf("%+v", v)
	}
	if summary := b.Read("summary.md"); !strings.Contains(summary, "1 of 2") || !strings.Contains(summary, "case 2 (seed=4)") {
		t.Errorf("the summary is\n%s", summary)
	}
	alone := b.File("alone.yaml", "name: alone\n"+strings.Split(b.Read("job.yaml"), "\n")[1]+"\nrun: 'true'\n")
	for _, skipped := range []bool{false, true} {
		b.Must("run", "-q", "--if-new", "--junit", "junit.xml", alone)
		if v := readJUnit(t, b, "junit.xml"); v.Tests != 1 || (v.Cases[0].Skipped != nil) != skipped {
			t.Errorf("--if-new: %+v, want skipped %v", v, skipped)
		}
	}
}
