package local

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// output calls f and gives what it wrote to standard output.
func output(t *testing.T, f func() int) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = w
	code := f()
	os.Stdout = old
	w.Close()
	b, _ := io.ReadAll(r)
	return string(b), code
}

func TestEmulateCommand(t *testing.T) {
	dir := scratch(t)
	t.Setenv("BEE_SCRATCH", dir)
	t.Setenv("BEE_STATE", t.TempDir())
	p := newProvider(t, Settings{Name: "lab", Scratch: dir, EmulatedHosts: 2})
	l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "abc123", Attempt: 1}, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		args string
		code int
		out  string
	}{
		"hosts":        {"hosts abc", 0, "lab-1\t" + l.Hosts()[1].Addrs[0]},
		"exec":         {"exec abc123 lab-1 hostname", 0, "lab-1"},
		"exit code":    {"exec abc123 1 false", 1, ""},
		"cut":          {"link abc123 1 down", 0, ""},
		"heal":         {"link abc123 lab-1 up", 0, ""},
		"kill":         {"kill abc123 1", 0, ""},
		"no run":       {"hosts xyz", 1, ""},
		"no host":      {"kill abc123 lab-7", 1, ""},
		"no such host": {"kill abc123 7", 1, ""},
		"no such verb": {"burn abc123 1", 1, ""},
		"bad state":    {"link abc123 1 sideways", 1, ""},
		"usage":        {"", 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, code := output(t, func() int { return EmulateMain(strings.Fields(c.args)) })
			if code != c.code || !strings.Contains(got, c.out) {
				t.Errorf("exit code %d, output %q", code, got)
			}
		})
	}
}

func TestAnEmptyWordMeansNoEmulatedHosts(t *testing.T) {
	if _, err := openRun(t.Context(), ""); !core.IsKind(err, core.Invalid) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
}
