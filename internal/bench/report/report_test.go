package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
)

func example(environments int) *Report {
	p := record.Plan{
		Study: "s", Title: "What does <it> cost?", Method: "robust", Margin: 0.05, Least: 10, Most: 12, Baseline: "native", Created: time.Unix(1.7e9, 0),
		File: "study: s # <&>", Dir: "/home/ann/s", Machine: record.Machine{Host: "n1.example.org", Bee: "1", Cores: 2},
		Points: []record.Point{{ID: "case=a|b"}}, Metrics: []record.Metric{{Name: "seconds", Unit: "s", Better: "lower", Primary: true}, {Name: "mem", Better: "lower"}},
	}
	rng := rand.New(rand.NewPCG(3, 4))
	var rows []record.Row
	names := []string{"native", "native"}
	for i := range environments {
		names = append(names, string(rune('a'+i)))
	}
	for i, n := range names[1:] {
		p.Environments = append(p.Environments, record.Environment{Name: n})
		p.Points[0].Environments = append(p.Points[0].Environments, n)
		_ = i
	}
	for block := range 13 {
		for i, n := range names {
			rows = append(rows, record.Row{
				Point: p.Points[0].ID, Environment: n, Again: i == 1, Block: block, Status: record.OK, YardstickSeconds: 0.05, Error: "at /home/ann/s", Run: "x",
				Metrics: map[string][]record.Figure{"seconds": {{Value: math.Exp(rng.NormFloat64() * 0.01)}}, "mem": {{Value: 1}}}, Flags: []string{"busy <b>"},
			})
		}
	}
	return New(p, rows)
}

// TestThePageIsOneFile reads the page as XML, and looks for what would run or be requested.
func TestThePageIsOneFile(t *testing.T) {
	var b bytes.Buffer
	if err := example(2).HTML(&b); err != nil {
		t.Fatal(err)
	}
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(b.Bytes(), []byte("<!DOCTYPE html>\n"))))
	d.Strict = true
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is no XML: %v", err)
		}
		e, is := token.(xml.StartElement)
		if !is {
			continue
		}
		if name := e.Name.Local; name == "script" || name == "link" || name == "img" || name == "iframe" {
			t.Errorf("the page has a %s", name)
		}
		for _, a := range e.Attr {
			if a.Name.Local == "href" || a.Name.Local == "src" || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("the page has %s=%q", a.Name.Local, a.Value)
			}
		}
	}
	for _, want := range []string{"What does &lt;it&gt; cost?", "equivalent", "<svg", "busy &lt;b&gt;"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestForms(t *testing.T) {
	r := example(2)
	var md, c, j bytes.Buffer
	if err := errors.Join(r.Markdown(&md), r.CSV(&c), r.JSON(&j)); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(md.String(), "\n") {
		if n := len(regexp.MustCompile(`(^|[^\\])\|`).FindAllString(line, -1)); strings.HasPrefix(line, "| seconds") && n != 6 && n != 5 {
			t.Errorf("a line of a table has %d bars: %s", n, line)
		}
	}
	if n := strings.Count(c.String(), "\n"); n != 1+4 {
		t.Errorf("CSV has %d lines, expected a head and four contrasts:\n%s", n, c.String())
	}
	var back Report
	if err := json.Unmarshal(j.Bytes(), &back); err != nil || len(back.Rows) != len(r.Rows) {
		t.Errorf("JSON: %v", err)
	}
}

func TestRedacted(t *testing.T) {
	r := example(1)
	r.Redact()
	var b bytes.Buffer
	if err := errors.Join(r.HTML(&b), r.JSON(&b)); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"ann", "n1.example.org"} {
		if strings.Contains(b.String(), secret) {
			t.Errorf("the redacted report has %q", secret)
		}
	}
}
