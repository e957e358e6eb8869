package docs

import (
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// internal are names by which bee starts itself. They have no help.
var internal = map[string]bool{"node": true, "remote": true, "inside": true}

// TestCommandsShownExist finds every `bee` command that a document shows, on a line of
// its own or within a text, and checks its name and flags.
func TestCommandsShownExist(t *testing.T) {
	inLine := regexp.MustCompile(`(?m)(?:^ {4,7}|\b)(bee (?:-|[a-z]).*)$`)
	inText := regexp.MustCompile("`(bee [-a-z][^`]*)`")
	count := 0
	for file, text := range documents(t) {
		if strings.HasPrefix(file, "docs/adr/") || file == "CHANGELOG.md" {
			continue // they describe what was
		}
		var shown []string
		for _, m := range inText.FindAllStringSubmatch(text, -1) {
			shown = append(shown, m[1])
		}
		for line := range strings.Lines(text) {
			if m := inLine.FindStringSubmatch(strings.TrimRight(line, "\n")); m != nil && strings.HasPrefix(line, "    ") {
				shown = append(shown, m[1])
			}
		}
		for _, command := range shown {
			count++
			checkCommand(t, file, command)
		}
	}
	if count < 100 {
		t.Errorf("only %d commands found: are the patterns right?", count)
	}
}

func checkCommand(t *testing.T, file, shown string) {
	t.Helper()
	shown, _, _ = strings.Cut(shown, " # ")
	shown, _, _ = strings.Cut(shown, " > ")
	shown, _, _ = strings.Cut(shown, "|")
	shown, _, _ = strings.Cut(shown, " && ")
	words := strings.Fields(strings.ReplaceAll(shown, "`", ""))[1:]
	if len(words) > 0 && (internal[words[0]] || words[0] == "help") {
		return
	}
	root := cli.Commands()
	command, rest, err := root.Find(words)
	if err != nil || command == root && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		t.Errorf("%s: `%s` is no command (%v)", file, shown, err)
		return
	}
	for _, word := range ours(command, rest) {
		if word == "--" {
			break
		}
		if name, is := strings.CutPrefix(word, "--"); is {
			if name, _, _ = strings.Cut(name, "="); name != "help" && !hasFlag(command, name) {
				t.Errorf("%s: `%s`: %s has no flag --%s", file, shown, command.CommandPath(), name)
			}
		} else if len(word) == 2 && word[0] == '-' {
			if command.Flags().ShorthandLookup(word[1:]) == nil && command.InheritedFlags().ShorthandLookup(word[1:]) == nil && word != "-h" {
				t.Errorf("%s: `%s`: %s has no flag %s", file, shown, command.CommandPath(), word)
			}
		}
	}
}

// ours are the words of a command line that are not those of a program in a container.
func ours(c *cobra.Command, words []string) []string {
	if c.CommandPath() != "bee run" && c.CommandPath() != "bee exec" || c.ParseFlags(words) != nil {
		return words
	}
	args := c.Flags().Args()
	if len(args) < 2 || strings.HasPrefix(args[1], "-") || strings.HasSuffix(args[0], ".yaml") {
		return words
	}
	return words[:len(words)-len(args)]
}

func hasFlag(c *cobra.Command, name string) bool {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags(), c.InheritedFlags()} {
		if set.Lookup(name) != nil {
			return true
		}
	}
	return false
}
