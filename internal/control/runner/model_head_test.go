package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/input"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
	"golang.org/x/sys/unix"
)

// modelHead is a head with its job.
type modelHead struct {
	l     *modelLease
	plan  *protocol.Plan
	skew  time.Duration // of its clock
	count int
	// lived is since when it is there, and its slot runs; begun, since when its
	// command, if it has begun.
	lived, begun time.Time
	// nodes tells what became of the others, by rank, and all is closed once they are
	// there.
	nodes   []int
	all     chan struct{}
	setUp   bool
	breaks  bool // it breaks off each connection
	again   bool // it saves itself in place of its end
	events  []protocol.Event
	over    chan struct{} // closed at its end, however it comes
	stopped chan struct{} // closed when a stop is asked for
	news    chan struct{} // closed, and made again, with every event
	ended   bool
}

// What may have become of a node.
const (
	absent = iota
	joined
	fallen
)

// join has another node come, which may have ended by then. The model is locked.
func (h *modelHead) join(rank int) {
	m := h.l.s.m
	if rank == 0 || h.ended || h.nodes[rank] != absent {
		return
	}
	if m.once("falls."+h.l.s.name, 40) {
		m.say("node %d of attempt %d ends before it joins", rank, h.l.owner.Attempt)
		h.nodes[rank] = fallen
		return
	}
	h.nodes[rank] = joined
	if !slices.Contains(h.nodes[1:], absent) && !slices.Contains(h.nodes[1:], fallen) {
		close(h.all)
	}
}

// madeName is the file that the job's setup makes in its volume.
const madeName = "made"

// runs has the job's command begin. The model is locked.
func (h *modelHead) runs() {
	m := h.l.s.m
	if _, err := os.Stat(filepath.Join(protocol.VolumeDir(h.l.dir), madeName)); m.setup && err != nil {
		m.amiss("attempt %d computes without what its setup has made", h.l.owner.Attempt)
	}
	h.begun = time.Now()
	h.journal(protocol.Event{Phase: core.PhaseRun, Begin: true})
}

// prepare is what comes before that: the other nodes join, and setup runs. until tells
// whether something else has come before.
func (h *modelHead) prepare(until func(<-chan struct{}, time.Duration) bool) bool {
	m, at := h.l.s.m, h.l.s.name
	if len(h.nodes) > 1 {
		h.tell(protocol.Event{Phase: core.PhaseJoin, Begin: true})
		if !until(h.all, h.plan.JoinTimeout) {
			return false
		}
		select {
		case <-h.all:
		default:
			h.result(&protocol.Result{Kind: core.Lost.String(), Message: "no word from a node"})
			return false
		}
		h.tell(protocol.Event{Phase: core.PhaseJoin, End: true})
	}
	if h.plan.Setup == nil {
		return true
	}
	h.tell(protocol.Event{Phase: core.PhaseSetup, Begin: true})
	m.mu.Lock()
	takes, fails := time.Duration(1+m.of("setup.for", 20))*time.Minute, m.once("setup.fails."+at, 15)
	m.mu.Unlock()
	if !until(nil, takes) {
		return false
	}
	h.tell(protocol.Event{Phase: core.PhaseSetup, End: true})
	if fails {
		m.mu.Lock()
		m.spoilt = true
		m.mu.Unlock()
		h.result(&protocol.Result{Exit: &core.Exit{Code: 3}, InSetup: true})
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return false
	}
	if err := writeSmall(filepath.Join(protocol.VolumeDir(h.l.dir), madeName), []byte("made")); err != nil {
		panic(err)
	}
	h.setUp = true
	h.journal(protocol.Event{SetupDone: true})
	return true
}

// tell is journal for who has not locked the model.
func (h *modelHead) tell(e protocol.Event) {
	h.l.s.m.mu.Lock()
	defer h.l.s.m.mu.Unlock()
	if !h.ended {
		h.journal(e)
	}
}

func (h *modelHead) journal(e protocol.Event) {
	e.Seq = int64(len(h.events) + 1)
	h.events = append(h.events, e)
	close(h.news)
	h.news = make(chan struct{})
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	if err := putSmall(protocol.EventsPath(h.l.dir), unix.O_APPEND, append(line, '\n')); err != nil {
		panic(err)
	}
}

// end ends the head without a result. The model is locked.
func (h *modelHead) end() {
	if !h.ended {
		h.ended = true
		close(h.over)
	}
}

// live is what becomes of the head, in its own time. The model is locked.
func (h *modelHead) live() {
	m, at := h.l.s.m, h.l.s.name
	h.lived = time.Now()
	h.begun = h.lived
	ready := len(h.nodes) == 1 && h.plan.Setup == nil
	if ready {
		h.runs()
	}
	fate := m.of("fate."+at, 16)
	when := time.Duration(1+m.of("fate.at", 90)) * time.Minute
	saves := m.of("saves."+at, 8)
	if h.l.s.cuts > 0 && m.once("parted."+at, 15) {
		time.AfterFunc(time.Duration(m.of("parted.at", 90))*time.Minute, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			h.l.s.part()
		})
	}
	if m.once("vanishes."+at, 12) {
		time.AfterFunc(time.Duration(m.of("vanishes.at", 90))*time.Minute, h.l.vanish)
	}
	go func() {
		var slot, fault, asks, snap <-chan time.Time
		if d := h.plan.Deadline; !d.IsZero() {
			slot = time.After(d.Sub(time.Now().Add(h.skew)) - max(h.plan.Checkpoint.Margin, h.plan.Checkpoint.Grace+h.plan.Grace))
		}
		if fate > 0 && fate < 5 {
			fault = time.After(when)
		}
		if fate == 5 {
			asks = time.After(when)
		}
		until := func(come <-chan struct{}, d time.Duration) bool {
			select {
			case <-h.over:
			case <-h.stopped:
				h.result(&protocol.Result{Kind: core.Stopped.String(), Message: "stopped"})
			case <-slot:
				h.saveAndEnd(unsaved)
			case <-fault:
				h.endEarly(fate, unsaved)
			case <-come:
				return true
			case <-time.After(d):
				return true
			}
			return false
		}
		if !ready {
			if !h.prepare(until) {
				return
			}
			m.mu.Lock()
			over := h.ended
			if !over {
				h.runs()
			}
			m.mu.Unlock()
			if over {
				return
			}
		}
		if e := h.plan.Checkpoint.Every; e > 0 {
			ticker := time.NewTicker(e)
			defer ticker.Stop()
			snap = ticker.C
		}
		end := time.After(max(0, time.Duration(m.target-h.count)*time.Minute))
		for n := 1; ; n++ {
			select {
			case <-h.over:
			case <-h.stopped:
				h.result(&protocol.Result{Kind: core.Stopped.String(), Message: "stopped"})
			case <-end:
				if h.again {
					h.saveAndEnd(written)
					return
				}
				h.save(m.target, protocol.VolumeDir(h.l.dir))
				h.result(&protocol.Result{Exit: &core.Exit{}, Outputs: []protocol.OutputMatch{{Index: 0, Path: "volume/count"}}})
			case <-slot:
				if h.asked(saves) {
					h.saveAndEnd(saves)
				}
			case <-fault:
				if fate != 3 || h.asked(saves) {
					h.endEarly(fate, saves)
				}
			case <-asks: // its user wants a checkpoint, and it continues
				if h.asked(written) {
					h.save(h.now(), protocol.VolumeDir(h.l.dir))
					h.tell(protocol.Event{Phase: core.PhaseRun, Begin: true})
					continue
				}
			case <-snap:
				h.snapshot(n)
				continue
			}
			return
		}
	}()
}

// hostFull is why an attempt ends that does not continue elsewhere.
const hostFull = "the disk of the host is full"

// endEarly is an early end.
func (h *modelHead) endEarly(fate, saves int) {
	m := h.l.s.m
	switch fate {
	case 1:
		m.mu.Lock()
		defer m.mu.Unlock()
		if !h.ended {
			m.say("the head is killed")
			h.end()
		}
	case 2:
		h.result(&protocol.Result{Kind: core.Lost.String(), Message: "a host was lost"})
	case 3: // its user wants a checkpoint, or the site its hosts
		h.saveAndEnd(saves)
	case 4:
		h.result(&protocol.Result{Kind: core.Permanent.String(), Message: hostFull})
	}
}

// The ways of the job to write its checkpoint: it does, or it does not.
const (
	written = 0
	unsaved = 1
)

// grace is how long the job has for its checkpoint.
const grace = time.Minute

// asked has the job asked for its checkpoint, which takes its time. It reports whether the
// head is still there then.
func (h *modelHead) asked(saves int) bool {
	m := h.l.s.m
	m.mu.Lock()
	takes := grace / 4 * time.Duration(m.of("checkpoint.for", 4))
	if saves == unsaved {
		takes = grace
	}
	m.mu.Unlock()
	h.tell(protocol.Event{Phase: core.PhaseCheckpoint, Begin: true, Time: time.Now().Add(h.skew)})
	select {
	case <-h.over:
		return false
	case <-time.After(takes):
		return true
	}
}

// saveAndEnd has the job save itself, which may go wrong.
func (h *modelHead) saveAndEnd(saves int) {
	volume := protocol.VolumeDir(h.l.dir)
	switch saves {
	case unsaved: // it is killed as its grace is over
		h.result(&protocol.Result{Kind: core.Lost.String(), Message: "the time slot has ended"})
		return
	case 2: // it is killed in the midst of writing
		h.save(h.now(), volume)
		writeSmall(filepath.Join(volume, "twin"), nil) //nolint:errcheck // it is torn anyway
		h.result(&protocol.Result{Kind: core.Lost.String(), Message: "the time slot has ended"})
		return
	case 3: // it ends without writing anything more
	default:
		h.save(h.now(), volume)
	}
	h.result(&protocol.Result{Continue: true, Kind: core.Lost.String(), Message: "the time slot has ended"})
}

// now is what the job has counted to.
func (h *modelHead) now() int { return h.count + int(time.Since(h.begun)/time.Minute) }

// snapshot keeps a copy of what the job writes as it runs.
func (h *modelHead) snapshot(n int) {
	h.save(h.now(), protocol.VolumeDir(h.l.dir))
	h.save(h.now(), protocol.SnapshotDir(h.l.dir, n))
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	h.journal(protocol.Event{Phase: core.PhaseRun, Snapshot: n})
	os.RemoveAll(protocol.SnapshotDir(h.l.dir, n-2))
}

// save writes a checkpoint.
func (h *modelHead) save(count int, volume string) {
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	text, err := []byte(strconv.Itoa(count)), os.MkdirAll(volume, 0o700)
	if raw, merr := readSmall(filepath.Join(protocol.VolumeDir(h.l.dir), madeName)); merr == nil { // a snapshot is of the whole volume
		err = errors.Join(err, writeSmall(filepath.Join(volume, madeName), raw))
	}
	if err := errors.Join(err, writeSmall(filepath.Join(volume, "count"), text), writeSmall(filepath.Join(volume, "twin"), text)); err != nil {
		panic(err)
	}
}

// result leaves the head's result, and ends it.
func (h *modelHead) result(r *protocol.Result) {
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	if r.Continue && !h.l.unsure { // only who hears of it can collect it
		h.l.saved = readCount(protocol.VolumeDir(h.l.dir))
	}
	r.SetupDone = h.setUp
	raw, err := json.Marshal(r)
	if err == nil {
		err = writeSmall(protocol.ResultPath(h.l.dir), raw)
	}
	if err != nil {
		panic(err)
	}
	h.journal(protocol.Event{Phase: core.PhaseRun, End: true})
	h.journal(protocol.Event{Result: r})
	m.say("attempt %d on %s ends: %s %v", h.l.owner.Attempt, h.l.s.name, r.Message, r.Exit)
	h.end()
}

// modelLine is a controller's connection to a head.
type modelLine struct{ *modelHead }

func (h modelLine) Addresses(context.Context) ([]string, error)    { return h.addresses() }
func (h modelLine) Close() error                                   { return nil }
func (h modelLine) Input(context.Context, *input.Input) error      { return nil }
func (h modelLine) UseKeys(context.Context, core.BucketKeys) error { return nil }
func (h modelLine) KeysExpire(context.Context) (bool, error)       { return false, nil }

func (h modelLine) Relay(context.Context, func(context.Context, net.Listener) error) error {
	return nil
}
func (h modelLine) Extend(context.Context, time.Time) error   { return nil }
func (h modelLine) Hold(context.Context, int) (func(), error) { return func() {}, nil }
func (h modelLine) Output(context.Context, int64, bool, func(tasklog.Frame) error) error {
	return nil
}

func (h modelLine) Stop(context.Context, time.Duration) error {
	h.l.s.m.mu.Lock()
	defer h.l.s.m.mu.Unlock()
	select {
	case <-h.stopped:
	default:
		close(h.stopped)
	}
	return nil
}

func (h modelLine) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	m := h.l.s.m
	for {
		m.step()
		m.mu.Lock()
		events, ended, news := h.events, h.ended, h.news
		breaks := h.l.s.way("watch", 20) != nil || m.lies && h.breaks && !m.calm
		m.mu.Unlock()
		if breaks {
			return errors.New("the line broke")
		}
		for _, e := range events[min(int(after), len(events)):] {
			if err := fn(h.lied(e)); err != nil {
				return err
			}
			after = e.Seq
			if e.Result != nil {
				return nil
			}
		}
		if ended {
			return errors.New("the line broke")
		}
		select {
		case <-h.over:
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
