package core

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, größer\tand\nmore":  "plain, größer and\nmore",
		"\x1b]0;title\a\x1b[2J":     `\x1b]0;title\a\x1b[2J`,
		"back\rover \u009b31m \x7f": `back\rover \u009b31m \x7f`,
		"not\xffutf8":               "not\ufffdutf8",
		"\u202etxt\u2066 \u2028nl":  `\u202etxt\u2066 \u2028nl`,
		strings.Repeat("x", 60):     strings.Repeat("x", 46) + " …",
		strings.Repeat("\x1b", 60):  strings.Repeat(`\x1b`, 11) + `\x …`,
	} {
		if got := Printable(in, 50); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[0m\u00e9", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(most%1000, 10)
		got := Printable(text, most)
		if len(got) > most || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\r\a\b\u009b") {
			t.Errorf("%q became %q", text, got)
		}
	})
}
