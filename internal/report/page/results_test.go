package page

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// ended are results of an array with one case of each outcome.
func ended() *Results {
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return &Results{Name: "sweep", ID: "bbbb2222", Version: "1", Made: made, Cases: []Result{
		{Name: "case 1 (seed=1)", ID: "aaaa1111", Outcome: Passed, Began: made.Add(-time.Minute), Took: time.Second, Site: "lab"},
		{Name: "case 2 (seed=2)", ID: "aaaa2222", Outcome: Failed, Kind: "exit code 3", Meaning: "The run failed.", Message: "exit code 3", Began: made.Add(-time.Minute), Took: 2 * time.Second, Site: "lab", Log: "step 1\n"},
		{Name: "case 3 (seed=3)", ID: "aaaa3333", Outcome: Errored, Kind: "lost", Meaning: "The run failed before its command ended.", Message: "n1 is gone", Remedy: "Look at n1.", Began: made},
		{Name: "case 4 (seed=4)", ID: "aaaa4444", Outcome: Skipped, Message: "nothing is new", Began: made},
	}}
}

// TestJUnit: each run is a test, with its outcome in the element that CI services read.
func TestJUnit(t *testing.T) {
	var b strings.Builder
	if err := ended().JUnit(&b); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "junit.xml", b.String())
}

// TestSummaryOfSeveral: runs without success come first, each with its reason, and their logs follow.
func TestSummaryOfSeveral(t *testing.T) {
	var b strings.Builder
	if err := ended().Summary(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"## ` sweep `: 1 of 4 succeeded\n", "\n* ` case 2 (seed=2) `, run ` aaaa2222 `, site ` lab `, after 2s: ` exit code 3 `\n",
		"` case 3 (seed=3) `, run ` aaaa3333 `: ` n1 is gone ` Next: ` Look at n1. `\n", "\n\n```text\nstep 1\n```\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := (&Results{Name: "pi", Page: &Page{Name: "pi"}}).Summary(&b); err != nil || !strings.HasPrefix(b.String(), "## Run ` pi `") {
		t.Errorf("%v, of a run alone:\n%s", err, b.String())
	}
}

// evilResults are results whose every text is evil, and large.
func evilResults(cases int) *Results {
	long := strings.Repeat(evil+"\x00\xff]]>&amp;\n", 1000)
	r := &Results{Name: long, ID: evil, Version: evil, Made: time.Now()}
	for i := range cases {
		r.Cases = append(r.Cases, Result{
			Name: long, ID: evil, State: evil, Outcome: Outcome(i%3 + 1), Kind: evil, Meaning: "The run failed.", Message: long, Remedy: long, Site: evil, Log: long,
		})
	}
	return r
}

// TestNoTextBreaksJUnit: whatever runs are called and print, the XML is well formed, has
// elements of JUnit only, no control characters, and a bounded size.
func TestNoTextBreaksJUnit(t *testing.T) {
	const cases = 60
	var b strings.Builder
	if err := evilResults(cases).JUnit(&b); err != nil {
		t.Fatal(err)
	}
	const elements = " testsuites testsuite properties property testcase failure error skipped system-out "
	tests, logs := 0, 0
	for d := xml.NewDecoder(strings.NewReader(b.String())); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		start, is := token.(xml.StartElement)
		if !is {
			continue
		}
		switch name := start.Name.Local; {
		case !strings.Contains(elements, " "+name+" "):
			t.Fatalf("there is an element %s", name)
		case name == "testcase":
			tests++
		case name == "system-out":
			logs++
		}
	}
	if strings.ContainsAny(b.String(), "\x00\x1b\u202e\u2066") || !strings.Contains(b.String(), "evil()") {
		t.Errorf("control characters are left, or nothing is shown, in\n%.3000s", b.String())
	}
	if most := cases*40_000 + MostLogs*400_000; tests != cases || logs != MostLogs || b.Len() > most {
		t.Errorf("%d tests with %d logs in %d bytes", tests, logs, b.Len())
	}
}

// TestManyFailuresInJUnit: of thousands of failures, the first ones are explained, so that CI
// services take the file.
func TestManyFailuresInJUnit(t *testing.T) {
	r := ended()
	for range 20_000 {
		r.Cases = append(r.Cases, r.Cases[2])
	}
	var b strings.Builder
	if err := r.JUnit(&b); err != nil || b.Len() > 6_000_000 || strings.Count(b.String(), "Look at n1.") > mostExplained {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
}

// TestNoTextIsMarkdownInASummary: outside of code, there is no text of others, and the
// summary is one that GitHub takes.
func TestNoTextIsMarkdownInASummary(t *testing.T) {
	one := evilResults(0)
	one.Page = hostile(time.Now())
	one.Page.Log, one.Page.Beefile = strings.Repeat("\x00", 64<<10), strings.Repeat(evil, 1<<14)
	one.Page.Blocks[0][0].Value = one.Page.Beefile
	for _, r := range []*Results{evilResults(1000), one} {
		var b strings.Builder
		if err := r.Summary(&b); err != nil {
			t.Fatal(err)
		}
		if rest := withoutCode(b.String()); strings.Contains(rest, "evil") || strings.ContainsAny(b.String(), "\x00\x1b\u202e") || !strings.Contains(b.String(), "evil") {
			t.Errorf("outside of code there is\n%.3000s", rest)
		}
		if b.Len() > 1<<20 {
			t.Errorf("the summary has %d bytes", b.Len())
		}
	}
}
