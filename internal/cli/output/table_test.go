package output

import (
	"bytes"
	"errors"
	"testing"
)

func TestNothingBreaksATable(t *testing.T) {
	var out bytes.Buffer
	w := On(&out, Auto).List()
	w.Row("SITE", "NODES", "WHY")
	w.Row("lab\nx", 2, "one\ntwo\n")
	w.Row("\x1b[31mred\tbox", 10, "\u202eback\x00")
	w.Row("rest", 1, "")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	want := "SITE             NODES  WHY\n" +
		"lab; x           2      one\n" +
		"                        two\n" +
		`\x1b[31mred box  10     \u202eback\x00` + "\n" +
		"rest             1\n"
	if out.String() != want {
		t.Errorf("got\n%q\nwant\n%q", out.String(), want)
	}
}

func TestErrorsAreTextOnly(t *testing.T) {
	var out bytes.Buffer
	On(&out, Auto).Error(errors.New("open \x1b]0;title\x07: one\n two"))
	if want := "bee: open \\x1b]0;title\\a: one\n two\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
