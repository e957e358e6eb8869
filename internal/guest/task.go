package guest

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
)

// task is the job's command. Its output is kept until the host says that it has
// it: a guest that is brought up elsewhere still has what had not arrived when
// it was saved, and gives nothing twice.
type task struct {
	process driver.Process

	mu      sync.Mutex
	changed sync.Cond
	from    int64 // the first byte that is kept, of all that was written
	size    int
	pieces  []api.Piece
	exit    *core.Exit
}

// mostKept bounds what is kept; the command waits then.
const mostKept = 4 << 20

// startTask starts the job's command. There is one.
func (h *containerAgent) startTask(ctx context.Context, _ rpc.Caller, r api.ExecRequest) (api.ExecReply, error) {
	box, err := h.container()
	if err != nil {
		return api.ExecReply{}, err
	}
	var ends [4]*os.File
	for i := 0; i < len(ends); i += 2 {
		if ends[i], ends[i+1], err = os.Pipe(); err != nil {
			return api.ExecReply{}, err
		}
	}
	p, err := box.Exec(ctx, driver.Command{Args: r.Args, Env: r.Env, Dir: r.Dir, Stdout: ends[1], Stderr: ends[3]})
	ends[1].Close()
	ends[3].Close()
	if err != nil {
		ends[0].Close()
		ends[2].Close()
	}
	if refused, ok := errors.AsType[*pid1.StartError](err); ok {
		return api.ExecReply{Code: refused.Code, Message: refused.Message}, nil
	}
	if err != nil {
		return api.ExecReply{}, err
	}
	t := &task{process: p}
	t.changed.L = &t.mu
	h.mu.Lock()
	h.task = t
	h.mu.Unlock()
	go t.attend(ends[0], ends[2])
	return api.ExecReply{}, nil
}

// attend keeps the command's output, and how it ends.
func (t *task) attend(out, errs *os.File) {
	defer out.Close()
	defer errs.Close()
	var output execute.Output
	output.Pass(out, func(data []byte) error { return t.keep(false, data) })
	output.Pass(errs, func(data []byte) error { return t.keep(true, data) })
	exit, err := t.process.Wait(context.Background())
	if err != nil { // the container has gone, which its own Wait shows it
		exit = core.Exit{Code: 128 + int(syscall.SIGKILL), Signal: int(syscall.SIGKILL)}
	}
	output.Drain()
	t.mu.Lock()
	t.exit = &exit
	t.changed.Broadcast()
	t.mu.Unlock()
}

func (t *task) keep(isError bool, data []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.size >= mostKept {
		t.changed.Wait()
	}
	t.pieces = append(t.pieces, api.Piece{Error: isError, Data: slices.Clone(data)})
	t.size += len(data)
	t.changed.Broadcast()
	return nil
}

// forget drops what comes before a byte.
func (t *task) forget(before int64) {
	for len(t.pieces) > 0 && t.from < before {
		p := &t.pieces[0]
		k := min(before-t.from, int64(len(p.Data)))
		p.Data = p.Data[k:]
		t.from += k
		t.size -= int(k)
		if len(p.Data) == 0 {
			t.pieces = t.pieces[1:]
		}
	}
	t.changed.Broadcast()
}

// mostAtOnce is how much output one answer holds, at least where there is more.
const mostAtOnce = 256 << 10

// output waits for what was written from a byte on. The host has what comes
// before.
func (t *task) output(ctx context.Context, from int64) api.TaskOutput {
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.changed.Broadcast()
	})
	defer stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forget(from)
	for len(t.pieces) == 0 && t.exit == nil && ctx.Err() == nil {
		t.changed.Wait()
	}
	var o api.TaskOutput
	size := 0
	for _, p := range t.pieces {
		if size >= mostAtOnce {
			return o
		}
		o.Pieces = append(o.Pieces, p)
		size += len(p.Data)
	}
	o.Exit = t.exit
	return o
}

// theTask gives the job's command.
func (h *containerAgent) theTask() (*task, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.task == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "attend the job's command", Err: errors.New("the guest was given none"), Remedy: core.RemedyFault}
	}
	return h.task, nil
}

func (h *containerAgent) taskOutput(ctx context.Context, _ rpc.Caller, r api.TaskOutputRequest) (api.TaskOutput, error) {
	t, err := h.theTask()
	if err != nil {
		return api.TaskOutput{}, err
	}
	return t.output(ctx, r.From), nil
}

func (h *containerAgent) taskSignal(ctx context.Context, _ rpc.Caller, r api.TaskSignalRequest) (rpc.None, error) {
	t, err := h.theTask()
	if err == nil {
		err = t.process.Signal(ctx, syscall.Signal(r.Number))
	}
	return rpc.None{}, err
}
