package measure

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParsePattern(t *testing.T) {
	for text, literal := range map[string]string{
		`step (\d+) of (\d+)`: "step ", `Etot = (\S+)`: "Etot = ", `(?i)step (\d+)`: "", `(a|b)(\d)?`: "", `(x)*abc`: "abc",
	} {
		p, err := ParsePattern(text, 2)
		if err != nil || p.literal != literal {
			t.Errorf("%q: literal %q, expected %q (%v)", text, p.literal, literal, err)
		}
	}
	for _, text := range []string{`step \d+`, `(`, `(a)(b)(c)`, `(a)\1`, `((a{30}){30})`, strings.Repeat("a", maxPattern) + "(b)"} {
		if _, err := ParsePattern(text, 2); err == nil {
			t.Errorf("%.20q is no error", text)
		}
	}
}

// TestLines: however the output is cut, without an end, or in lines of 10 MB.
func TestLines(t *testing.T) {
	p, err := ParsePattern(`step (\d+) of (\d+)`, 2)
	if err != nil {
		t.Fatal(err)
	}
	text := "step\n\n step 1 of 9\nxstep 2 of 9\r\n" + strings.Repeat("step ", 2<<20) + "3 of 9\nstep 4 of 9\nstep 5 of"
	for _, size := range []int{1, 2, 7, 4096, len(text)} {
		var found [][]string
		l := NewLines(p, func(groups []string) { found = append(found, groups) })
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			l.Add(rest[:min(size, len(rest))])
		}
		if want := [][]string{{"1", "9"}, {"2", "9"}, {"4", "9"}}; !reflect.DeepEqual(found, want) {
			t.Errorf("by %d bytes: found %q, expected %q", size, found, want)
		}
		if len(l.partial) > maxLine || cap(l.partial) > 2*maxLine {
			t.Errorf("by %d bytes: %d bytes of a line are kept", size, cap(l.partial))
		}
	}
}

// TestLinesNewest: of more lines than may be tried, the newest is.
func TestLinesNewest(t *testing.T) {
	const lines = 100_000
	for _, text := range []string{`(\d+)`, `step (\d+)`} {
		p, err := ParsePattern(text, 1)
		if err != nil {
			t.Fatal(err)
		}
		tries, last := 0, ""
		l := NewLines(p, func(groups []string) { tries, last = tries+1, groups[0] })
		for i := range lines {
			l.Add(fmt.Appendf(nil, "step %d\n", i))
		}
		if tries == 0 || tries > lines/2 {
			t.Errorf("%s: %d tries", text, tries)
		}
		l.Tick()
		if want := fmt.Sprint(lines - 1); last != want {
			t.Errorf("%s: the newest is %s, expected %s", text, last, want)
		}
	}
}

// TestLinesInOrder: of several patterns, each tries a line before the next line, also of lines that wait for a tick.
func TestLinesInOrder(t *testing.T) {
	var found []string
	var all []matched
	for _, text := range []string{`^b=(\d+)`, `^ *(\d+)$`, `^a=(\d+)`} {
		p, err := ParsePattern(text, 1)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, matched{p, func(groups []string) { found = append(found, groups[0]) }})
	}
	text := "a=1\n\n 2\nb=3\n4\na=5\nb=6\n"
	for _, size := range []int{1, 5, len(text)} {
		for _, steps := range []int{maxSteps, 0} {
			l := newLines(all...)
			found, l.steps = nil, steps
			for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				l.Add(rest[:min(size, len(rest))])
			}
			l.Tick()
			want := []string{"1", "2", "3", "4", "5", "6"}
			if steps == 0 {
				want = []string{"5", "6"} // and the last line, which is no number
			}
			if !slices.Equal(found, want) {
				t.Errorf("by %d bytes with %d steps: found %q, expected %q", size, steps, found, want)
			}
		}
	}
}

func TestSeries(t *testing.T) {
	var s Series
	for i := range 3*MaxPoints*8 + 5 {
		s.Add(Point{Time: time.Unix(int64(i), 0), Value: float64(i)})
		n := len(s.Points)
		if n > MaxPoints || s.Points[n-1].Value != float64(i) || s.Points[0].Value != 0 {
			t.Fatalf("after %d: %d points, from %v to %v", i, n, s.Points[0], s.Points[n-1])
		}
	}
	for i := 1; i < len(s.Points)-1; i++ {
		if d := s.Points[i].Value - s.Points[i-1].Value; d <= 0 || d > 2*float64(s.Every) {
			t.Fatalf("distance %v at %d, every %d", d, i, s.Every)
		}
	}
	if len(s.Points) < MaxPoints/2 {
		t.Errorf("only %d points", len(s.Points))
	}
}

// BenchmarkLines measures a second of 100,000 lines that all match: 1 % of a core is 10 ms.
func BenchmarkLines(b *testing.B) {
	p, err := ParsePattern(`step (\d+) of (\d+)`, 2)
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Repeat([]byte("step 123 of 456, and the rest of the line as programs print it\n"), 500)
	l := NewLines(p, func([]string) {})
	for b.Loop() {
		for range 200 {
			l.Add(text)
		}
		l.Tick()
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"3": 3, "-1.5e3": -1500, "1.5D-3": 0.0015, "2d2": 200} {
		if n, is := Number(text); !is || n != want {
			t.Errorf("%q: %v, expected %v", text, n, want)
		}
	}
	for _, text := range []string{"", "NaN", "Inf", "-inf", "1e999", "-1e999", "one", "1.5.2", strings.Repeat("9", maxNumber+1)} {
		if n, is := Number(text); is {
			t.Errorf("%q is %v", text, n)
		}
	}
}

// TestReader: two streams do not mix, and what is no number changes nothing.
func TestReader(t *testing.T) {
	r, err := NewReader(Source{Pattern: `step (\S+) of (\S+)`}, map[string]string{"energy": `E=(\S+)`, "none": `no(ne)`})
	if err != nil {
		t.Fatal(err)
	}
	out, other := r.Stream(), r.Stream()
	if _, changed := r.Tick(); changed {
		t.Error("there are values of no output")
	}
	for _, piece := range []string{"step 3 of", " 12\nE=-1.5\nnone\nstep -1 of 12\nstep 5 of 0\nstep NaN of 12\nE=Inf\nE="} {
		out.Add([]byte(piece))
		other.Add([]byte("a line "))
	}
	other.Add([]byte("\nstep 1e300 of 13"))
	if v, changed := r.Tick(); !changed || !reflect.DeepEqual(v, Values{Done: 3, Total: 12, Metrics: map[string]float64{"energy": -1.5}}) {
		t.Errorf("%+v", v)
	}
	other.Add([]byte("\n"))
	if v, changed := r.Tick(); !changed || !reflect.DeepEqual(v, Values{Done: 13, Total: 13}) {
		t.Errorf("more than all is done, and nothing else has come: %+v", v)
	}
	if _, err := NewReader(Source{Pattern: "("}, nil); err == nil {
		t.Error("a pattern that is none is read")
	}
}

// TestProgressOfAFile: a percentage, or what is done and the total. Other texts change nothing.
func TestProgressOfAFile(t *testing.T) {
	r, err := NewReader(Source{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		want Values
	}{
		{"12.5", Values{Done: 12.5, Total: 100}},
		{"120 1000\n", Values{Done: 120, Total: 1000}},
		{"121\n1000\n", Values{Done: 121, Total: 1000}},
		{" 1.2D2\t900\r\n", Values{Done: 120, Total: 900}},
		{"", Values{}},
		{"\n", Values{}},
		{"many", Values{}},
		{"1 2 3", Values{}},
		{"-1", Values{}},
		{"1 0", Values{}},
		{"NaN 5", Values{}},
		{"120 %", Values{}},
		{"\x1b[31m 5", Values{}},
		{"1001 1000", Values{Done: 1000, Total: 1000}},
	} {
		r.File(c.text)
		if v, is := r.Tick(); is != (c.want.Total > 0) || !reflect.DeepEqual(v, c.want) {
			t.Errorf("%q: %+v, expected %+v", c.text, v, c.want)
		}
	}
}

// TestRecord: each event counts once, also to a controller that gets all again, and the
// time left is that of the present attempt.
func TestRecord(t *testing.T) {
	begun := time.Unix(1000, 0)
	var r Record
	add := func(attempt int, event, second int64, done float64) bool {
		return r.Add(attempt, event, begun.Add(time.Duration(second)*time.Second), Values{Done: done, Total: 200, Metrics: map[string]float64{"energy": -done}})
	}
	for range 2 {
		add(1, 3, 0, 20)
		add(1, 5, 10, 40)
	}
	if p := r.Progress(true, begun.Add(15*time.Second)); p == nil || p.Percent != 20 || p.LeftSeconds != 75 || len(r.Percent.Points) != 2 {
		t.Errorf("%+v of %+v", p, r)
	}
	if p := r.Progress(false, begun); p.LeftSeconds != 0 {
		t.Errorf("time is left where nothing runs: %+v", p)
	}
	if !add(2, 1, 100, 30) || add(1, 9, 200, 190) {
		t.Error("the second attempt does not follow the first")
	}
	if p := r.Progress(true, begun.Add(100*time.Second)); p.Percent != 15 || p.LeftSeconds != 0 {
		t.Errorf("of one point time is left: %+v", p)
	}
	if n := r.Newest(); n["energy"].Value != -30 || len(r.Metrics["energy"].Points) != 3 {
		t.Errorf("%+v", n)
	}
	many := map[string]float64{}
	for i := range 2 * MaxMetrics {
		many[fmt.Sprint(i)] = 1
	}
	if r.Add(2, 2, begun, Values{Metrics: many}); len(r.Metrics) != MaxMetrics {
		t.Errorf("%d metrics", len(r.Metrics))
	}
}
