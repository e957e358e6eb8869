// Package console is what commands share of the terminal: standard output and
// error, messages, errors with their exit codes, progress, questions, and the
// texts of sizes and times. It opens neither state nor sites.
package console

import (
	"encoding/json"
	"io"
	"log/slog"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
)

// Console is where a command writes, and how.
type Console struct {
	Verbose bool
	Color   output.Color
	// JSONErrors has errors written as JSON, for programs that call bee.
	JSONErrors bool
	Stdout     io.Writer
	Stderr     io.Writer
}

// JSONHelp is the help text of --json.
const JSONHelp = "write JSON"

// Log returns a log on standard error.
func (a *Console) Log() *slog.Logger {
	level := slog.LevelWarn
	if a.Verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{Level: level}))
}

// On returns what a stream can show.
func (a *Console) On(w io.Writer) *output.Screen { return output.On(w, a.Color) }

// Say writes a message on standard error.
func (a *Console) Say(format string, args ...any) { a.On(a.Stderr).Say(format, args...) }

// PrintError writes an error on standard error.
func (a *Console) PrintError(err error) {
	if a.JSONErrors {
		core.BestEffort(json.NewEncoder(a.Stderr).Encode(FailureOf(err))) // there is nobody else to report it to
		return
	}
	a.On(a.Stderr).Error(err)
}

// WriteJSON writes JSON that is indented.
func (a *Console) WriteJSON(v any) error {
	e := json.NewEncoder(a.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// WriteJSONLine writes JSON on one line.
func (a *Console) WriteJSONLine(v any) error { return json.NewEncoder(a.Stdout).Encode(v) }
