package vm

import (
	"context"
	"os"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// StartTask implements driver.Snapshot.
func (m *movable) StartTask(ctx context.Context, c driver.Command) (driver.Process, error) {
	reply, err := call(ctx, m.container, api.CallTask, api.ExecRequest{Args: c.Args, Env: c.Env, Dir: c.Dir})
	if err != nil {
		return nil, err
	}
	if reply.Code != 0 {
		return nil, &pid1.StartError{Code: reply.Code, Message: reply.Message}
	}
	return m.Task(ctx, c)
}

// Task implements driver.Snapshot.
func (m *movable) Task(ctx context.Context, c driver.Command) (driver.Process, error) {
	if err := m.await(ctx); err != nil {
		return nil, err
	}
	p := &taskProcess{m: m, done: make(chan struct{})}
	p.given, p.giveUp = context.WithCancel(context.Background()) // the calls end with the machine
	for i, f := range []*os.File{c.Stdout, c.Stderr} {
		if f == nil {
			continue
		}
		own, err := duplicate(f) // the caller closes its own
		if err != nil {
			p.close()
			return nil, err
		}
		p.files[i] = own
	}
	m.mu.Lock()
	m.task = true
	m.mu.Unlock()
	go p.follow()
	return p, nil
}

// taskProcess is the job's command, seen from the host.
type taskProcess struct {
	m      *movable
	files  [2]*os.File
	given  context.Context // until it is given up
	giveUp context.CancelFunc
	done   chan struct{}
	exit   core.Exit
	err    error
}

func (p *taskProcess) close() {
	for _, f := range p.files {
		if f != nil {
			f.Close()
		}
	}
}

// follow takes the command's output until it has ended.
func (p *taskProcess) follow() {
	defer close(p.done)
	defer p.close()
	defer p.giveUp()
	for {
		p.m.mu.Lock()
		from := p.m.from
		p.m.mu.Unlock()
		o, err := rpc.Call(p.given, p.m.machine.containerAgent, api.CallTaskOutput, api.TaskOutputRequest{From: from})
		if err != nil {
			if p.err = p.m.lost(err); !core.IsKind(p.err, core.Lost) {
				p.err = &core.Error{Kind: core.Lost, Op: "follow the job's command in the virtual machine", Err: err}
			}
			return
		}
		if !p.take(o) {
			p.err = p.m.lost(&core.Error{Kind: core.Lost, Op: "follow the job's command", Object: p.m.spec.Name})
			return
		}
		if o.Exit != nil {
			p.exit = *o.Exit
			return
		}
	}
}

// take passes output on, but not while the guest is halted: what comes then was
// on its way when it was, and may be with the saved guest as well, which gives
// it again. false: the machine has ended.
func (p *taskProcess) take(o api.TaskOutput) bool {
	m := p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.halted && !m.ended && p.given.Err() == nil {
		m.changed.Wait()
	}
	if m.ended || p.given.Err() != nil {
		return false
	}
	for _, piece := range o.Pieces {
		f := p.files[0]
		if piece.Error {
			f = p.files[1]
		}
		if f != nil {
			core.BestEffort(f.Write(piece.Data)) // anyone who closes a pipe early does not want the rest
		}
		m.from += int64(len(piece.Data))
	}
	return true
}

// Signal implements driver.Process. A command in a halted guest cannot be
// killed, and is given up: all of its output that belongs here has come.
func (p *taskProcess) Signal(ctx context.Context, s os.Signal) error {
	n, ok := s.(syscall.Signal)
	if !ok {
		return nil
	}
	p.m.mu.Lock()
	if p.m.halted && n == syscall.SIGKILL {
		p.giveUp()
		p.m.changed.Broadcast()
		p.m.mu.Unlock()
		return nil
	}
	p.m.mu.Unlock()
	_, err := call(ctx, p.m.container, api.CallTaskSignal, api.TaskSignalRequest{Number: int(n)})
	return err
}

// Terminal implements driver.Process: the command may continue in a restored guest, and has
// none.
func (p *taskProcess) Terminal() driver.Terminal { return nil }

// Wait implements driver.Process.
func (p *taskProcess) Wait(ctx context.Context) (core.Exit, error) {
	select {
	case <-p.done:
		return p.exit, p.err
	case <-ctx.Done():
		return core.Exit{}, context.Cause(ctx)
	}
}
