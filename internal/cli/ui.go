package cli

import (
	"encoding/json"
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

func (a *app) writeJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// writeJSONLine writes JSON on one line.
func (a *app) writeJSONLine(v any) error { return json.NewEncoder(a.stdout).Encode(v) }

// progress shows what a run does: on a terminal one line that changes, with
// what is worth keeping above it; elsewhere plain lines.
type progress struct {
	mu       sync.Mutex
	out      io.Writer // messages
	stdout   io.Writer // the task's
	stderr   io.Writer
	live     bool // a terminal
	quiet    bool
	status   output.StatusLine
	held     *heldOutput  // while a question is open; nil: none is
	lent     bool         // standard input is the job's: nothing is asked
	attached bool         // so is the terminal, now
	late     []plan.Event // that came meanwhile
	open     bool         // the terminal shows a line of the task's that has no end yet
	last     time.Time
	lastText string
	since    plan.Event // the first of the long step that is shown
	lost     error      // why the task's output is not shown any more
}

func newProgress(a *app, quiet bool) *progress {
	return &progress{out: a.on(a.stderr), stdout: a.stdout, stderr: a.stderr, live: output.IsTerminal(a.stderr) && output.IsSmart(), quiet: quiet, status: output.NewStatusLine(a.stderr)}
}

// report takes an event of control or of the head.
func (p *progress) report(e plan.Event) {
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
		p.clear()
		output.On(p.out, output.Auto).Say("%s", e.Message)
	case e.Begin && slices.Contains([]core.Phase{core.PhaseSetup, core.PhaseRun, core.PhasePost}, e.Phase): // the terminal is the job's now
		if p.status.Shown() {
			p.clear()
		}
	case e.Begin && p.live:
		p.show(phaseText(e.Phase))
	}
}

// step shows how far a long step is, how fast it goes and, where that is known, how
// long it may still take: at once on a terminal, every ten seconds elsewhere.
func (p *progress) step(e plan.Event) {
	text, now := printable(e.Message), time.Now()
	if e.Message != p.since.Message || e.Done < p.since.Done {
		p.since = e
		p.since.Time = now
	}
	if e.Waited > 0 {
		text += " after " + e.Waited.Round(time.Second).String()
	} else if e.Total > 0 {
		text += fmt.Sprintf(" %s of %s (%d %%)", bytesText(e.Done), bytesText(e.Total), 100*e.Done/e.Total)
	} else if e.Done > 0 {
		text += " " + bytesText(e.Done)
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
	text := ", " + bytesText(int64(rate)) + "/s"
	if left > 0 {
		text += ", " + time.Duration(float64(left)/rate*float64(time.Second)).Round(time.Second).String() + " left"
	}
	return text
}

func (p *progress) show(text string) {
	if p.live {
		if p.held != nil {
			return
		}
		if p.open {
			p.clear()
		}
		p.status.Show(text)
	} else if text != p.lastText {
		output.On(p.out, output.Auto).Say("%s", text)
	}
	p.lastText = text
}

func (p *progress) clear() {
	p.status.Clear()
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}

// output writes a piece of the task's output.
func (p *progress) output(f tasklog.Frame) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held != nil && p.held.keep(f) {
		return nil
	}
	p.write(f)
	return nil
}

// write shows a piece of the task's output.
func (p *progress) write(f tasklog.Frame) {
	if p.status.Shown() {
		p.clear()
	}
	w := p.stdout
	if f.Stream == tasklog.Stderr {
		w = p.stderr
	}
	if p.lost != nil {
		return
	}
	_, p.lost = w.Write(f.Data)
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
func (p *progress) answered() {
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

func bytesText(n int64) string {
	const units = "kMGTP"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/1000, 0
	for v >= 1000 && i < len(units)-1 {
		v, i = v/1000, i+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[i])
}

// costText is a cost as people read it, in the currency of the sites file: what costs
// something never costs 0.00.
func costText(c float64) string {
	if c > 0 && c < 0.005 {
		return "<0.01"
	}
	return fmt.Sprintf("%.2f", c)
}

// durationText is a duration as people read it. A clock that was put back in
// the meantime makes none of them negative.
func durationText(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// note shows a message that is not an event.
func (p *progress) note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.attached {
		if len(p.late) < maxLate {
			p.late = append(p.late, plan.Event{Message: text})
		}
		return
	}
	p.clear()
	if !p.quiet {
		output.On(p.out, output.Auto).Say("%s", text)
	}
}

// silence ends all writing, after the terminal has gone.
func (p *progress) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out, p.stdout, p.stderr, p.live, p.status = io.Discard, io.Discard, io.Discard, false, output.NewStatusLine(io.Discard)
}

// answer is what a user wants of a run on Ctrl-C.
type answer int

const (
	goOn answer = iota
	stopIt
	detach
)

// asks reports whether there is a person to ask.
func (p *progress) asks() bool {
	return !p.lent && output.IsTerminal(p.out) && output.IsTerminal(os.Stdin)
}

// askStop asks what a Ctrl-C is to mean. Without a terminal to ask on, and on
// a second Ctrl-C, it means stop.
func (p *progress) askStop(run string, signals <-chan os.Signal) answer {
	if !p.asks() {
		return stopIt
	}
	p.mu.Lock()
	p.clear()
	fmt.Fprintf(p.out, "\nbee: stop run %s? [y]es, stop it / [d]etach, it continues in the background / [N]o: ", run)
	p.held = &heldOutput{}
	p.mu.Unlock()
	defer p.answered()
	answers := make(chan string, 1)
	go func() {
		var word string
		fmt.Fscanln(os.Stdin, &word) //nolint:errcheck // an empty answer is an answer
		answers <- word
	}()
	select {
	case <-signals:
		fmt.Fprintln(p.out) // below the question
		return stopIt
	case word := <-answers:
		switch strings.ToLower(word) {
		case "y", "yes":
			return stopIt
		case "d", "detach":
			return detach
		}
	}
	p.note("it goes on")
	return goOn
}
