package testkit

import "testing"

func TestDiffering(t *testing.T) {
	for _, c := range []struct{ want, got, text string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nb\n", "a\nc\n", "From line 2 on, got:\nc\n\nwant:\nb\n"},
		{"", "a\n", "From line 1 on, got:\na\n\nwant:\n"},
		{"a\nb", "a", "From line 2 on, got:\n\nwant:\nb"},
	} {
		if text := differing(c.want, c.got); text != c.text {
			t.Errorf("%q and %q: %q, want %q", c.want, c.got, text, c.text)
		}
	}
}
