package page

import (
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Results is what became of runs, for programs that show tests: the cases of an array, or one
// run alone.
type Results struct {
	// Name is that of the array or the run; of what could not be started, what the user named.
	Name string
	// ID is that of the array; "": there is none.
	ID    string
	Cases []Result
	// Page is that of a run alone; nil: there are several, or none.
	Page *Page
	// Version is that of bee, and Made when the results were written.
	Version string
	Made    time.Time
}

// Result is how one run ended.
type Result struct {
	// Name is the same each time, so that it has no id in it.
	Name string
	ID   string
	// State is the run's, or what else became of it.
	State   string
	Outcome Outcome
	// Kind is that of the error, or what the command ended with. Meaning is a sentence of BEE's
	// own; Message and Remedy may quote others.
	Kind, Meaning, Message, Remedy string
	Site                           string
	Began                          time.Time
	Took                           time.Duration
	// Log is the end of what it printed.
	Log string
}

// Outcome is how a test ended, in the words of JUnit.
type Outcome int

// The outcomes.
const (
	Passed Outcome = iota
	// Failed is a command of the job that ended with another code than 0.
	Failed
	// Errored is all else for which there is no success.
	Errored
	// Skipped is what was not run, as nothing has changed since it succeeded.
	Skipped
	// Open is what is not over.
	Open
)

// MostLogs is of how many results a log is shown, and mostExplained for how many the whole
// reason.
const (
	MostLogs      = 10
	mostExplained = 1000
)

// Bounds of texts in results, in bytes. CI services refuse larger files: GitHub a summary of
// 1 MiB, GitLab a report of 30 MB.
const (
	maxName   = 256
	maxReason = 4 << 10
	maxLog    = 32 << 10
	// maxPart bounds a block of a page in Markdown: the end of a log of 64 KiB, in which each
	// character is a control character.
	maxPart = 256 << 10
)

// named is a name as it is shown in a list.
func named(text string) string { return lineOf(text, maxName) }

// lineOf is a text as it is shown in one line of at most so many bytes.
func lineOf(text string, most int) string {
	return core.Printable(oneLine(text[:min(len(text), most+1)]), most) // one more, so that a cut shows
}

// reason is why a run did not succeed, in one line.
func (r *Result) reason() string {
	text := r.Message
	if text == "" {
		text = r.Meaning
	}
	return lineOf(text, maxReason)
}

// log is the end of what the run has printed: where that is too much, the end of it.
func (r *Result) log() string {
	text := r.Log
	if len(text) > maxLog {
		text = text[len(text)-maxLog:]
	}
	return core.Printable(text, 2*maxLog)
}

// count is how many results have an outcome.
func (r *Results) count(of Outcome) int {
	n := 0
	for i := range r.Cases {
		if r.Cases[i].Outcome == of {
			n++
		}
	}
	return n
}

// began is when the first of them was submitted.
func (r *Results) began() time.Time {
	first := r.Made
	for i := range r.Cases {
		if at := r.Cases[i].Began; !at.IsZero() && at.Before(first) {
			first = at
		}
	}
	return first
}
