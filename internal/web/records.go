// Package web serves pages about runs to the browser of their user: sessions, checks of
// requests, and the files of the pages. Its facts are those of the command line, which the
// caller gives as Records. It knows no run, site or terminal.
//
// A request is answered if it has a cookie of this process and, for anything about runs, the
// key that only pages of this origin know. Browsers send a cookie to all ports of a name, so
// that a cookie alone proves nothing.
package web

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/report/page"
)

// Records are the facts that pages show, and what their user asks of runs. What is any is written as JSON,
// in the form of the command that is named.
type Records interface {
	// Runs returns the runs that a query asks for, as `bee ps --json` has them.
	Runs(ctx context.Context, query url.Values) (any, error)
	// Run is a run as `bee show --json` has it.
	Run(ctx context.Context, id string) (any, error)
	// Array is an array with a grid of its first cases, as `bee report` writes it, by the parameters and the metric of a query.
	Array(ctx context.Context, id string, query url.Values) (any, error)
	// Compare is two runs side by side, as `bee compare` shows them.
	Compare(ctx context.Context, first, second string) (any, error)
	// Measured is what a run has printed of numbers, as `bee metrics --json` has it.
	Measured(ctx context.Context, id string) (any, error)
	// Page is a run as `bee report` writes it, without its log.
	Page(ctx context.Context, id string) (*page.Page, error)
	// Log passes on pieces of what a run printed, oldest first.
	Log(ctx context.Context, id string, part LogPart, show func(LogPiece) error) error
	// Actions are what the user can ask of a run now.
	Actions(ctx context.Context, id string) ([]report.Action, error)
	// Act asks something of a run, as the command of that action does. It continues where the
	// browser goes away. Invalid: the run has another attempt than the one that is meant.
	Act(ctx context.Context, id string, asked Asked) (Done, error)
	// Outputs are the files that were collected of a run.
	Outputs(ctx context.Context, id string) ([]Place, error)
	// Sites are the sites of the user, with what is recorded of them.
	Sites(ctx context.Context) (any, error)
	// Events passes on events from now on, as `bee events` writes them, until the context ends.
	Events(ctx context.Context, show func(any) error) error
	// Metrics writes what `bee metrics` prints.
	Metrics(ctx context.Context, w io.Writer) error
}

// LogPart is a part of the log of an attempt.
type LogPart struct {
	// Attempt counts from 1; 0 is the last one that printed anything.
	Attempt int
	// From is the offset of the first piece. Below 0: the part ends at Before.
	From int64
	// Before is the offset at which the part ends; 0: at the end of the log.
	Before int64
	// Find selects lines that contain this text.
	Find string
	// Follow continues with what the attempt prints from then on.
	Follow bool
}

// LogPiece is a piece of a log.
type LogPiece struct {
	Attempt int       `json:"attempt"`
	Time    time.Time `json:"time"`
	Stream  string    `json:"stream"`
	Text    string    `json:"text"`
	// At and Next are the offsets of this piece and of the next one.
	At   int64 `json:"at"`
	Next int64 `json:"next"`
}

// Place is a directory with outputs of a run.
type Place struct {
	To    string `json:"to"`
	Files []File `json:"files"`
	// More is set where there are further files.
	More bool `json:"more,omitempty"`
}

// File is a file in a Place.
type File struct {
	// Name is its path in the place.
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
}
