package output

import (
	"errors"
	"os"
)

// Color decides whether colours are used. Its zero value is for terminals only. It is the
// value of a flag.
type Color string

// Auto is colours on terminals, unless NO_COLOR is set (https://no-color.org).
const (
	Auto   Color = ""
	Always Color = "always"
	Never  Color = "never"
)

// Set implements pflag.Value.
func (c *Color) Set(word string) error {
	switch Color(word) {
	case "auto":
		*c = Auto
	case Always, Never:
		*c = Color(word)
	default:
		return errors.New("expected auto, always or never")
	}
	return nil
}

func (c *Color) String() string {
	if *c == Auto {
		return "auto"
	}
	return string(*c)
}

// Type implements pflag.Value.
func (c *Color) Type() string { return "mode" }

func (c Color) on(smart bool) bool {
	switch c {
	case Always:
		return true
	case Never:
		return false
	}
	return smart && os.Getenv("NO_COLOR") == ""
}

// Style is how a text looks: the parameters of SGR (ECMA-48), or "".
type Style string

// The styles. Each has a meaning, which the text has in words as well.
const (
	Plain Style = ""
	Good  Style = "32"
	Bad   Style = "31"
	Busy  Style = "36"
	Wait  Style = "33"
	Faint Style = "2"
	// Strong is for headings, and for what is typed as it is written.
	Strong Style = "1"
)

// Colors reports whether the stream shows styles.
func (s *Screen) Colors() bool { return s.color }

// Styled returns a text in a style, as the stream can show both.
func (s *Screen) Styled(text string, style Style) string { return s.paint(s.text(text), style) }

func (s *Screen) paint(text string, style Style) string {
	if !s.color || style == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(style) + "m" + text + "\x1b[0m"
}
