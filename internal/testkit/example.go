package testkit

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Example runs one of examples/ on two emulated hosts, and gives its bee.
func Example(t testing.TB, name string) *Bee {
	t.Helper()
	RequireTool(t, "mmdebstrap")
	b := NewBee(t)
	b.CopyExample(name)
	r := b.Try("--sites", "sites.yaml", "run", filepath.Join(name, "job.yaml"))
	if r.Code != 0 {
		t.Fatalf("%s ended with %d\n%s\n%s", name, r.Code, r.Stdout, r.Stderr)
	}
	var v RunView
	b.JSON(&v, "show", "--json", strings.TrimSpace(b.Must("ps", "-aq")))
	if len(v.Attempts) != 1 || len(v.Attempts[0].Hosts) != 2 {
		t.Errorf("it did not run on two hosts: %+v", v)
	}
	return b
}

// CopyExample puts one of examples/ into the working directory, with its sites.
func (b *Bee) CopyExample(name string) {
	b.t.Helper()
	b.CopyExamples(name, "sites.yaml")
	dir := filepath.Join(b.Work, name)
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != "job.yaml" && e.Name() != "input" { // the outputs of a run here
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// CopyExamples puts parts of examples/ there.
func (b *Bee) CopyExamples(parts ...string) {
	b.t.Helper()
	for _, part := range parts {
		if out, err := exec.Command("cp", "-r", filepath.Join(Root(b.t), "examples", part), b.Work).CombinedOutput(); err != nil {
			b.t.Fatalf("%v: %s", err, out)
		}
	}
}

// Number gives the number that the first group of a pattern matches in a text.
func Number(t testing.TB, text, pattern string) float64 {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("no %q in\n%s", pattern, text)
	}
	x, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return x
}
