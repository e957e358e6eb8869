package docs

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli"
	"mvdan.cc/sh/v3/syntax"
)

// TestCommandLinesParse reads each line of commands that a document shows as a shell does, and the
// flags and arguments of each bee in it as bee does.
func TestCommandLinesParse(t *testing.T) {
	count := 0
	for file, text := range documents(t) {
		if strings.HasPrefix(file, "docs/adr/") || file == "CHANGELOG.md" {
			continue // they describe what was
		}
		fenced := false
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced || !strings.HasPrefix(line, "    ") || !strings.Contains(" "+strings.TrimSpace(line), " bee ") {
				continue
			}
			calls, err := callsOfBee(line)
			if err != nil {
				t.Errorf("%s: %s: %v", file, strings.TrimSpace(line), err)
			}
			for _, words := range calls {
				count++
				if err := parses(words); err != nil {
					t.Errorf("%s: bee %s: %v", file, strings.Join(words, " "), err)
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("only %d commands were found", count)
	}
}

// callsOfBee are the words behind each bee on a line of a shell.
func callsOfBee(line string) (calls [][]string, err error) {
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if call, is := n.(*syntax.CallExpr); is {
			var words []string
			for _, w := range call.Args {
				words = append(words, wordText(w.Parts))
			}
			if at := slices.Index(words, "bee"); at >= 0 { // behind salloc, for one
				calls = append(calls, words[at+1:])
			}
		}
		return true
	})
	return calls, nil
}

// wordText is a word without its quotes; what the shell would put into it is an x.
func wordText(parts []syntax.WordPart) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(p.Value, `\`, ""))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			b.WriteString(wordText(p.Parts))
		default:
			b.WriteString("x")
		}
	}
	return b.String()
}

// parses has the command line of bee parse words.
func parses(words []string) error {
	root := cli.Commands()
	if len(words) == 0 || internal[words[0]] || words[0] == "help" {
		return nil
	}
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	args := c.Flags().Args()
	if c.CommandPath() == "bee run" && len(args) > 0 && (args[0] == "-" || strings.HasSuffix(args[0], ".yaml")) {
		c.Flags().SetInterspersed(true) // what follows a Beefile are flags
		if err := c.ParseFlags(args[1:]); err != nil {
			return err
		}
		if more := c.Flags().Args(); len(more) > 0 {
			return errors.New(strings.Join(more, " ") + " follows the Beefile")
		}
		return nil
	}
	return c.ValidateArgs(args)
}
