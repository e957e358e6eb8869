// Package burstsim predicts what an I/O burst buffer is worth: nodes between a job and
// a remote store, which keep a queue of buffers in memory. It computes; it reads and
// writes no file, opens no connection and reads no clock.
//
// A Model has settings, each with one value or several. Its points are all combinations
// of these values, and a Table has one row for each point.
package burstsim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
)

// Unit is how a value is read and printed.
type Unit int

const (
	// Count is a number without a unit.
	Count Unit = iota
	// Share is a part of a whole, 0 to 1; its text may be a percentage.
	Share
	// Size is in bytes.
	Size
	// Rate is in bytes a second.
	Rate
	// Seconds is a length of time.
	Seconds
	// Dollars is a price.
	Dollars
	// Word is one of a setting's words, by its index.
	Word
)

// Setting is a value of a model that a user can set and sweep.
type Setting struct {
	Name    string
	Unit    Unit
	Default string
	Words   []string // of the unit Word
	Least   float64  // inclusive
	Most    float64  // inclusive; 0: no limit
	Whole   bool     // only whole numbers
	Meaning string
}

// mostValues bounds what one range can expand to.
const mostValues = 10000

// suffixes of sizes. K, M, G and T are as in Beefiles.
var suffixes = []struct {
	text   string
	factor float64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"K", 1 << 10},
	{"M", 1 << 20},
	{"G", 1 << 30},
	{"T", 1 << 40},
	{"B", 1},
}

// one reads one value.
func (s *Setting) one(text string) (float64, error) {
	text = strings.TrimSpace(text)
	number, factor := text, 1.0
	cut := func(suffix string, f float64) bool {
		rest, is := strings.CutSuffix(number, suffix)
		if is {
			number, factor = rest, f
		}
		return is
	}
	switch s.Unit {
	case Word:
		i := slices.Index(s.Words, text)
		if i < 0 {
			return 0, s.wrong(text, "one of "+strings.Join(s.Words, ", "))
		}
		return float64(i), nil
	case Share:
		cut("%", 0.01)
	case Size:
		for _, x := range suffixes {
			if cut(x.text, x.factor) {
				break
			}
		}
	case Rate:
		switch {
		case cut("gbit", 1e9/8), cut("mbit", 1e6/8), cut("kbit", 1e3/8):
		case cut("/s", 1):
			for _, x := range suffixes {
				if cut(x.text, x.factor) {
					break
				}
			}
		}
	case Seconds:
		_ = cut("ms", 1e-3) || cut("s", 1) || cut("min", 60) || cut("m", 60) || cut("h", 3600)
	case Dollars:
		number = strings.TrimPrefix(number, "$")
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	v *= factor
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, s.wrong(text, s.form())
	}
	if s.Unit == Rate && number == text && v != 0 { // bits or bytes?
		return 0, s.wrong(text, s.form())
	}
	if s.Unit == Share {
		v = math.Round(v*1e12) / 1e12 // 35 % is 0.35
	}
	if v < s.Least || s.Most > 0 && v > s.Most || s.Whole && v != math.Trunc(v) {
		return 0, s.wrong(text, s.form())
	}
	return v, nil
}

// form says what a value looks like, for messages.
func (s *Setting) form() string {
	text := map[Unit]string{Count: "a number", Share: "such as 25% or 0.25", Size: "such as 100GB or 4GiB", Rate: "such as 135MB/s or 1gbit", Seconds: "such as 40ms, 10s or 2h", Dollars: "such as 0.405"}[s.Unit]
	if s.Whole {
		text = "a whole number"
	}
	if s.Least > 0 {
		text += ", at least " + s.Text(s.Least)
	}
	if s.Most > 0 {
		text += ", at most " + s.Text(s.Most)
	}
	return text
}

func (s *Setting) wrong(text, form string) error {
	return &core.Error{
		Kind: core.Invalid, Op: "set", Object: s.Name, Err: fmt.Errorf("%q is no value of it", text),
		Remedy: fmt.Sprintf("Give %s: %s.", s.Name, form),
	}
}

// Values reads a list: values and ranges, separated by commas. A range is FIRST..LAST
// or FIRST..LAST/STEP, with the step 1 unless given.
func (s *Setting) Values(text string) ([]float64, error) {
	var all []float64
	for part := range strings.SplitSeq(text, ",") {
		first, rest, isRange := strings.Cut(part, "..")
		from, err := s.one(first)
		if err != nil {
			return nil, err
		}
		if !isRange || s.Unit == Word {
			all = append(all, from)
			continue
		}
		last, by, hasStep := strings.Cut(rest, "/")
		if strings.HasSuffix(rest, "/s") && !strings.HasSuffix(last, "/s") && strings.Count(rest, "/") == 1 {
			last, hasStep = rest, false // the unit of a rate, not a step
		} else if before, after, is := strings.Cut(rest, "/s/"); is {
			last, by, hasStep = before+"/s", after, true
		}
		to, err := s.one(last)
		if err != nil {
			return nil, err
		}
		step := 1.0
		if hasStep {
			free := *s
			free.Least, free.Most = 0, 0
			if step, err = free.one(by); err != nil {
				return nil, err
			}
		}
		n := math.Floor((to-from)/step + 1e-9)
		if step <= 0 || n < 0 || n >= mostValues {
			return nil, s.wrong(part, "a range FIRST..LAST/STEP with FIRST up to LAST, and at most "+strconv.Itoa(mostValues)+" values")
		}
		for i := range int(n) + 1 {
			all = append(all, math.Round((from+float64(i)*step)*1e12)/1e12)
		}
	}
	if len(all) > mostValues {
		return nil, s.wrong("…", "at most "+strconv.Itoa(mostValues)+" values")
	}
	return all, nil
}

// Text prints a value as Values reads it.
func (s *Setting) Text(v float64) string {
	switch s.Unit {
	case Word:
		return s.Words[int(v)]
	case Dollars:
		return "$" + strconv.FormatFloat(v, 'f', -1, 64)
	case Size:
		for _, x := range suffixes[:4] {
			if v >= x.factor && v < 1024*x.factor && math.Mod(v, x.factor) == 0 {
				return strconv.FormatFloat(v/x.factor, 'f', -1, 64) + x.text
			}
		}
	}
	return Text(s.Unit, v)
}

// Text prints a value of a unit for people.
func Text(u Unit, v float64) string {
	short := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	round := func(v float64) string { return short(math.Round(v*10) / 10) }
	switch u {
	case Share:
		return round(100*v) + "%"
	case Size:
		return decimal(v, round)
	case Rate:
		return decimal(v, round) + "/s"
	case Seconds:
		if v != 0 && v < 1 {
			return round(1000*v) + "ms"
		}
		return round(v) + "s"
	case Dollars:
		return "$" + strconv.FormatFloat(math.Floor(v*100+0.5+1e-9)/100, 'f', 2, 64) // 2.625 is 2.63
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func decimal(v float64, number func(float64) string) string {
	switch {
	case v >= 1e13:
		return number(v/1e12) + "TB"
	case v >= 1e10:
		return number(v/1e9) + "GB"
	case v >= 1e5:
		return number(v/1e6) + "MB"
	}
	return number(v) + "B"
}

// Point has one value for each setting, by name.
type Point map[string]float64

// Sweep is a model with the values that its settings have.
type Sweep struct {
	Model  *Model
	values map[string][]float64
}

// Model computes a row of a table from a point.
type Model struct {
	Name     string
	Settings []Setting
	Columns  []Column // of the results
	Most     int      // points that one sweep may have
	hits     string   // the setting of hit rates, for figures
	hitRates string   // of figures, unless given
	hitLabel string
	compute  func(p Point, seed int64, stop func() error) ([]float64, error)
}

// Column is a result of a model. A result that has no value is NaN.
type Column struct {
	Name    string
	Head    string // in a table for people
	Unit    Unit
	Meaning string
}

// Set returns a sweep with the defaults of m, changed by assignments NAME=VALUES.
// Errors are of the kind Invalid.
func (m *Model) Set(assignments []string) (*Sweep, error) {
	s := &Sweep{Model: m, values: map[string][]float64{}}
	for i := range m.Settings {
		all, err := m.Settings[i].Values(m.Settings[i].Default)
		if err != nil {
			return nil, err
		}
		s.values[m.Settings[i].Name] = all
	}
	given := map[string]bool{}
	for _, a := range assignments {
		name, text, _ := strings.Cut(a, "=")
		i := slices.IndexFunc(m.Settings, func(x Setting) bool { return x.Name == name })
		switch {
		case i < 0:
			return nil, &core.Error{Kind: core.Invalid, Op: "set", Object: strconv.Quote(name), Err: fmt.Errorf("the model %s has no such setting", m.Name), Remedy: "Give NAME=VALUES with one of " + strings.Join(m.names(), ", ") + "."}
		case given[name]:
			return nil, &core.Error{Kind: core.Invalid, Op: "set", Object: name, Err: errors.New("it is set twice"), Remedy: "Give its values once, separated by commas."}
		}
		given[name] = true
		all, err := m.Settings[i].Values(text)
		if err != nil {
			return nil, err
		}
		s.values[name] = all
	}
	points := 1
	for _, all := range s.values {
		if points *= len(all); points > m.Most {
			return nil, &core.Error{Kind: core.Invalid, Op: "sweep", Object: "the settings of model " + m.Name, Err: fmt.Errorf("more than %d points", m.Most), Remedy: "Give fewer values."}
		}
	}
	return s, nil
}

func (m *Model) names() (all []string) {
	for i := range m.Settings {
		all = append(all, m.Settings[i].Name)
	}
	return all
}

// Replace gives a setting other values. There has to be a setting of this name.
func (s *Sweep) Replace(name string, values ...float64) *Sweep {
	next := &Sweep{Model: s.Model, values: map[string][]float64{}}
	for n, all := range s.values {
		next.values[n] = all
	}
	next.values[name] = values
	return next
}

// Of returns the values of a setting.
func (s *Sweep) Of(name string) []float64 { return s.values[name] }

// Varied returns the settings that have several values.
func (s *Sweep) Varied() (all []*Setting) {
	for i := range s.Model.Settings {
		if len(s.values[s.Model.Settings[i].Name]) > 1 {
			all = append(all, &s.Model.Settings[i])
		}
	}
	return all
}

// Points returns all combinations; the values of the last setting change first.
func (s *Sweep) Points() []Point {
	points := []Point{{}}
	for i := range s.Model.Settings {
		name := s.Model.Settings[i].Name
		var next []Point
		for _, p := range points {
			for _, v := range s.values[name] {
				q := Point{name: v}
				for n, w := range p {
					q[n] = w
				}
				next = append(next, q)
			}
		}
		points = next
	}
	return points
}
