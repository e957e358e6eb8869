package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// commandsPage is docs/reference/commands.md.
func commandsPage() string {
	root := newApp(nil, nil).newRoot()
	var b strings.Builder
	b.WriteString("# Commands\n\nAll commands with their flags and an example, made of the program's own help. `bee help COMMAND` prints more.\nRUN is a run's id, the first letters of it, or its name.\nEach command has `--help`, and these flags:\n\n")
	writeFlags(&b, root.PersistentFlags())
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "## %s\n\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID {
				writeCommand(&b, c)
			}
		}
	}
	b.WriteString("## Others\n\n")
	for _, c := range root.Commands() {
		if c.GroupID == "" && c.IsAvailableCommand() {
			writeCommand(&b, c)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func writeCommand(b *strings.Builder, c *cobra.Command) {
	defer func() {
		for _, s := range c.Commands() {
			if s.IsAvailableCommand() {
				writeCommand(b, s)
			}
		}
	}()
	if isGroup(c) {
		return
	}
	fmt.Fprintf(b, "### %s\n\n%s.\n\n", strings.Replace(c.UseLine(), " [flags]", "", 1), c.Short)
	writeFlags(b, c.NonInheritedFlags())
	for line := range strings.Lines(c.Example) {
		b.WriteString("    " + strings.TrimSpace(line) + "\n")
	}
	b.WriteString("\n")
}

func writeFlags(b *strings.Builder, flags *pflag.FlagSet) {
	var rows []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, text := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		if d := f.DefValue; d != "" && d != "false" && d != "[]" && d != "0" && d != "-1" && d != "0s" {
			text += " (default " + d + ")"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", name, strings.ReplaceAll(text, "|", `\|`)))
	})
	if len(rows) > 0 {
		b.WriteString("| flag | meaning |\n|---|---|\n" + strings.Join(rows, "") + "\n")
	}
}

// TestCommandsPage holds docs/reference/commands.md against the program. BEE_TEST_WRITE=1
// writes it.
func TestCommandsPage(t *testing.T) {
	file := filepath.Join(testkit.Root(t), "docs", "reference", "commands.md")
	want := commandsPage()
	if os.Getenv("BEE_TEST_WRITE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	for _, c := range leaves(newApp(nil, nil).newRoot()) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
	}
	if err != nil || string(raw) != want {
		t.Errorf("docs/reference/commands.md is not what the program says (%v): run `BEE_TEST_WRITE=1 go test -run CommandsPage ./internal/cli`", err)
	}
}

// isGroup reports whether a command does nothing but hold others.
func isGroup(c *cobra.Command) bool {
	return c.HasAvailableSubCommands() && !strings.Contains(c.Use, " ")
}

func leaves(c *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	if !isGroup(c) {
		all = append(all, c)
	}
	for _, s := range c.Commands() {
		if s.IsAvailableCommand() {
			all = append(all, leaves(s)...)
		}
	}
	return all
}
