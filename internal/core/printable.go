package core

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable makes a text that somebody else has chosen fit for terminals and records: of
// at most so many bytes, in UTF-8, and without control characters other than tabs and
// line ends, and without those that change the direction in which text is shown.
func Printable(text string, most int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == utf8.RuneError || unicode.IsControl(r), r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x2028, r == 0x2029, r == 0x200e, r == 0x200f:
			return unicode.ReplacementChar
		}
		return r
	}, text[:min(len(text), 4*most)]) // a text of megabytes is not looked at as a whole
	if len(clean) <= most {
		return clean
	}
	const cut = " …"
	end := max(most-len(cut), 0)
	for end > 0 && !utf8.RuneStart(clean[end]) {
		end--
	}
	return clean[:end] + cut
}
