package workspace

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report/page"
	"github.com/spf13/pflag"
)

// ResultFiles are where a command writes what became of runs, for CI services.
type ResultFiles struct{ junit, summary, dotenv string }

// Flags adds the flags of the files to those of a command.
func (r *ResultFiles) Flags(f *pflag.FlagSet) {
	f.StringVar(&r.junit, "junit", "", "write to this `file` what became of each run, as JUnit's XML")
	f.StringVar(&r.summary, "summary", "", "write a report in Markdown to this `file`")
	f.StringVar(&r.dotenv, "dotenv", "", "write id and state of the run, and the file of --summary, to this `file` as variables")
}

// Wanted reports whether there are any.
func (r ResultFiles) Wanted() bool { return r.junit+r.summary+r.dotenv != "" }

// Prepare makes the directories of the files, and removes those of an earlier command, which
// must not be taken for this one's.
func (r ResultFiles) Prepare() error {
	for _, file := range []string{r.junit, r.summary, r.dotenv} {
		if file == "" {
			continue
		}
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			if err = os.Remove(file); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err == nil {
			var trial *fsutil.NewFile
			if trial, err = fsutil.Create(file, 0o600); err == nil {
				trial.Discard()
			}
		}
		if err != nil {
			return unwritten(file, err)
		}
	}
	return nil
}

// Write writes the files.
func (r ResultFiles) Write(results *page.Results) error {
	for _, one := range []struct {
		file  string
		write func(io.Writer) error
	}{{r.junit, results.JUnit}, {r.summary, results.Summary}, {r.dotenv, func(w io.Writer) error { return results.Dotenv(w, r.summary) }}} {
		if err := writeResult(one.file, one.write); err != nil {
			return err
		}
	}
	return nil
}

// WriteLeft writes what is known of runs and arrays that this command leaves to a ticket: no report.
func (r ResultFiles) WriteLeft(ids []string, state string) error {
	var left page.Results
	for _, id := range ids {
		left.Cases = append(left.Cases, page.Result{ID: id, State: state, Outcome: page.Errored})
	}
	return writeResult(r.dotenv, func(w io.Writer) error { return left.Dotenv(w, "") })
}

// writeResult writes a file, if one is named.
func writeResult(file string, write func(io.Writer) error) error {
	if file == "" {
		return nil
	}
	var b bytes.Buffer
	err := write(&b)
	if err == nil {
		err = fsutil.WriteFile(file, b.Bytes(), 0o600)
	}
	if err != nil {
		return unwritten(file, err)
	}
	return nil
}

func unwritten(file string, err error) error {
	return &core.Error{Kind: core.Invalid, Op: "write the results to", Object: file, Err: err, Remedy: "Name a file in a directory of yours. `bee report --markdown` writes the report of a run that is over."}
}

// Failure writes files about a command that has failed, unless a run has ended with a code,
// and returns the error of the command. what is what the command was about.
func (a *Workspace) Failure(files ResultFiles, what string, failed error) error {
	if _, reported := errors.AsType[console.Exit](failed); failed == nil || reported || !files.Wanted() {
		return failed
	}
	now := time.Now()
	err := files.Write(&page.Results{Name: what, Version: a.Version, Made: now, Cases: []page.Result{{
		Name: what, Outcome: page.Errored, Kind: core.KindOf(failed).String(), Began: now,
		Meaning: "bee ended with an error of its own.", Message: failed.Error(), Remedy: core.Remedy(failed),
	}}})
	if err != nil {
		a.PrintError(err)
	}
	return failed
}

// Reported writes files about runs that are over by what write makes of them, and returns
// ending, or where that is nil, why they could not be written.
func (a *Workspace) Reported(files ResultFiles, ending error, write func() error) error {
	if !files.Wanted() {
		return ending
	}
	err := write()
	if ending == nil {
		return err
	}
	if err != nil {
		a.PrintError(err)
	}
	return ending
}
