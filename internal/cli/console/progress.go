package console

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// Attach lends the terminal to the job. Messages of BEE wait until detached is called.
func (p *Progress) Attach() (detached func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Clear()
	cooked, err := RawTerminal()
	if err != nil { // the terminal is gone, and the input ends with it
		return func() {}
	}
	p.attached = true
	var once sync.Once
	return func() {
		once.Do(func() {
			cooked()
			p.mu.Lock()
			p.attached = false
			late := p.late
			p.late = nil
			p.mu.Unlock()
			for _, e := range late {
				p.Report(e)
			}
		})
	}
}

// maxLate bounds the messages that wait while the terminal is the job's.
const maxLate = 100

// Progress shows what a run does: on a terminal one line that changes, with
// what is worth keeping above it; elsewhere plain lines.
type Progress struct {
	mu       sync.Mutex
	out      io.Writer // messages
	Stdout   io.Writer // the task's
	stderr   io.Writer
	live     bool // a terminal
	quiet    bool
	status   output.StatusLine
	held     *heldOutput  // while a question is open; nil: none is
	Lent     bool         // standard input is the job's: nothing is asked
	attached bool         // so is the terminal, now
	late     []plan.Event // that came meanwhile
	open     bool         // the terminal shows a line of the task's that has no end yet
	last     time.Time
	lastText string
	since    plan.Event // the first of the long step that is shown
	Lost     error      // why the task's output is not shown any more
}

// NewProgress returns what shows the progress of a run.
func NewProgress(a *Console, quiet bool) *Progress {
	return &Progress{out: a.On(a.Stderr), Stdout: a.Stdout, stderr: a.Stderr, live: output.IsTerminal(a.Stderr) && output.IsSmart(), quiet: quiet, status: output.NewStatusLine(a.Stderr)}
}

// Report takes an event of control or of the head.
func (p *Progress) Report(e plan.Event) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached {
		if e.Message != "" && e.Total == 0 && e.Done == 0 && e.Waited == 0 && len(p.late) < maxLate {
			p.late = append(p.late, e)
		}
		return
	}
	switch {
	case e.Total > 0 || e.Done > 0 || e.Waited > 0:
		p.step(e)
	case e.Message != "":
		p.Clear()
		output.On(p.out, output.Auto).Say("%s", e.Message)
	case e.Begin && slices.Contains([]core.Phase{core.PhaseSetup, core.PhaseRun, core.PhasePost}, e.Phase): // the terminal is the job's now
		if p.status.Shown() {
			p.Clear()
		}
	case e.Begin && p.live:
		p.show(phaseText(e.Phase))
	}
}

// step shows how far a long step is, how fast it goes and, where that is known, how
// long it may still take: at once on a terminal, every ten seconds elsewhere.
func (p *Progress) step(e plan.Event) {
	text, now := output.Printable(e.Message), time.Now()
	if e.Message != p.since.Message || e.Done < p.since.Done {
		p.since = e
		p.since.Time = now
	}
	if e.Waited > 0 {
		text += " after " + e.Waited.Round(time.Second).String()
	} else if e.Total > 0 {
		text += fmt.Sprintf(" %s of %s (%d %%)", BytesText(e.Done), BytesText(e.Total), 100*e.Done/e.Total)
	} else if e.Done > 0 {
		text += " " + BytesText(e.Done)
	}
	text += rateText(e.Done-p.since.Done, e.Total-e.Done, now.Sub(p.since.Time))
	pause := 10 * time.Second
	if p.live {
		pause = 100 * time.Millisecond
	}
	if now.Sub(p.last) >= pause {
		p.last = now
		p.show(text)
	}
}

// rateText reports how fast so many bytes went, once it can be reported, and how long what is
// left takes at that rate.
func rateText(done, left int64, took time.Duration) string {
	if took < time.Second || done <= 0 {
		return ""
	}
	rate := float64(done) / took.Seconds()
	text := ", " + BytesText(int64(rate)) + "/s"
	if left > 0 {
		text += ", " + time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second).String() + " left"
	}
	return text
}

func (p *Progress) show(text string) {
	if p.live {
		if p.held != nil {
			return
		}
		if p.open {
			p.Clear()
		}
		p.status.Show(text)
	} else if text != p.lastText {
		output.On(p.out, output.Auto).Say("%s", text)
	}
	p.lastText = text
}

// Clear removes the line that changes.
func (p *Progress) Clear() {
	p.status.Clear()
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}

// Output writes a piece of the task's output.
func (p *Progress) Output(f tasklog.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil && p.held.keep(f) {
		return nil
	}
	p.write(f)
	return nil
}

// write shows a piece of the task's output.
func (p *Progress) write(f tasklog.Frame) {
	if p.status.Shown() {
		p.Clear()
	}
	w := p.Stdout
	if f.Stream == tasklog.Stderr {
		w = p.stderr
	}
	if p.Lost != nil {
		return
	}
	_, p.Lost = w.Write(f.Data)
	if p.live && !p.quiet && len(f.Data) > 0 && output.IsTerminal(w) {
		p.open = f.Data[len(f.Data)-1] != '\n'
	}
}

// heldOutput is what the task writes while a question is open, up to a bound.
type heldOutput struct {
	frames []tasklog.Frame
	size   int
}

// maxHeld bounds what is held, in bytes: a question may be open for days.
const maxHeld = 4 << 20

// keep holds a piece, unless there is too much already.
func (h *heldOutput) keep(f tasklog.Frame) bool {
	if h.size+len(f.Data) > maxHeld {
		return false
	}
	f.Data = slices.Clone(f.Data)
	h.frames = append(h.frames, f)
	h.size += len(f.Data)
	return true
}

// answered shows what the task has written in the meantime.
func (p *Progress) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held
	p.held = nil
	if held == nil {
		return
	}
	for _, f := range held.frames {
		p.write(f)
	}
}

func phaseText(p core.Phase) string {
	switch p {
	case core.PhaseAcquire:
		return "getting hosts"
	case core.PhaseQueue:
		return "waiting in the site's queue"
	case core.PhaseStage:
		return "bringing image and inputs there"
	case core.PhaseLaunch:
		return "starting nodes"
	case core.PhaseJoin:
		return "waiting for all nodes"
	case core.PhaseImage:
		return "preparing the image"
	case core.PhaseStart:
		return "starting containers"
	case core.PhaseCheckpoint:
		return "the job writes its checkpoint"
	case core.PhaseCollect:
		return "bringing the outputs home"
	case core.PhaseRelease:
		return "cleaning up"
	}
	return string(p)
}

// Note shows a message that is not an event.
func (p *Progress) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached {
		if len(p.late) < maxLate {
			p.late = append(p.late, plan.Event{Message: text})
		}
		return
	}
	p.Clear()
	if !p.quiet {
		output.On(p.out, output.Auto).Say("%s", text)
	}
}

// Silence ends all writing, after the terminal has gone.
func (p *Progress) Silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out, p.Stdout, p.stderr, p.live, p.status = io.Discard, io.Discard, io.Discard, false, output.NewStatusLine(io.Discard)
}

// Answer is what a user wants of a run on Ctrl-C.
type Answer int

const (
	Continue Answer = iota
	Stop
	Detach
)

// Asks reports whether there is a person to ask.
func (p *Progress) Asks() bool {
	return !p.Lent && output.IsTerminal(p.out) && output.IsTerminal(os.Stdin)
}

// AskStop asks what a Ctrl-C is to mean for runs, such as "run 1a2b". Without a terminal to ask
// on, and on a second Ctrl-C, it means stop.
func (p *Progress) AskStop(what string, signals <-chan os.Signal) Answer {
	if !p.Asks() {
		return Stop
	}
	p.mu.Lock()
	p.Clear()
	fmt.Fprintf(p.out, "\nbee: stop %s? [y]es, stop / [d]etach, continue in the background / [N]o: ", what)
	p.held = &heldOutput{}
	p.mu.Unlock()
	defer p.answered()
	answers := make(chan string, 1)
	go func() {
		var word string
		core.BestEffort(fmt.Fscanln(os.Stdin, &word)) // an empty answer is an answer
		answers <- word
	}()
	select {
	case <-signals:
		fmt.Fprintln(p.out) // below the question
		return Stop
	case word := <-answers:
		switch strings.ToLower(word) {
		case "y", "yes":
			return Stop
		case "d", "detach":
			return Detach
		}
	}
	p.Note("it continues")
	return Continue
}
