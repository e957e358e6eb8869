package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/state"
)

// printed calls f and gives what it wrote to standard output.
func printed(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stdout
	os.Stdout = w
	f()
	os.Stdout = old
	w.Close()
	b, _ := io.ReadAll(r)
	return string(b)
}

func TestEmulate(t *testing.T) {
	d := newDesk(t, state.Run{ID: "abc123", Name: "pi", State: state.Running}, state.Run{ID: "xyz123", Name: "over", State: state.Failed})
	scratch, err := os.MkdirTemp("", "bee-cli-") // what is in it may not be for t.TempDir to remove
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fsutil.RemoveAll(scratch) })
	p, err := local.New(local.Settings{Name: "lab", Scratch: scratch, EmulatedHosts: 2, StateDir: filepath.Join(d.dir, "s")})
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "abc123", Attempt: 1}, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, c := range []struct {
		line string
		code int
		out  string
	}{
		{"emulate hosts abc", 0, "lab-1  " + l.Hosts()[1].Addrs[0]},
		{"emulate hosts --json pi", 0, `"name": "lab-1"`},
		{"emulate exec pi lab-1 hostname", 0, "lab-1"},
		{"emulate exec pi lab-0 ls -d /", 0, "/"},
		{"emulate exec abc123 1 false", 1, ""},
		{"emulate exec abc123 1 sh -c exit\t7", 7, ""},
		{"emulate link abc123 1 down", 0, ""},
		{"emulate link abc123 lab-1 up", 0, ""},
		{"emulate kill abc123 1", 0, ""},
		{"emulate hosts over", console.ExitNotFound, ""},
		{"emulate hosts nosuch", console.ExitNotFound, ""},
		{"emulate kill abc123 lab-7", console.ExitNotFound, ""},
		{"emulate kill abc123 7", console.ExitNotFound, ""},
		{"emulate kill abc123 -- -1", console.ExitNotFound, ""},
		{"emulate burn abc123 1", console.ExitInvalid, ""},
		{"emulate link abc123 1 sideways", console.ExitInvalid, ""},
		{"emulate kill abc123", console.ExitInvalid, ""},
		{"emulate", 0, "link"},
	} {
		t.Run(c.line, func(t *testing.T) {
			words := strings.Split(c.line, " ")
			for i, w := range words {
				words[i] = strings.ReplaceAll(w, "\t", " ")
			}
			var err error
			got := printed(t, func() { err = d.bee(words...) })
			code := 0
			if exit, is := errors.AsType[console.Exit](err); is {
				code = int(exit)
			} else if err != nil {
				code = console.CodeOf(err)
			}
			if got += d.out.String(); code != c.code || !strings.Contains(got, c.out) {
				t.Errorf("exit code %d, %v, output %q", code, err, got)
			}
		})
	}
}
