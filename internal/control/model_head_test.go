package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// modelHead is a head with its job.
type modelHead struct {
	l       *modelLease
	plan    *protocol.Plan
	count   int
	begun   time.Time
	events  []protocol.Event
	over    chan struct{} // closed at its end, however it comes
	stopped chan struct{} // closed when a stop is asked for
	ended   bool
}

func (h *modelHead) journal(e protocol.Event) {
	e.Seq = int64(len(h.events) + 1)
	h.events = append(h.events, e)
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(protocol.EventsPath(h.l.dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		f.Close()
	}
	if err != nil {
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

// live is what becomes of the head, in its own time.
func (h *modelHead) live() {
	m := h.l.s.m
	h.begun = time.Now()
	left := time.Duration(m.target-h.count) * time.Minute
	fate := m.choose.of(14)
	when := time.Duration(1+m.choose.of(90)) * time.Minute
	saves := m.choose.of(8)
	go func() {
		var slot <-chan time.Time
		if !h.plan.Deadline.IsZero() {
			slot = time.After(time.Until(h.plan.Deadline) - h.plan.Checkpoint.Grace - h.plan.Grace)
		}
		var fault <-chan time.Time
		if fate == 1 || fate == 2 {
			fault = time.After(when)
		}
		select {
		case <-h.over:
		case <-h.stopped:
			h.result(&protocol.Result{Kind: core.Stopped.String(), Message: "stopped"})
		case <-time.After(max(0, left)):
			h.save(m.target)
			h.result(&protocol.Result{Exit: &core.Exit{}, Outputs: []protocol.OutputMatch{{Index: 0, Path: "volume/count"}}})
		case <-slot:
			h.atSlotEnd(saves)
		case <-fault:
			if fate == 1 {
				m.mu.Lock()
				m.say("the head is killed")
				h.end()
				m.mu.Unlock()
				return
			}
			h.result(&protocol.Result{Kind: core.Lost.String(), Message: "a host was lost"})
		}
	}()
}

// atSlotEnd has the job save itself, which may go wrong.
func (h *modelHead) atSlotEnd(saves int) {
	switch saves {
	case 1: // it is killed as its grace is over
		h.result(&protocol.Result{Kind: core.Lost.String(), Message: "the time slot has ended"})
		return
	case 2: // it ends without having written anything
	default:
		h.save(h.count + int(time.Since(h.begun)/time.Minute))
	}
	h.result(&protocol.Result{Continue: true, Kind: core.Lost.String(), Message: "the time slot has ended"})
}

func (h *modelHead) save(count int) {
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	volume := protocol.VolumeDir(h.l.dir)
	if err := errors.Join(os.MkdirAll(volume, 0o700), os.WriteFile(filepath.Join(volume, "count"), []byte(strconv.Itoa(count)), 0o600)); err != nil {
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
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(protocol.ResultPath(h.l.dir), raw, 0o600)
	}
	if err != nil {
		panic(err)
	}
	h.journal(protocol.Event{Phase: protocol.PhaseRun, End: true})
	h.journal(protocol.Event{Result: r})
	m.say("attempt %d on %s ends: %s %v", h.l.owner.Attempt, h.l.s.name, r.Message, r.Exit)
	h.end()
}

// modelLine is a controller's connection to a head.
type modelLine struct{ *modelHead }

func (h modelLine) Addresses(context.Context) ([]string, error) { return []string{"127.0.0.1:1"}, nil }
func (h modelLine) Close() error                                { return nil }
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
		events, ended := h.events, h.ended
		breaks := m.choose.of(20) == 1
		m.mu.Unlock()
		for _, e := range events[min(int(after), len(events)):] {
			if err := fn(e); err != nil {
				return err
			}
			after = e.Seq
			if e.Result != nil {
				return nil
			}
		}
		if ended || breaks {
			return errors.New("the line broke")
		}
		select {
		case <-h.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
