// Package page writes one run as one file: HTML that works without a network, or Markdown. For
// CI services it writes what became of several runs, as JUnit's XML or Markdown.
// Everything in it may be chosen by a job, a site or the author of a Beefile. So each text
// is shown and nothing else: no text becomes markup, a link, a script or a colour. The
// package reads no records; its input is what `bee show` prints.
package page

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
)

// Page is what a file has about a run.
type Page struct {
	ID, Name, State string
	// Meaning is the state in a sentence of BEE's own, and Why what the run waits for or why
	// it ended.
	Meaning, Why string
	// Began and Ended bound the run; of a run that is not over, Ended is now.
	Began, Ended time.Time
	// Blocks are the tables of `bee show`.
	Blocks []Block
	// Time is what the run's time went to, longest first, with a duration for people.
	Time     []Use
	TimeLine []report.Stretch
	// Curves are the numbers that the job has printed.
	Curves []Curve
	// Plots are what the nodes have used.
	Plots []Plot
	// Checkpoints are the times of those that are kept.
	Checkpoints []time.Time
	Outputs     []Output
	// Pictures are those among the outputs.
	Pictures []Picture
	// Beefile is the job as it was submitted, and Log the end of what it printed.
	Beefile, Log string
	// LogOf names the attempt of the log; "": nothing was printed. LogCut is set where
	// only the end is there.
	LogOf  string
	LogCut bool
	// Problems are what could not be read for the page.
	Problems []string
	// Version is that of bee, and Made when the page was written.
	Version string
	Made    time.Time
}

// Block is a table of names and values. The first row of all blocks but the first is its
// title.
type Block []Row

// Row is a name with its value.
type Row struct{ Name, Value string }

// Use is a use of the run's time.
type Use struct {
	On         report.Use
	Text, Took string
	Seconds    float64
}

// Output is a directory on the submitting machine with what was collected there.
type Output struct {
	To    string
	Names []string
	// More is how many further ones there are.
	More int
}

// maxText bounds a text of the page, in bytes.
const maxText = 1 << 20

// shown is a text as it is shown: without characters that control a terminal, or the
// direction of text.
func shown(text string) string { return core.Printable(text, maxText) }

// letterOf returns the letter that stands for a use in the time line.
func letterOf(on report.Use) string {
	for i, u := range report.Uses() {
		if u.On == on {
			return string(rune('A' + i))
		}
	}
	return "?"
}

// title is the head line of the page.
func (p *Page) title() string { return "Run " + p.Name + " (" + p.ID + "): " + p.State }

// shareOf is a use's part of the time of all uses, in percent.
func shareOf(u Use, all []Use) float64 {
	total := 0.0
	for _, each := range all {
		total += each.Seconds
	}
	if total <= 0 {
		return 0
	}
	return 100 * u.Seconds / total
}
