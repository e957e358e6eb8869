package topic

import (
	"io"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/output"
)

// mostColumns is the width up to which lines are easy to read.
const mostColumns = 100

// indent is how far text stands in from its headings, and code from its text.
const (
	indent     = 2
	codeIndent = 4
)

// Show writes a page to a screen, in its width. Elsewhere than on a terminal, lines have the usual
// width of one, as those of man(1) do.
func Show(screen *output.Screen, p Page) error {
	_, err := io.WriteString(screen, rendered(screen, p, min(screen.Columns(), mostColumns)))
	return err
}

// rendered returns a page in a width.
func rendered(screen *output.Screen, p Page, width int) string {
	s := sheet{screen: screen, width: width}
	s.put(strong(p.Title))
	var before *Block
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if before == nil || before.Item == "" || b.Item == "" { // items follow each other closely
			s.put("")
		}
		s.block(b)
		before = b
	}
	if len(p.Also) > 0 {
		var commands []string
		for _, t := range p.Also {
			commands = append(commands, s.inline(Text{{Text: "bee help " + t.Name, Code: true}}))
		}
		s.put("")
		s.put(strong("See also"))
		s.put("")
		s.wrapped(indent, "", strings.Join(commands, ", "))
	}
	return s.text.String()
}

// sheet is a page in the making.
type sheet struct {
	screen *output.Screen
	width  int
	text   strings.Builder
}

func (s *sheet) block(b *Block) {
	at := indent * (1 + b.Depth)
	switch {
	case b.Heading > 0:
		for _, line := range wrap(strong(s.inline(b.Text)), s.width-b.Heading) {
			s.put(strings.Repeat(" ", max(b.Heading-2, 0)) + line)
		}
	case b.Code != nil:
		for _, line := range b.Code {
			s.put(strings.Repeat(" ", at+codeIndent) + strings.ReplaceAll(line, "\t", "    "))
		}
	case b.Rows != nil:
		for _, line := range s.table(b.Rows, s.width-at) {
			s.put(strings.Repeat(" ", at) + line)
		}
	case b.Item != "":
		s.wrapped(at-indent, b.Item, s.inline(b.Text))
	default:
		s.wrapped(at, "", s.inline(b.Text))
	}
}

// wrapped writes a text behind a mark of its first line.
func (s *sheet) wrapped(at int, mark, text string) {
	lead := strings.Repeat(" ", at)
	if mark != "" {
		lead += mark + " "
	}
	for _, line := range wrap(text, s.width-len(lead)) {
		s.put(lead + line)
		lead = strings.Repeat(" ", len(lead))
	}
}

// A text has these characters around what is strong until it is written: they take no column. A
// space that does not part words is a no-break space until then.
const (
	on      = "\x0e"
	off     = "\x0f"
	noBreak = "\u00a0"
)

func strong(text string) string {
	return on + strings.NewReplacer(on, "", off, "").Replace(text) + off
}

// longestUnbroken is up to where code stays on one line.
const longestUnbroken = 30

// inline is a text in one line. Code is between backquotes where it cannot be strong.
func (s *sheet) inline(t Text) string {
	var b strings.Builder
	for _, part := range t {
		text := part.Text
		if part.Code && len(text) <= longestUnbroken {
			text = strings.ReplaceAll(text, " ", noBreak)
		}
		switch {
		case part.Code && !s.screen.Colors():
			text = "`" + text + "`"
		case part.Code, part.Strong:
			text = strong(text)
		}
		b.WriteString(text)
	}
	return b.String()
}

// put writes a line.
func (s *sheet) put(line string) {
	line = strings.ReplaceAll(strings.TrimRight(line, " "), noBreak, " ")
	for i, part := range strings.Split(line, on) {
		if i == 0 {
			s.text.WriteString(s.screen.Styled(part, output.Plain))
			continue
		}
		bold, rest, _ := strings.Cut(part, off)
		s.text.WriteString(s.screen.Styled(bold, output.Strong) + s.screen.Styled(rest, output.Plain))
	}
	s.text.WriteString("\n")
}
