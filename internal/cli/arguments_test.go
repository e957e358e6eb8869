package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

// TestWrongArgumentsAreInvalid, and the remedy names the command that helps.
func TestWrongArgumentsAreInvalid(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ line, remedy string }{
		{"nosuch", "`bee --help`"},
		{"stpo", "stop"},
		{"--nosuch", "`bee --help`"},
		{"stop --nosuch", "`bee stop --help`"},
		{"ps --limit x", "`bee ps --help`"},
		{"run -n job.yaml", "`bee run --help`"},
		{"run --wait 5 job.yaml", "`bee run --help`"},
		{"status", " ps or show?"},
		{"top", " stats?"},
		{"sh", "`bee --help`"},
		{"kill pi", " stop?"},
		{"sbatch job.yaml", " run?"},
		{"help nosuch", "`bee help`"},
		{"help image nosuch", "`bee image --help`"},
		{"image nosuch", "`bee image --help`"},
		{"vm image nosuch", "`bee vm image --help`"},
		{"show", "`bee show --help`"},
		{"show a b", "`bee show --help`"},
		{"checkpoint", "`bee checkpoint --help`"},
		{"checkpoint a b", "`bee checkpoint --help`"},
		{"ps -q --json", "`bee ps --help`"},
		{"exec pi", "`bee exec --help`"},
		{"vm shell pi dmesg", "bee vm shell lysozyme 1 -- dmesg"},
		{"vm console pi x", "bee vm console lysozyme 1"},
		{"vm image build --no-proxy localhost", "--proxy"},
		{"vm shell pi 1 dmesg", "bee vm shell lysozyme 1 -- dmesg"},
		{"vm image build --arch mips", "arm64"},
		{"ps pi x", "`bee ps --help`"},
		{"completion bash x", "`bee completion bash --help`"},
		{"schema nosuch", "beefile"},
		{"run " + dir, "Beefile"},
		{"check " + dir, "Beefile"},
		{"convert " + dir, "original"},
	} {
		t.Run(c.line, func(t *testing.T) {
			d := newDesk(t)
			err := d.bee(strings.Fields(c.line)...)
			if strings.Count(core.Remedy(err), " or ") > 1 {
				t.Errorf("the remedy names more commands than meant: %q", core.Remedy(err))
			}
			if console.CodeOf(err) != console.ExitInvalid || !strings.Contains(core.Remedy(err), c.remedy) {
				t.Errorf("got %d, %v, remedy %q; want %q", console.CodeOf(err), err, core.Remedy(err), c.remedy)
			}
		})
	}
}

func TestBeefileThatMayNotBeReadIsInvalid(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	file := filepath.Join(t.TempDir(), "job.yaml")
	if err := os.WriteFile(file, nil, 0o000); err != nil {
		t.Fatal(err)
	}
	if err := newDesk(t).bee("check", file); console.CodeOf(err) != console.ExitInvalid || core.Remedy(err) == "" {
		t.Errorf("got %d, %v", console.CodeOf(err), err)
	}
}

// TestEveryCommandLooksAtItsArguments: cobra lets a command that says nothing
// take any.
func TestEveryCommandLooksAtItsArguments(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Args == nil {
			t.Errorf("%s does not say which arguments it takes", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newApp(nil, nil).newRoot())
}

// TestEveryCommandThatTellsFactsHasJSON: a command is either for scripts, too, or
// has a reason why there is nothing for them.
func TestEveryCommandThatTellsFactsHasJSON(t *testing.T) {
	const acts, others, file = "it does, and tells nothing that a script has not said itself", "what it writes is another program's", "what it writes is a file in a format of its own"
	without := map[string]string{
		"bee emulate link": acts, "bee emulate kill": acts, "bee vm bundle": acts, "bee drive": acts, "bee volume mount": acts, "bee volume umount": acts, "bee volume drain": acts, "bee volume forget": acts, "bee volume recover": acts, "bee cloud image rm": acts,
		"bee exec": others, "bee cp": acts, "bee forward": acts, "bee ssh": others, "bee vm shell": others, "bee vm console": others, "bee emulate exec": others, "bee emulate dial": others,
		"bee convert": file, "bee init": file, "bee schema": file, "bee image save": file, "bee report": file,
		"bee completion bash": file, "bee completion zsh": file, "bee completion fish": file, "bee completion powershell": file,
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		path := c.CommandPath()
		_, excused := without[path]
		delete(without, path)
		if has := c.Flags().Lookup("json") != nil; !c.HasSubCommands() && has == excused {
			t.Errorf("%s: --json %t, on the list of commands without %t", path, has, excused)
		}
	}
	visit(newApp(nil, nil).newRoot())
	if len(without) > 0 {
		t.Errorf("there are no such commands: %v", without)
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	d := newDesk(t)
	if err := d.bee("version"); err != nil {
		t.Fatal(err)
	}
	want := d.out.String()
	if err := d.bee("--version"); err != nil || d.out.String() != want || want == "" {
		t.Errorf("got %q, %v, want %q", d.out.String(), err, want)
	}
}

func TestNothingToRemoveIsTold(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, line := range []string{"sweep", "sweep --dry-run", "image prune"} {
		d := newDesk(t)
		if err := d.bee(strings.Fields(line)...); err != nil || d.out.Len() > 0 || !strings.HasPrefix(d.err.String(), "bee: no") {
			t.Errorf("bee %s: %v, wrote %q and %q", line, err, d.out.String(), d.err.String())
		}
	}
}

func TestFilesForAGuestImageThatAreNotThere(t *testing.T) {
	for _, line := range []string{"--docker-deb nope.deb", "--copy nope:/there", "--script nope"} {
		err := newDesk(t).bee(append([]string{"vm", "image", "build"}, strings.Fields(line)...)...)
		if console.CodeOf(err) != console.ExitNotFound || !strings.Contains(err.Error(), "nope") || strings.Contains(core.Remedy(err), "Beefile") {
			t.Errorf("%s: %d, %v, remedy %q", line, console.CodeOf(err), err, core.Remedy(err))
		}
	}
}
