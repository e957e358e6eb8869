// Package scaffold writes first Beefiles: for a directory of files, and from the job files
// of other tools. It is given names and texts, and touches no file.
package scaffold

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/bee-hpc/bee/internal/spec"
)

// Result is a Beefile with what belongs to it.
type Result struct {
	// Beefile is its text. It passes `bee check`, as far as no file is missing.
	Beefile string
	// Files are others to write beside the Beefile, by name.
	Files map[string]string
	// Notes are what was not converted, or is to be looked at: a line each.
	Notes []string
}

// plainName is a name that neither a shell, a pattern nor YAML reads otherwise.
var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*$`)

// draft collects what a foreign file says.
type draft struct {
	from  string // what the file is, such as "docker run"
	job   spec.Job
	notes []string
	files map[string]string
}

func newDraft(from string) *draft {
	return &draft{from: from, job: spec.Job{Nodes: 1, Volume: spec.Volume{Path: "/work"}}}
}

func (d *draft) note(format string, args ...any) {
	d.notes = append(d.notes, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", " "))
}

// foreign notes an option or key of the other tool that a Beefile has no place for, with
// what BEE has in its place.
func (d *draft) foreign(name, value string) {
	shown := name
	if value != "" {
		shown += " " + short(value)
	}
	hint := spec.ForeignHint(strings.TrimLeft(name, "-"))
	if hint == "" {
		hint = "a Beefile has nothing like it"
	}
	d.note("%s: %s", shown, hint)
}

// short bounds a value that a note shows.
func short(value string) string {
	if text := []rune(value); len(text) > 60 {
		return string(text[:60]) + "…"
	}
	return value
}

func (d *draft) env(key, value string) {
	if !spec.IsVariable(key) {
		d.note("the variable %q: its name is none", short(key))
		return
	}
	if d.job.Env == nil {
		d.job.Env = map[string]string{}
	}
	d.job.Env[key] = value
}

// result prints the job. Without an image it gets one that exists, and a note.
func (d *draft) result() (Result, error) {
	if d.job.Image == "" && d.job.Build == nil {
		d.job.Image = "docker.io/library/debian:12"
		d.note("no image is named: set `image:` to the one with the job's programs")
	}
	text, err := d.job.Text()
	if err != nil {
		return Result{}, err
	}
	head := "# Made from " + d.from + " by bee init.\n"
	if len(d.notes) > 0 {
		head += "# Look at this:\n"
		for _, n := range d.notes {
			head += "#   " + n + "\n"
		}
	}
	return Result{Beefile: head + string(text), Files: d.files, Notes: d.notes}, nil
}
