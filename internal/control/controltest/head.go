package controltest

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	guestimage "github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/input"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// Head plays a list of events.
type Head struct {
	Events    []protocol.Event
	stopped   chan struct{}
	Broken    int // this many times the line breaks before the last event
	Lasts     time.Duration
	Hangs     int   // this many times it takes a connection and says nothing
	HoldError error // what asking for a checkpoint to stay gives
	// Extended are the ends of its slot that were sent to it.
	Extended []time.Time
}

func (h *Head) Addresses(ctx context.Context) ([]string, error) {
	if h.Hangs > 0 {
		h.Hangs--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []string{"127.0.0.1:1"}, nil
}

func (h *Head) Close() error { return nil }

func (h *Head) Extend(_ context.Context, ends time.Time) error {
	h.Extended = append(h.Extended, ends)
	return nil
}

func (h *Head) Hold(context.Context, int) (func(), error) { return func() {}, h.HoldError }

func (h *Head) Relay(context.Context, func(context.Context, net.Listener) error) error { return nil }

func (h *Head) UseKeys(context.Context, core.BucketKeys) error { return nil }

func (h *Head) KeysExpire(context.Context) (bool, error) { return false, nil }

func (h *Head) Stop(context.Context, time.Duration) error { close(h.stopped); return nil }

func (h *Head) Output(context.Context, int64, bool, func(tasklog.Frame) error) error {
	return nil
}

func (h *Head) Input(context.Context, *input.Input) error { return nil }

func (h *Head) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	for i, e := range h.Events {
		if int64(i) < after {
			continue
		}
		if e.Result != nil {
			if err := core.Sleep(ctx, h.Lasts); err != nil {
				return err
			}
		}
		if e.Result != nil && h.Broken > 0 {
			h.Broken--
			return errors.New("the line broke")
		}
		if e.Result != nil && e.Result.Kind == core.Stopped.String() {
			select {
			case <-h.stopped:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		e.Seq = int64(i + 1)
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// Images has every image. What a job names means next, or else one and the same.
type Images struct {
	Err  error
	Next string
}

func (f Images) Resolve(_ context.Context, job *spec.Job, _, _ string, _ func(string, int64, int64)) (core.Image, error) {
	i := core.Image{ID: cmp.Or(f.Next, "sha256:x"), Config: core.ImageConfig{Cmd: []string{"true"}}}
	if job.Name == "guest" || job.Image == "guest" {
		i.Config.Env = []string{guestimage.Mark + "=1"}
	}
	if strings.HasPrefix(job.Image, "sha256:") {
		i.ID = job.Image
	}
	return i, f.Err
}

func (f Images) Has(string) bool { return true }

func (f Images) ExportFlat(context.Context, string, io.Writer) error { return nil }

// LocalStore opens the checkpoints in a directory.
func LocalStore(dir string, between func()) driver.Checkpoints {
	return dirstore.Stepped{Checkpoints: dirstore.Checkpoints(dir), Between: between}
}

// Proven believes every connection, as all ends of fakes are in the test.
func Proven(_ context.Context, c net.Conn, _ []byte, _ int) (net.Conn, error) { return c, nil }

func Events(r protocol.Result) *Head {
	return &Head{stopped: make(chan struct{}), Events: []protocol.Event{{Phase: core.PhaseRun, Begin: true}, {Phase: core.PhaseRun, End: true}, {Result: &r}}}
}

func Succeeding() *Head { return Exiting(0) }

func Exiting(code int) *Head {
	return Events(protocol.Result{Exit: &core.Exit{Code: code}, Outputs: []protocol.OutputMatch{}})
}

// Connect is Runner.Connect for the heads of fake sites.
func Connect(c net.Conn) (headlink.Head, error) { return c.(*Conn).Site.Head, nil }
