// Package output writes what people read: tables, messages, errors and the status line. It
// knows terminals, and no run, site or command. Everything that it writes is cleaned here
// from control characters, as names and messages come from jobs, hosts and sites.
package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/term"
)

// Screen is a stream with what it can show.
type Screen struct {
	io.Writer
	// terminal: lines have a most width. Elsewhere nothing is shortened.
	terminal bool
	columns  int
	color    bool
	ascii    bool
}

// On returns what a stream can show. Color decides about colours.
func On(w io.Writer, c Color) *Screen {
	if s, is := w.(*Screen); is {
		return s
	}
	s := &Screen{Writer: w, terminal: IsTerminal(w)}
	if s.terminal {
		s.columns, s.ascii = columnsOf(w), !inUTF8()
	}
	s.color = c.on(s.terminal && IsSmart())
	return s
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(w io.Writer) bool {
	if s, is := w.(*Screen); is {
		return s.terminal
	}
	f, is := w.(*os.File)
	return is && term.IsTerminal(int(f.Fd()))
}

// IsSmart reports whether terminals can move their cursor and show colours.
func IsSmart() bool {
	t := os.Getenv("TERM")
	return t != "dumb" && t != ""
}

const (
	usualWidth  = 80
	usualHeight = 24
)

// columnsOf returns the width of a terminal in columns.
func columnsOf(w io.Writer) int {
	if f, is := w.(*os.File); is {
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	return usualWidth
}

// To returns a screen that shows the same as this one and writes to another stream.
func (s *Screen) To(w io.Writer) *Screen {
	other := *s
	other.Writer = w
	return &other
}

// Columns returns the width of the terminal. Elsewhere it is the usual one.
func (s *Screen) Columns() int {
	if s.columns > 0 {
		return s.columns
	}
	return usualWidth
}

// Within returns a screen that shows the same as this one, in a width.
func (s *Screen) Within(columns int) *Screen {
	other := *s
	other.columns = columns
	return &other
}

// Rows returns the height of the terminal.
func (s *Screen) Rows() int {
	if f, is := s.Writer.(*os.File); is {
		if _, rows, err := term.GetSize(int(f.Fd())); err == nil && rows > 0 {
			return rows
		}
	}
	return usualHeight
}

// Terminal reports whether the stream is a terminal.
func (s *Screen) Terminal() bool { return s.terminal }

// Say writes a message on lines of their own. Further lines begin below the first.
func (s *Screen) Say(format string, args ...any) { s.message("", format, args...) }

// SayBelow writes a line that belongs to the message before.
func (s *Screen) SayBelow(format string, args ...any) {
	fmt.Fprintf(s.Writer, "     %s\n", s.text(fmt.Sprintf(format, args...)))
}

func (s *Screen) message(style Style, format string, args ...any) {
	fmt.Fprintf(s.Writer, "%s %s\n", s.paint("bee:", style), s.text(fmt.Sprintf(format, args...)))
}

// Error writes an error and its remedy. What several joined errors have in common is
// written once.
func (s *Screen) Error(err error) {
	printed := map[string]bool{}
	for _, e := range parts(err) {
		text := e.Error()
		if printed[text] {
			continue
		}
		printed[text] = true
		s.message(Bad, "%s", text)
		if remedy := core.Remedy(e); remedy != "" && !printed[remedy] {
			printed[remedy] = true
			s.SayBelow("%s", remedy)
		}
	}
}

// parts are the errors that were joined to one.
func parts(err error) []error {
	joined, is := err.(interface{ Unwrap() []error })
	if !is || fmt.Sprintf("%T", err) != fmt.Sprintf("%T", errors.Join(err)) {
		return []error{err}
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}

// text is a text as the stream can show it.
func (s *Screen) text(text string) string {
	text = Printable(text)
	if s.ascii {
		text = toASCII(text)
	}
	return text
}

// maxText bounds a text, in bytes.
const maxText = 1 << 20

// Printable returns a text in which nothing but its line breaks does more to a terminal than
// to show.
func Printable(text string) string { return core.Printable(text, maxText) }

// inUTF8 reports whether the locale has all characters (locale(7)).
func inUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(v)
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}

// toASCII replaces characters that a terminal without UTF-8 cannot show.
func toASCII(text string) string {
	text = strings.NewReplacer("→", "->", "…", "...", "–", "-", "—", "-", "×", "x", "“", `"`, "”", `"`, "’", "'").Replace(text)
	return strings.Map(func(r rune) rune {
		if r > 126 {
			return '?'
		}
		return r
	}, text)
}
