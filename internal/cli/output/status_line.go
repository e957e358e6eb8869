package output

import (
	"fmt"
	"io"

	"github.com/mattn/go-runewidth"
)

// StatusLine is the last line of a terminal, which is written again and again. It never
// takes more than one row when it is written. Where the terminal became narrower since, all
// rows that it takes then are cleared.
type StatusLine struct {
	out io.Writer
	// width is that of the terminal in columns; nil: 80.
	width func() int
	// ascii: the terminal cannot show other characters.
	ascii bool

	shown int // columns of what is shown; 0: nothing is
}

// NewStatusLine returns the status line of a terminal.
func NewStatusLine(w io.Writer) StatusLine {
	l := StatusLine{out: w}
	if IsTerminal(w) {
		l.ascii = !inUTF8()
		l.width = func() int { return columnsOf(w) }
	}
	return l
}

func (l *StatusLine) columns() int {
	if l.width == nil {
		return usualWidth
	}
	if n := l.width(); n > 0 {
		return n
	}
	return usualWidth
}

// Shown reports whether something is shown.
func (l *StatusLine) Shown() bool { return l.shown > 0 }

// Show writes a text in place of what was shown.
func (l *StatusLine) Show(text string) {
	ending := " …"
	if l.ascii {
		ending = " ..."
		text = toASCII(text)
	}
	// The last column stays free, as terminals wrap there at different moments.
	room := l.columns() - 1 - runewidth.StringWidth(ending)
	text = runewidth.Truncate(text, max(room, 0), "") + ending
	fmt.Fprint(l.out, l.clearing()+text)
	l.shown = runewidth.StringWidth(text)
}

// Clear removes what is shown. It reports whether there was something.
func (l *StatusLine) Clear() bool {
	if l.shown == 0 {
		return false
	}
	fmt.Fprint(l.out, l.clearing())
	l.shown = 0
	return true
}

// clearing are the characters that go to the first row of what is shown and clear from
// there on.
func (l *StatusLine) clearing() string {
	if rows := (l.shown - 1) / l.columns(); l.shown > 0 && rows > 0 {
		return fmt.Sprintf("\x1b[%dA\r\x1b[J", rows)
	}
	return "\r\x1b[K"
}
