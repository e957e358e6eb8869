package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/report"
)

// evil is a text that would do something, were it more than text: in HTML, an attribute,
// Markdown, a terminal or by its direction.
const evil = "evil</pre></td></script><script>evil()</script>\"' onload=evil() ```\n# evil [evil](javascript:evil()) | \x1b[2Jevil \u202eevil\u2066 &#60;evil>"

// hostile is a page whose every text is evil.
func hostile(began time.Time) *Page {
	return &Page{
		ID: evil, Name: evil, State: evil, Meaning: "The run failed.", Why: evil, Began: began, Ended: began.Add(time.Hour), Blocks: []Block{{{evil, evil}}, {{evil, evil}, {evil, evil}}},
		Time:        []Use{{On: report.OnCompute, Text: "computing", Took: "1h0m0s", Seconds: 3600}},
		TimeLine:    []report.Stretch{{Attempt: 1, Site: evil, Began: began, Ended: began.Add(time.Hour), Parts: []report.Part{{On: report.OnCompute, Took: 30 * time.Minute}, {On: report.OnLoss, Took: 48 * time.Hour}}}},
		Checkpoints: []time.Time{began.Add(-time.Hour), began.Add(time.Minute)}, Outputs: []Output{{To: evil, Names: []string{evil}, More: 3}},
		Curves:  []Curve{{Name: evil, Points: points(began)}},
		Plots:   []Plot{{Name: evil, Text: func(float64) string { return evil }, Curves: []Curve{{Name: evil, Points: points(began), Begins: []int{-1, 0, 1, 99}}, {}}}},
		Beefile: evil, Log: evil, LogOf: evil, LogCut: true, Problems: []string{evil}, Version: evil, Made: began,
	}
}

// points are numbers that no curve can show, and one that it can.
func points(began time.Time) []measure.Point {
	return []measure.Point{{Time: began.Add(-time.Hour), Value: -math.MaxFloat64}, {Time: began.AddDate(100, 0, 0), Value: math.MaxFloat64}, {Time: began.Add(time.Minute)}}
}

// TestNoTextIsMarkup: whatever a page is about, its HTML has the elements and attributes of
// this package alone, and its policy allows no more than its own style.
func TestNoTextIsMarkup(t *testing.T) {
	var b strings.Builder
	if err := hostile(time.Now()).HTML(&b); err != nil {
		t.Fatal(err)
	}
	checkMarkup(t, b.String())
}

// checkMarkup fails where HTML has other elements or attributes than those of this package.
func checkMarkup(t *testing.T, text string) {
	t.Helper()
	elements := " html head meta title style body main h1 h2 h3 polyline p strong bdi table thead tbody tr th td pre ul li svg g rect circle text footer code span div "
	attributes := " lang charset http-equiv content name class aria-label scope tabindex role x y width height text-anchor title cx cy r viewBox preserveAspectRatio points "
	styled, policy, texts := "", "", 0
	d := xml.NewDecoder(strings.NewReader(text))
	for element := ""; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if element = token.Name.Local; !strings.Contains(elements, " "+element+" ") {
				t.Errorf("there is an element %s", element)
			}
			for _, a := range token.Attr {
				if !strings.Contains(attributes, " "+a.Name.Local+" ") {
					t.Errorf("%s has an attribute %s", element, a.Name.Local)
				}
				if element == "meta" && strings.HasPrefix(a.Value, "default-src") {
					policy = a.Value
				}
			}
		case xml.EndElement:
			element = ""
		case xml.CharData:
			if element == "style" {
				styled += string(token)
			}
			texts += strings.Count(string(token), "<script>evil()</script>")
		}
	}
	sum := sha256.Sum256([]byte(styled))
	if want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"; policy != want {
		t.Errorf("the policy is %q, want %q", policy, want)
	}
	if strings.ContainsAny(text, "\x1b\u202e\u2066") || texts < 10 {
		t.Errorf("%d texts are shown, or control characters are left, in\n%s", texts, text)
	}
}

// TestNoTextIsMarkdown: outside of code, there is no text of others.
func TestNoTextIsMarkdown(t *testing.T) {
	var b strings.Builder
	if err := hostile(time.Now()).Markdown(&b); err != nil {
		t.Fatal(err)
	}
	if rest := withoutCode(b.String()); strings.Contains(rest, "evil") || strings.ContainsAny(b.String(), "\x1b\u202e") || !strings.Contains(rest, "### Outputs") {
		t.Errorf("outside of code there is\n%s\nof\n%s", rest, b.String())
	}
}

// withoutCode is Markdown without its code, by the rules of CommonMark.
func withoutCode(text string) string {
	var rest strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case fence != "":
			if strings.Trim(line, "`") == "" && len(line) >= len(fence) {
				fence = ""
			}
		case strings.HasPrefix(line, "```"):
			fence = line[:strings.IndexFunc(line, func(r rune) bool { return r != '`' })]
		default:
			rest.WriteString(withoutSpans(line) + "\n")
		}
	}
	return rest.String()
}

func withoutSpans(line string) string {
	ticks := regexp.MustCompile("`+")
	rest := ""
	for {
		open := ticks.FindStringIndex(line)
		if open == nil {
			return rest + line
		}
		end := -1
		for _, close := range ticks.FindAllStringIndex(line[open[1]:], -1) {
			if close[1]-close[0] == open[1]-open[0] {
				end = open[1] + close[1]
				break
			}
		}
		if end < 0 { // it begins no code
			end = open[1]
		}
		rest, line = rest+line[:open[0]], line[end:]
	}
}

// TestPage: a page has what it is made of, and of a run without attempts as well.
func TestPage(t *testing.T) {
	began := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := &Page{
		ID: "aaaa1111", Name: "pi", State: "failed", Meaning: "The run failed.", Why: "n1 is gone", Began: began, Ended: began.Add(100 * time.Second),
		Blocks:   []Block{{{"run", "aaaa1111"}}, {{"attempt 1", "site lab"}, {"  hosts", "n1"}}},
		Time:     []Use{{On: report.OnCompute, Text: "computing", Took: "50.0s", Seconds: 50}, {On: report.OnQueue, Text: "waiting", Took: "50.0s", Seconds: 50}},
		TimeLine: []report.Stretch{{Attempt: 1, Site: "lab", Began: began, Ended: began.Add(100 * time.Second), Parts: []report.Part{{On: report.OnQueue, Took: 50 * time.Second}, {On: report.OnCompute, Took: 50 * time.Second}}}},
		Log:      "step 1\n", LogOf: "attempt 1", Beefile: "image: x\n", Outputs: []Output{{To: "/r", Names: []string{"a.dat"}}}, Version: "1", Made: began,
	}
	var b, m strings.Builder
	if err := errors.Join(p.HTML(&b), p.Markdown(&m)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<strong>failed.</strong> " + p.Meaning, "n1 is gone", "<h2>attempt 1</h2>\n<p>site lab</p>", "<th scope=\"row\">hosts</th><td>n1</td>", "50 %",
		`<rect x="50.000%" y="1" width="50.000%" height="24"/><text x="75.000%" y="18" text-anchor="middle">A</text>`,
		"<td>A</td><td>computing</td>", "step 1", "image: x", "a.dat",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("want %q in\n%s", want, b.String())
		}
	}
	for _, want := range []string{"## Run ` pi ` (` aaaa1111 `): ` failed `", "| 50.0s | 50 % | computing |", "attempt 1     site lab\n", "step 1\n", "* ` a.dat `"} {
		if !strings.Contains(m.String(), want) {
			t.Errorf("want %q in\n%s", want, m.String())
		}
	}
	b.Reset()
	if err := (&Page{ID: "aaaa1111", Began: began, Ended: began}).HTML(&b); err != nil || strings.Contains(b.String(), "<pre") || strings.Contains(b.String(), "<rect") {
		t.Errorf("%v, of a run without attempts:\n%s", err, b.String())
	}
}
