package nodecmd

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
)

func TestFlagsOfExec(t *testing.T) {
	for line, want := range map[string]string{
		"pi ls -l":                    "pi ls -l",
		"pi -- ls -l":                 "pi ls -l",
		"-it pi bash":                 "pi bash",
		"pi --node 1 -- top -b":       "pi top -b",
		"pi -t bash -i":               "pi bash -i",
		"--node 1 pi top --node 2 -b": "pi top --node 2 -b",
	} {
		a := New(workspace.New(&strings.Builder{}, &strings.Builder{}, ""))
		c := a.ExecCommand()
		if err := c.ParseFlags(strings.Fields(line)); err != nil {
			t.Fatal(err)
		}
		got, err := afterRun(c, c.Flags().Args())
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v; expected %q", line, got, err, want)
		}
	}
	a := New(workspace.New(&strings.Builder{}, &strings.Builder{}, ""))
	c := a.ExecCommand()
	if err := c.ParseFlags([]string{"pi", "--node", "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := afterRun(c, c.Flags().Args()); console.CodeOf(err) != console.ExitInvalid {
		t.Errorf("without a command: %v", err)
	}
}
