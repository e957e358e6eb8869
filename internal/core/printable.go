package core

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable gives a text in which nothing but its line breaks does more to a terminal
// than to show, of at most so many bytes: names and messages of others may hold anything.
// A control character is shown as Go writes it.
func Printable(text string, most int) string {
	const cut = " …"
	whole := len(text) <= most
	text = strings.ToValidUTF8(text[:min(len(text), most)], string(unicode.ReplacementChar))
	if whole && len(text) <= most && strings.IndexFunc(text, isControl) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		shown := string(r)
		switch {
		case r == '\t':
			shown = " "
		case isControl(r):
			shown = strings.Trim(strconv.QuoteRune(r), "'")
		}
		if b.Len()+len(shown) > most {
			whole = false
			break
		}
		b.WriteString(shown)
	}
	if whole {
		return b.String()
	}
	clean := b.String()
	end := min(max(most-len(cut), 0), len(clean))
	for end > 0 && end < len(clean) && !utf8.RuneStart(clean[end]) {
		end--
	}
	return clean[:end] + cut[:min(len(cut), most)]
}

// isControl reports whether a character does something to a terminal. Cf has those that
// change the direction in which text is shown.
func isControl(r rune) bool {
	return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == 0x2028 || r == 0x2029
}
