package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
)

// A step is one thing that a reader of a page does: save a file, or type a command.
type step struct {
	file, text string // a block with a title
	command    string // an indented line
	seen       string // what the page shows below the command
}

var fence = regexp.MustCompile("^```(\\w*)(?: title=\"([^\"]+)\")?$")

// steps are those of a page, in its order.
func steps(t *testing.T, page string) []step {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", page))
	if err != nil {
		t.Fatal(err)
	}
	all, err := parsePage(string(raw))
	if err != nil {
		t.Fatalf("docs/%s: %v", page, err)
	}
	return all
}

func parsePage(text string) (all []step, err error) {
	var block []string // nil: outside of a fence
	var language, title, indent string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		trimmed := strings.TrimLeft(line, " ")
		m := fence.FindStringSubmatch(trimmed)
		switch {
		case block == nil && m != nil:
			block, language, title, indent = []string{}, m[1], m[2], line[:len(line)-len(trimmed)]
		case block != nil && trimmed == "```":
			content := strings.Join(append(block, ""), "\n")
			last := len(all) - 1
			switch {
			case title != "":
				all = append(all, step{file: title, text: content})
			case language == "text" && (last < 0 || all[last].command == "" || all[last].seen != ""):
				return nil, fmt.Errorf("no command is above what is seen:\n%s", content)
			case language == "text":
				all[last].seen = content
			} // others show a part, which test/docs parses
			block = nil
		case block != nil:
			block = append(block, strings.TrimPrefix(line, indent))
		case strings.HasPrefix(line, "    ") && trimmed != "":
			all = append(all, step{command: trimmed})
		}
	}
	return all, nil
}

// Words of what is seen that are others at each time: ids of runs, digests, durations, dates and times.
var (
	idWord       = regexp.MustCompile(`^[a-z2-7]{8}$`)
	digestWord   = regexp.MustCompile(`^sha256:[0-9a-f]{12,64}$`)
	durationWord = regexp.MustCompile(`^\d+(\.\d+)?(ms|s|m|h)$`)
	dateWord     = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	timeWord     = regexp.MustCompile(`^\d\d:\d\d:\d\d$`)
	word         = regexp.MustCompile(`[^\s,;.()]+(?:\.[^\s,;.()]+)*|\s+|.`)
)

// pattern matches what a page shows: "…" stands for any text of a line, and a line of it alone
// for any lines. Columns may have other widths.
func pattern(seen string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`\A`)
	for line := range strings.Lines(seen) {
		line = strings.TrimRight(line, " \n")
		if line == "…" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		for _, w := range word.FindAllString(line, -1) {
			switch {
			case strings.TrimSpace(w) == "":
				b.WriteString(` +`)
			case idWord.MatchString(w) && strings.ContainsAny(w, "234567"):
				b.WriteString(`[a-z2-7]{8}`)
			case digestWord.MatchString(w):
				b.WriteString(`sha256:[0-9a-f]+`)
			case durationWord.MatchString(w):
				b.WriteString(`\d+(?:\.\d+)?(?:ms|s|m|h)(?: ?\d+s)?`)
			case dateWord.MatchString(w):
				b.WriteString(`\d{4}-\d\d-\d\d`)
			case timeWord.MatchString(w):
				b.WriteString(`\d\d:\d\d:\d\d`)
			default:
				b.WriteString(strings.ReplaceAll(regexp.QuoteMeta(w), "…", ".*"))
			}
		}
		b.WriteString(` *\n`)
	}
	b.WriteString(`\z`)
	return regexp.MustCompile(b.String())
}

// TestWhatIsSeen checks the patterns themselves: a text that differs is found.
func TestWhatIsSeen(t *testing.T) {
	page := "Do:\n\n    bee run job.yaml\n\n```text\nbee: run ll3z4wg7 succeeded after 141ms; results are in ./results.\n…\nid  state   …\n```\n\n1. x\n\n   ```yaml title=\"a.yaml\"\n   run: x\n   ```\n"
	all, err := parsePage(page)
	if err != nil || len(all) != 2 || all[0].command != "bee run job.yaml" || all[1].file != "a.yaml" || all[1].text != "run: x\n" {
		t.Fatalf("%v: %+v", err, all)
	}
	for text, want := range map[string]bool{
		"bee: run abcdefg2 succeeded after 1.2s; results are in ./results.\nid state 17 x\n":          true,
		"bee: run abcdefg2 succeeded after 1.2s; results are in ./results.\nmore\nmore\nid state x\n": true,
		"bee: run abcdefg2 failed after 1.2s; results are in ./results.\nid state x\n":                false,
		"bee: run abcdefg2 succeeded after 1.2s; results are in ./others.\nid state x\n":              false,
		"bee: run abcdefg2 succeeded after 1.2s; results are in ./results.\n":                         false,
		"x\nbee: run abcdefg2 succeeded after 1.2s; results are in ./results.\nid state x\n":          false,
	} {
		if got := pattern(all[0].seen).MatchString(text); got != want {
			t.Errorf("%q: got %v", text, got)
		}
	}
	if _, err := parsePage("```text\nx\n```\n"); err == nil {
		t.Error("what is seen of no command is accepted")
	}
}
