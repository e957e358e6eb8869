package recordcmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/web"
)

// Actions implements web.Records.
func (w *webRecords) Actions(ctx context.Context, id string) ([]report.Action, error) {
	run, attempts, err := w.withAttempts(ctx, id)
	if err != nil {
		return nil, err
	}
	saving := report.NoSaving
	if sub, err := submission.Of(run); err == nil {
		switch job := sub.Job; {
		case job.Checkpoint == nil:
		case job.SavesVM():
			saving = report.SavesMachines
		case job.ContinuesAfterCheckpoint():
			saving = report.SavesAndContinues
		default:
			saving = report.SavesAndEnds
		}
	}
	var sites []string
	if f, err := w.a.FindSites(); err == nil { // else none can be chosen
		for _, s := range f.Sites {
			sites = append(sites, s.Name)
		}
	}
	list := report.ActionsOf(run, attempts, saving, sites)
	if list == nil {
		list = []report.Action{}
	}
	return list, nil
}

// webActTime is how long a command may take that a page has asked for.
const webActTime = 10 * time.Minute

// Act implements web.Records. The command is a process of its own: one of another bee takes its
// place where that one has launched the run. It has no terminal on which it could ask.
func (w *webRecords) Act(ctx context.Context, id string, asked web.Asked) (web.Done, error) {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return web.Done{}, err
	}
	words, err := actionWords(run.ID, asked)
	if err != nil {
		return web.Done{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), webActTime)
	defer cancel()
	global := []string{"--json-errors", "--state-dir", w.a.StateDir, "--cache", w.a.CacheDir}
	if w.a.Sites != "" {
		global = append(global, "--sites", w.a.Sites)
	}
	var out, printed bytes.Buffer
	c := exec.CommandContext(ctx, w.s.Binary, append(global, words...)...)
	c.Stdout, c.Stderr, c.WaitDelay = &out, &printed, time.Second
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = c.Run()
	done, failed := readPrinted(printed.String())
	if asked.Name == report.ActionAgain {
		done.Run = strings.TrimSpace(out.String())
	}
	switch {
	case failed != nil:
		return done, failed
	case err != nil:
		return done, &core.Error{Kind: core.Permanent, Op: "run bee " + words[0] + " for run", Object: id, Err: err, Remedy: "Run that command on a terminal."}
	}
	return done, nil
}

// actionWords are the arguments of bee for an action.
func actionWords(id string, asked web.Asked) ([]string, error) {
	attempt := "--attempt=" + strconv.Itoa(asked.Attempt)
	var site []string
	if asked.Site != "" {
		site = []string{"--site=" + asked.Site}
	}
	switch asked.Name {
	case report.ActionStop:
		return []string{"stop", "--no-wait", attempt, "--", id}, nil
	case report.ActionCheckpoint:
		return []string{"checkpoint", attempt, "--", id}, nil
	case report.ActionMove, report.ActionResume:
		return append(append([]string{string(asked.Name), attempt}, site...), "--", id), nil
	case report.ActionAgain: // of no attempt: it asks nothing of that run
		return []string{"run", "--detach", "--again=" + id}, nil
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "find action", Object: strconv.Quote(string(asked.Name)), Err: errors.New("there is none of that name"), Remedy: "Load the page again."}
}

// mostPrinted bounds a message of a command on a page, in bytes.
const mostPrinted = 4 << 10

// readPrinted returns the messages of a command and its error, if it wrote one.
func readPrinted(text string) (web.Done, error) {
	done := web.Done{Printed: []string{}}
	var failed error
	for line := range strings.Lines(text) {
		var f console.Failure
		if json.Unmarshal([]byte(line), &f) == nil && f.Error != nil {
			failed = &core.Error{Kind: core.KindNamed(f.Error.Kind), Err: errors.New(f.Error.Message), Remedy: f.Error.Remedy}
			continue
		}
		if line = strings.TrimSpace(strings.TrimPrefix(line, "bee: ")); line != "" {
			done.Printed = append(done.Printed, core.Printable(line, mostPrinted))
		}
	}
	return done, failed
}
