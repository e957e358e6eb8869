package output

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

func TestAStatusLineTakesOneRow(t *testing.T) {
	for _, columns := range []int{1, 10, 40, 80, 200} {
		for _, text := range []string{"short", strings.Repeat("bringing image there ", 20), strings.Repeat("世界", 60)} {
			for _, ascii := range []bool{false, true} {
				var out strings.Builder
				l := StatusLine{out: &out, width: func() int { return columns }, ascii: ascii}
				l.Show(text)
				shown := strings.TrimPrefix(out.String(), "\r\x1b[K")
				if got := runewidth.StringWidth(shown); got >= columns && columns > 4 {
					t.Errorf("%d columns of %d: %q", got, columns, shown)
				}
				if ascii && strings.ContainsFunc(shown, func(r rune) bool { return r > 126 }) {
					t.Errorf("not ASCII: %q", shown)
				}
			}
		}
	}
}

// TestANarrowedTerminalIsCleared: the row became several.
func TestANarrowedTerminalIsCleared(t *testing.T) {
	var out strings.Builder
	columns := 100
	l := StatusLine{out: &out, width: func() int { return columns }}
	l.Show(strings.Repeat("x", 200)) // 99 columns
	columns = 40
	out.Reset()
	l.Show("next")
	if got := out.String(); got != "\x1b[2A\r\x1b[Jnext …" {
		t.Errorf("cleared by %q", got)
	}
	out.Reset()
	if !l.Clear() || l.Clear() || out.String() != "\r\x1b[K" {
		t.Errorf("cleared by %q", out.String())
	}
}
