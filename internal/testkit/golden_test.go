package testkit

import (
	"maps"
	"path/filepath"
	"testing"
)

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

// TestWordingEntries: what is written is read again, each entry below its own name.
func TestWordingEntries(t *testing.T) {
	file := filepath.Join(t.TempDir(), "testdata", "wording.txt")
	if got, err := readWording(file); err != nil || len(got) > 0 {
		t.Errorf("without a file: %q, %v", got, err)
	}
	want := map[string]string{"TestB/case: two lines": "one\ntwo\n", "TestA: error": "invalid: it is wrong\nremedy: Mend it.\n", "TestC: nothing": ""}
	if err := writeWording(file, want); err != nil {
		t.Fatal(err)
	}
	delete(want, "TestC: nothing") // as one that is not there
	if got, err := readWording(file); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
