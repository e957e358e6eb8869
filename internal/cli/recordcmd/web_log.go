package recordcmd

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/web"
)

// What a page reads of a log at once, and how many lines a search finds at most.
const (
	webLogBytes = 64 << 10
	webFound    = 200
	webFindLine = 16 << 10
)

// errPart ends a part of a log.
var errPart = errors.New("the part is whole")

// Log implements web.Records. Of a log that was collected, only the part is read.
func (w *webRecords) Log(ctx context.Context, id string, part web.LogPart, show func(web.LogPiece) error) error {
	run, err := w.s.Store.Run(ctx, id)
	if err != nil {
		return err
	}
	number := 0
	if run.Case.Pack != "" {
		number = run.Case.Number
		if run, err = w.s.Store.Run(ctx, run.Case.Pack); err != nil {
			return err
		}
	}
	attempts, err := w.s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if part.Attempt < 0 || part.Attempt > len(attempts) {
		return noAttempt(run.ID, part.Attempt)
	}
	if part.Attempt == 0 {
		part.Attempt = w.lastLog(run, len(attempts))
	}
	if part.Attempt == 0 {
		return nil
	}
	l := &webLog{part: part, number: number, show: show}
	rest := fsutil.Backoff{First: shortRest, Longest: longRest}
	for {
		before := l.next
		// In this order: of an attempt that has one after it, all output is here that ever
		// will be.
		if run, attempts, err = w.withAttempts(ctx, run.ID); err != nil {
			return err
		}
		past := part.Attempt < len(attempts)
		home := control.OutputLog(w.s.Store.RunDir(run.ID), part.Attempt)
		collected := workspace.There(home)
		switch {
		case collected:
			err = l.collected(ctx, home)
		case !past && part.Attempt <= len(attempts) && mayPrint(attempts[part.Attempt-1]):
			err = l.live(ctx, w.s, run)
		}
		if errors.Is(err, errPart) {
			return nil
		}
		if err == nil && (!part.Follow || collected || past || run.State.Final()) {
			return l.rest()
		}
		if err != nil && !(part.Follow && core.IsKind(err, core.Transient)) {
			return err
		}
		if l.next != before {
			rest.Reset()
		}
		if err := rest.Wait(ctx); err != nil {
			return err
		}
	}
}

// mayPrint reports whether an attempt may have a head that passes on its log.
func mayPrint(at state.Attempt) bool {
	return at.State != state.Acquiring && at.State != state.Staging && at.State != state.InQueue
}

// lastLog is the last attempt that may have printed something; 0: none.
func (w *webRecords) lastLog(run state.Run, attempts int) int {
	for n := attempts; n > 1; n-- {
		if !run.State.Final() || workspace.There(control.OutputLog(w.s.Store.RunDir(run.ID), n)) {
			return n
		}
	}
	return min(attempts, 1)
}

// webLog passes on a part of the log of an attempt.
type webLog struct {
	part   web.LogPart
	number int // of a case of a pack; 0: all
	show   func(web.LogPiece) error

	begun bool
	next  int64 // the offset of the next frame
	sent  int64
	found int
	line  []byte        // of a search, the beginning of a line
	at    int64         // where that began
	last  tasklog.Frame // without its data
}

// collected reads from a file here.
func (l *webLog) collected(ctx context.Context, path string) error {
	f, err := openPlain(path) // a site may have left a link or a FIFO in its place
	if err != nil {
		return err
	}
	f.Close()
	if !l.begun {
		l.begun, l.next = true, max(l.part.From, 0)
		if l.part.From < 0 && l.part.Find == "" {
			if l.next, err = tasklog.Start(path, l.part.Before, webLogBytes); err != nil {
				return err
			}
		}
	}
	return tasklog.Read(ctx, path, l.next, func(f tasklog.Frame) error { return l.frame(f) })
}

// live reads from the head. Where the end of the log is asked for, all of it is passed on by
// the head, and the beginning is dropped here.
func (l *webLog) live(ctx context.Context, s *workspace.Session, run state.Run) error {
	n := l.part.Attempt
	if !l.begun && l.part.From < 0 && l.part.Find == "" {
		var kept []tasklog.Frame
		size := 0
		err := liveOutput(ctx, s, run, n, 0, false, func(f tasklog.Frame) error {
			if l.part.Before > 0 && f.Next > l.part.Before {
				return errPart
			}
			f.Data = slices.Clone(f.Data)
			kept, size = append(kept, f), size+len(f.Data)
			for len(kept) > 1 && size-len(kept[0].Data) > webLogBytes {
				size -= len(kept[0].Data)
				kept = kept[1:]
			}
			return nil
		})
		if err != nil && !errors.Is(err, errPart) {
			return err
		}
		if len(kept) > 0 {
			l.begun, l.next = true, kept[0].Next-kept[0].Bytes()
		}
		for _, f := range kept {
			if err := l.frame(f); err != nil {
				return err
			}
		}
		if err != nil || !l.part.Follow {
			return err
		}
	}
	if !l.begun {
		l.begun, l.next = true, max(l.part.From, 0)
	}
	return liveOutput(ctx, s, run, n, l.next, l.part.Follow, l.frame)
}

// frame passes on a frame of the log, if it is of the part.
func (l *webLog) frame(f tasklog.Frame) error {
	at := f.Next - f.Bytes()
	if l.part.Before > 0 && at >= l.part.Before {
		return errPart
	}
	l.next = f.Next
	if l.number > 0 && f.Case != l.number {
		return nil
	}
	if l.part.Find != "" {
		return l.search(f, at)
	}
	if err := l.pass(f, at, f.Data); err != nil {
		return err
	}
	if l.sent += int64(len(f.Data)); !l.part.Follow && l.part.From >= 0 && l.sent >= webLogBytes {
		return errPart
	}
	return nil
}

// search passes on the lines of a frame that have the text.
func (l *webLog) search(f tasklog.Frame, at int64) error {
	l.last = tasklog.Frame{Stream: f.Stream, Time: f.Time, Next: f.Next}
	for rest := f.Data; len(rest) > 0; {
		line, more, whole := bytes.Cut(rest, []byte("\n"))
		if len(l.line) == 0 {
			l.at = at
		}
		rest, l.line = more, append(l.line, line[:min(len(line), webFindLine)]...)
		if !whole && len(l.line) < webFindLine {
			return nil // it continues in the next frame
		}
		is := bytes.Contains(l.line, []byte(l.part.Find))
		text := append(l.line, '\n')
		l.line = l.line[:0]
		if !is {
			continue
		}
		if err := l.pass(f, l.at, text); err != nil {
			return err
		}
		if l.found++; l.found == webFound {
			return errPart
		}
	}
	return nil
}

// rest ends a search: the last line may have no end.
func (l *webLog) rest() error {
	if !bytes.Contains(l.line, []byte(l.part.Find)) || len(l.line) == 0 {
		return nil
	}
	return l.pass(l.last, l.at, l.line)
}

func (l *webLog) pass(f tasklog.Frame, at int64, data []byte) error {
	stream := "stdout"
	if f.Stream == tasklog.Stderr {
		stream = "stderr"
	}
	return l.show(web.LogPiece{Attempt: l.part.Attempt, Time: f.Time, Stream: stream, Text: core.Printable(string(data), 4*len(data)+64), At: at, Next: f.Next})
}
