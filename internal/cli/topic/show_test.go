package topic

import (
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/docs"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/mattn/go-runewidth"
)

const sample = "# A page\n\nA *first* paragraph with `bee run`, a [link](../reference/sites.md#scratch),\nan [address](https://example.org/x) and 3 &lt; 4 \\* 5.\n\n" +
	"<!-- a comment -->\n\n## Lists\n\n1. One:\n\n       bee ps | less\n\n2. Two\n   - inner one that is so long that it has to continue on another line of the screen\n   - inner two\n\nEnd.\n\n" +
	"### A table\n\n| key | meaning | default |\n|---|---|---|\n| `a` | one of `x\\|y` | none |\n| `long_key` | what takes more room than a line of the screen has, and so is wrapped there | `0` |\n\n" +
	"| | |\n|---|---|\n| no | head |\n\n```yaml\nkey: value\n\nother: value\n```\n"

func shown(t *testing.T, p Page, columns int, color output.Color) string {
	t.Helper()
	var b strings.Builder
	if err := Show(output.On(&b, color).Within(columns), p); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestPage shows all that pages have, on a screen that is wide and on one that is narrow.
func TestPage(t *testing.T) {
	p := parse([]byte(sample), "how-to/x.md")
	testkit.Golden(t, "wide", shown(t, p, 80, output.Never))
	testkit.Golden(t, "narrow", shown(t, p, 36, output.Never))
	testkit.Golden(t, "color", strings.ReplaceAll(shown(t, p, 60, output.Always), "\x1b", "ESC"))
}

// TestCodeIsBrokenAtItsSpaces where it has no room.
func TestCodeIsBrokenAtItsSpaces(t *testing.T) {
	code := strings.ReplaceAll("`bee logs --failed x`", " ", noBreak)
	for width, want := range map[int]string{10: "use|`bee logs|--failed|x` now", 13: "use|`bee logs|--failed x`|now", 9: "use|`bee logs|--failed|x` now", 30: "use `bee logs --failed x` now"} {
		got := strings.ReplaceAll(strings.Join(wrap("use "+code+" now", width), "|"), noBreak, " ")
		if got != want {
			t.Errorf("%d: %q, want %q", width, got, want)
		}
	}
}

// TestLinksNamePages: topics by their command, other pages by their path, and neither twice.
func TestLinksNamePages(t *testing.T) {
	for source, want := range map[string]string{
		"[exit codes](../reference/exit-codes.md#x)": "exit codes (bee help exit-codes)", "[keys of a beefile](../reference/beefile.md)": "keys of a beefile", "[Slurm](slurm.md)": "Slurm (docs/how-to/slurm.md)",
		"[above](#above)": "above", "[here](x.md#above)": "here", "[one](../../examples/pi/job.yaml)": "one (examples/pi/job.yaml)",
	} {
		if got := parse([]byte(source), "how-to/x.md").Blocks[0].Text.String(); got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}

// TestTopicsFit: each topic fits on screens, and has each word of its page.
func TestTopicsFit(t *testing.T) {
	word := regexp.MustCompile(`[\pL\pN]+`)
	hidden := regexp.MustCompile(`(?s)<!--.*?-->|\]\([^)]*\)|&\w+;|` + "```[^\n]*") // comments, targets of links, kinds and titles of code
	for _, topic := range docs.Topics() {
		p, err := Read(topic)
		if err != nil {
			t.Fatal(err)
		}
		source := markdown(t, topic)
		code := map[string]bool{}
		for _, b := range p.Blocks {
			for _, line := range b.Code {
				code[strings.TrimSpace(line)] = true
			}
		}
		for _, columns := range []int{40, 80} {
			for line := range strings.Lines(shown(t, p, columns, output.Never)) {
				line = strings.TrimRight(line, "\n")
				if runewidth.StringWidth(line) > columns && !code[strings.TrimSpace(line)] {
					t.Errorf("%s: %d of %d columns: %q", topic.Name, runewidth.StringWidth(line), columns, line)
				}
			}
		}
		has := map[string]bool{}
		for _, w := range word.FindAllString(rendered(output.On(io.Discard, output.Never), p, 1<<20), -1) { // which breaks no word
			has[w] = true
		}
		prose := hidden.ReplaceAllString(string(source), " ")
		for _, w := range word.FindAllString(prose, -1) {
			if !has[w] {
				t.Errorf("%s: %q of %s is not shown", topic.Name, w, topic.File)
			}
		}
	}
}
