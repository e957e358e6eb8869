package runcmd

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestChosenCases are those that the numbers and ranges of --cases name, in the array's order.
func TestChosenCases(t *testing.T) {
	all := make([]caseSource, 12)
	for i := range all {
		all[i].place.Number = i + 1
	}
	for word, want := range map[string]string{
		"":            "[1 2 3 4 5 6 7 8 9 10 11 12]",
		"3,7-9":       "[3 7 8 9]",
		" 9 , 3-3":    "[3 9]",
		"1-12":        "[1 2 3 4 5 6 7 8 9 10 11 12]",
		"2,2-3,3":     "[2 3]",
		"0":           "",
		"13":          "",
		"7-99999999":  "",
		"9-7":         "",
		"-3":          "",
		"3-":          "",
		"a":           "",
		"3,,4":        "",
		"3;4":         "",
		"1-2-3":       "",
		casesFailed:   "",
		"1" + "e1":    "",
		"0x3":         "",
		"4,failed":    "",
		"99999999999": "",
	} {
		list, err := chosen(all, word, false)
		var numbers []int
		for _, c := range list {
			numbers = append(numbers, c.place.Number)
		}
		if got := fmt.Sprint(numbers); err == nil && got != want || err != nil && (want != "" || !core.IsKind(err, core.Invalid) || core.Remedy(err) == "") {
			t.Errorf("%q: %s, %v; want %s", word, got, err, want)
		}
	}
}

// TestArraysShowWhatEachCaseDoes outside of its directory, and not the first one alone.
func TestArraysShowWhatEachCaseDoes(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	a := recorded(t)
	var said bytes.Buffer
	a.Stderr = &said
	text := "name: m\nimage: x\narray: {cases: {d: [here/a, up/b, up/c]}}\nrun: x\noutputs: [{from: o, to: '" + dir + "/../elsewhere/${case.d}'}]\n"
	from := jobSource{what: "m.yaml", draft: spec.DraftOf("m.yaml", []byte(text), dir)}
	made, err := arrayRunner{a}.submissions(from, casesOf(from), runOptions{pull: "missing", given: func(string) bool { return false }, begins: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Allow("m.yaml", "", made.reaches.list, runOptions{}.trust, false); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"elsewhere/here/a", "elsewhere/up/b", "elsewhere/up/c"} {
		if !strings.Contains(said.String(), place) {
			t.Errorf("nothing is said of %s: %s", place, said.String())
		}
	}
}
