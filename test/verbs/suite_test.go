package verbs

import (
	"archive/tar"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// suite is where hack/deps.sh puts rdma-core's tests of pyverbs.
const suite = "/usr/local/share/bee-test/pyverbs"

// listed is the version of python3-pyverbs that pyverbs.txt is about.
const listed = "44.0"

// expectation is a line of pyverbs.txt.
type expectation struct {
	pattern, reason string
	used            bool
}

// passes reports whether the test has to pass; the others may be skipped.
func (e *expectation) passes() bool { return e.reason == "" }

// expectations reads pyverbs.txt.
func expectations(t *testing.T) []*expectation {
	raw, err := os.ReadFile("pyverbs.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []*expectation
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, reason, _ := strings.Cut(line, " ")
		e := &expectation{pattern: pattern, reason: strings.TrimSpace(reason)}
		if _, err := path.Match(pattern, ""); err != nil || !e.passes() && !strings.HasPrefix(e.reason, "device: ") && !strings.HasPrefix(e.reason, "host: ") {
			t.Fatalf("a line of pyverbs.txt is neither a name nor a pattern with its reason: %q", line)
		}
		list = append(list, e)
	}
	return list
}

// find returns the line for a test: that of its name, or else the first pattern.
func find(list []*expectation, name string) (found *expectation) {
	for _, e := range list {
		if e.pattern == name {
			return e
		}
		if is, _ := path.Match(e.pattern, name); is && found == nil {
			found = e
		}
	}
	return found
}

// thisMachine is an image that has this machine's /usr, by a mount.
func thisMachine(t *testing.T) string {
	t.Helper()
	l := testkit.NewLayer(t)
	for _, dir := range []string{"usr", "tmp", "root", "dev", "proc", "sys", "etc", "programs"} {
		l.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		if _, err := os.Stat("/usr/" + dir); err == nil {
			l.Link(dir, "usr/"+dir)
		}
	}
	return l.Archive("docker.io/test/machine:1", v1.Config{Env: []string{"PATH=/usr/bin"}})
}

// TestPyverbs: rdma-core's own tests pass in a container of BEE, as pyverbs.txt has it.
func TestPyverbs(t *testing.T) {
	testkit.AsRootToo(t)
	if version, err := os.ReadFile(filepath.Join(suite, "version")); err != nil {
		testkit.Missing(t, "the tests of python3-pyverbs are not installed: %v", err)
	} else if !strings.HasPrefix(string(version), listed) {
		testkit.Missing(t, "python3-pyverbs has version %s, and pyverbs.txt is about %s", version, listed)
	}
	b, list := testkit.NewBee(t), expectations(t)
	job := b.File("job.yaml", fmt.Sprintf(`name: pyverbs
image: docker-archive:%s
rdma: bee
mounts:
  - {from: /usr, to: /usr}
  - {from: %q, to: /programs}
run: /usr/bin/python3 /programs/suite.py %s
`, thisMachine(t), filepath.Join(testkit.Root(t), "test/verbs/programs"), suite))
	r := b.Try("run", "-q", job)
	if r.Code != 0 {
		t.Errorf("the suite: %+v", r)
	}
	passed := 0
	for line := range strings.Lines(r.Stdout) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		how, why, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(name, "tests.") {
			continue // what a test prints by itself
		}
		e := find(list, name)
		if e == nil {
			t.Errorf("%s is not in pyverbs.txt: it has %s: %s", name, how, why)
			continue
		}
		e.used = true
		switch {
		case how == "passed":
			passed++
			if strings.HasPrefix(e.reason, "device: ") {
				t.Errorf("%s passes, in spite of %q", name, e.reason)
			}
		case how != "skipped" || e.passes():
			t.Errorf("%s has %s: %s", name, how, why)
		}
	}
	for _, e := range list {
		if !e.used {
			t.Errorf("no test of the suite is %s", e.pattern)
		}
	}
	t.Logf("%d tests passed", passed)
	b.CheckNothingLeft(30 * time.Second)
}
