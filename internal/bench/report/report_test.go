package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
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

// TestHosts looks for the hosts of the measurements in the forms that people read.
func TestHosts(t *testing.T) {
	r := example(1)
	r.On(record.Hosts{}) // an earlier bee has written none
	var before bytes.Buffer
	if err := r.HTML(&before); err != nil || r.Hosts != nil || strings.Contains(before.String(), "<h2>Hosts") {
		t.Errorf("hosts that are not known are in the page: %v", err)
	}
	r.On(record.Hosts{
		Schema: record.Schema, Here: record.Host{Governors: []string{"powersave"}, Mitigations: map[string]string{"mds": "Vulnerable: no microcode", "l1tf": "Not affected"}},
		Held:      []record.HeldSite{{Site: "lab", Allocation: "4711", Hosts: []record.GrantedHost{{Name: "n7"}}, Ends: time.Unix(1.7e9, 0)}},
		Exercised: []record.Exercised{{Environment: "a|b", Runtime: "native", Hosts: []string{"n7", "<n8>"}, VMCommand: "qemu-system-x86_64 -m 4096", Measured: 12, First: time.Unix(1.7e9, 0), Last: time.Unix(1.7e9+3600, 0)}},
	})
	var page, md bytes.Buffer
	if err := errors.Join(r.HTML(&page), r.Markdown(&md)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"governor powersave", "nothing against mds", "allocation 4711 ", " n7, ", "&lt;n8", "2023-11-14 22:13 UTC to 2023-11-14 23:13 UTC", "qemu-system-x86_64 -m 4096"} {
		if !strings.Contains(page.String(), want) || !strings.Contains(md.String(), want) {
			t.Errorf("the page or the Markdown lacks %q: %s", want, md.String())
		}
	}
	if !strings.Contains(md.String(), `| a\|b | native |`) {
		t.Errorf("a cell breaks the table: %s", md.String())
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

// TestGoldenForms compares every form of a report with what it was. The page is compared up to its raw rows.
func TestGoldenForms(t *testing.T) {
	r := example(2)
	r.On(record.Hosts{Schema: record.Schema, Here: record.Host{Governors: []string{"powersave"}}, Exercised: []record.Exercised{{Environment: "a", Hosts: []string{"n7"}, Measured: 12, First: time.Unix(1.7e9, 0), Last: time.Unix(1.7e9, 0)}}})
	for name, write := range map[string]func(io.Writer) error{"report_markdown": r.Markdown, "report_csv": r.CSV, "report_html": r.HTML} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(b.String(), "<details><summary>All measurements")
		testkit.Golden(t, name, text)
	}
}

// TestRedacted looks for names in every form of a report.
func TestRedacted(t *testing.T) {
	r := example(1)
	r.Plan.Title, r.Plan.Mapped, r.Plan.Seed, r.Plan.Command = "Does /data/ann/case cost more than 1 B/s or 3/4 on lab-9?", map[string]string{"aws": "lab-9"}, math.MaxUint64, "bee bench run /home/ann/s.yaml"
	r.Plan.Points[0].ID = "case=/home/ann/big.cfg"
	r.Result.Contrasts[0].Point = r.Plan.Points[0].ID
	r.Result.Contrasts[0].Finding.Withheld = []string{"native uses /home/ann/lib/libm.so.6 of the host"}
	r.On(record.Hosts{
		Schema: record.Schema, Here: record.Host{Name: "n1.example.org", Boot: "6f1e", Kernel: "6.1", Microcode: "0x2b", Cgroup: "0::/user.slice/ann"},
		Held:      []record.HeldSite{{Site: "lab-9", Owner: "bench-77", Allocation: "4711", Hosts: []record.GrantedHost{{Name: "n7"}}}},
		Exercised: []record.Exercised{{Environment: "a", Runtime: "rootless", Hosts: []string{"n7", "n8"}, VMCommand: "qemu-system-x86_64 -name guest=bee-r1234", Measured: 12, Failed: 1}},
	})
	r.Result.Flags[0].Text = "/opt/carl/solver looks at its own executable, as carl does"
	for i := range r.Rows {
		r.Rows[i].Flags, r.Rows[i].Log, r.Rows[i].Hosts = []string{"seen on n1.example.org, which is n1"}, "logs/_home_ann_", []string{"n7"}
		r.Rows[i].VMCommand = "qemu-system-x86_64 -name guest=bee-r1234"
	}
	if err := r.Redact("carl"); err != nil {
		t.Fatal(err)
	}
	var page, md, c, j bytes.Buffer
	if err := errors.Join(r.HTML(&page), r.Markdown(&md), r.CSV(&c), r.JSON(&j)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{page.String(), md.String(), c.String(), j.String()} {
		for _, secret := range []string{"ann", "carl", "example.org", "lab-9", "big.cfg", "libm.so", "n1", "n7", "n8", "6f1e", "r1234", "bench-77", "4711"} {
			if regexp.MustCompile(`\b` + secret + `\b`).MatchString(text) {
				t.Errorf("the redacted report has %q: %s", secret, text[:min(len(text), 2000)])
			}
		}
	}
	for _, text := range []string{page.String(), md.String()} {
		if !strings.Contains(text, "12, 1 failed") || !strings.Contains(text, "microcode 0x2b") {
			t.Errorf("the redacted report lacks what was measured, or the microcode: %s", text)
		}
	}
	if r.Plan.Seed != math.MaxUint64 || !strings.Contains(md.String(), "more than 1 B/s or 3/4") {
		t.Errorf("seed %d; what is no name was changed: %s", r.Plan.Seed, md.String())
	}
}

// TestFormsOfOtherFigures looks for scaling, sweeps and the papers' own figures in the forms
// that people read.
func TestFormsOfOtherFigures(t *testing.T) {
	r := example(1)
	r.Plan.Metrics = append(r.Plan.Metrics, record.Metric{Name: "band", Unit: "MB/s", Better: "higher", Sweep: true})
	r.Plan.Points = append(r.Plan.Points, record.Point{ID: "ranks=2", Values: map[string]string{"ranks": "2"}, Environments: r.Plan.Points[0].Environments})
	r.Plan.Points[0].Values = map[string]string{"ranks": "1"}
	r.Plan.Scales = []record.Scale{{Variable: "ranks", Against: "1", Points: []record.PointPair{{Point: "ranks=2", Against: r.Plan.Points[0].ID}}}}
	for _, row := range r.Rows {
		row.Point, row.Metrics = "ranks=2", map[string][]record.Figure{"seconds": {{Value: row.Metrics["seconds"][0].Value / 1.6}}, "mem": {{Value: 0}}, "band": {{Key: "1", Value: 3}, {Key: "64", Value: 80}}}
		r.Rows = append(r.Rows, row)
	}
	r.Plan.Method, r.Plan.Summary = "published", "median"
	for method, want := range map[string]string{"published": "paper", "beserra2016": "dissertation"} {
		r.Plan.Method = method
		again := New(r.Plan, r.Rows)
		var page, md, j bytes.Buffer
		if err := errors.Join(again.HTML(&page), again.Markdown(&md), again.JSON(&j)); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{page.String(), md.String()} {
			if !strings.Contains(text, want) || !strings.Contains(text, "80 %") {
				t.Errorf("%s: the report lacks %q, or the efficiency of 80 %%: %s", method, want, text)
			}
		}
		if !strings.Contains(page.String(), "<polyline") || xml.Unmarshal(bytes.TrimPrefix(page.Bytes(), []byte("<!DOCTYPE html>\n")), new(struct{})) != nil {
			t.Errorf("%s: the page has no sweep, or is no XML", method)
		}
	}
	if s := New(r.Plan, r.Rows).Result.Scaling; len(s) != 2 || s[0].Efficiency == nil || math.Abs(s[0].Speedup-1.6) > 0.05 {
		t.Errorf("scaling is %+v, expected a speedup of 1.6 of both environments", s)
	}
}

// large is a study of many points, with 65 rows each.
func large(points int) (record.Plan, []record.Row) {
	r := example(3)
	var rows []record.Row
	p := r.Plan.Points[0]
	r.Plan.Points = nil
	for i := range points {
		p.ID = fmt.Sprint("n=", i)
		r.Plan.Points = append(r.Plan.Points, p)
		for _, row := range r.Rows {
			row.Point = p.ID
			rows = append(rows, row)
		}
	}
	return r.Plan, rows
}

// TestALargeStudy reads 100,000 rows and writes their page, which has all rows as they were
// measured and is small without them. The bound of the processor time is five times the aim,
// for machines that are busy.
func TestALargeStudy(t *testing.T) {
	const (
		most    = 2 << 20
		longest = 10 * time.Second
	)
	p, rows := large(1540)
	dir := filepath.Join(t.TempDir(), "out")
	j, err := record.Create(dir, p)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	for i := range rows {
		err = errors.Join(err, e.Encode(rows[i]))
	}
	if err := errors.Join(err, j.Close(), os.WriteFile(filepath.Join(dir, record.RowsFile), text.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	begin := processorTime(t)
	p, read, err := record.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := New(p, read).HTML(&b); err != nil {
		t.Fatal(err)
	}
	took := processorTime(t) - begin
	t.Logf("%d rows took %s of the processor", len(rows), took)
	if took > longest {
		t.Errorf("%d rows took %s of the processor, expected %s at most", len(rows), took, longest)
	}
	page := b.String()
	from, to := strings.LastIndex(page, "<pre>")+len("<pre>"), strings.LastIndex(page, "</pre>")
	if n := len(page) - (to - from); n > most {
		t.Errorf("the page has %d bytes without its rows, expected %d at most", n, most)
	}
	if !strings.Contains(page, " 500 of 4620") {
		t.Error("the page does not say how many contrasts it leaves out")
	}
	lines := strings.Split(strings.TrimSuffix(page[from:to], "\n"), "\n")
	if len(lines) != len(rows) {
		t.Fatalf("the page has %d rows, expected %d", len(lines), len(rows))
	}
	for i := 0; i < len(rows); i += 97 {
		var got record.Row
		if err := json.Unmarshal([]byte(html.UnescapeString(lines[i])), &got); err != nil || !reflect.DeepEqual(got, read[i]) {
			t.Fatalf("row %d of the page is %+v, expected %+v: %v", i, got, read[i], err)
		}
	}
}

// processorTime is that of this process so far.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkReport evaluates 100,000 rows.
func BenchmarkReport(b *testing.B) {
	p, rows := large(1540)
	for b.Loop() {
		New(p, rows)
	}
}
