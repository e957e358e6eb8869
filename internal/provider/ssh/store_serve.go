package ssh

import (
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
)

// serveStore answers a call about a store that needs no stream.
func serveStore(ctx context.Context, _ rpc.Caller, c storeCall, s rpc.Answer[rpc.None]) error {
	raw, err := checkpoint.Serve(ctx, c.Store)
	if err != nil {
		return err
	}
	if err := s.Reply(rpc.None{}); err != nil { // what follows may be longer than a message
		return err
	}
	_, err = s.Write(raw)
	return err
}

// storeKeep makes a checkpoint of a tree that comes over a way.
func (a Agent) storeKeep(ctx context.Context, _ rpc.Caller, c storeCall, s rpc.Answer[opened]) error {
	dir, q, w, err := a.storeTree(c, s)
	if err != nil {
		return err
	}
	var r checkpoint.Reply
	r.Manifest, r.Made, err = dir.Keep(ctx, q.Generation, q.Site, w)
	err = damaged(&r, string(dir), err)
	switch {
	case !w.ready && err != nil:
		return err
	case !w.ready:
		return s.Reply(opened{Reply: r})
	}
	return rpc.Send(s, ended{Failed: rpc.Fail(err), Reply: r}, maxManifest)
}

// storeRestore brings a checkpoint to whom a way leads. The stream itself tells what fails
// once it has begun.
func (a Agent) storeRestore(ctx context.Context, _ rpc.Caller, c storeCall, s rpc.Answer[opened]) error {
	dir, q, w, err := a.storeTree(c, s)
	if err != nil {
		return err
	}
	var r checkpoint.Reply
	err = damaged(&r, string(dir), dir.Restore(ctx, q.Kept, w))
	switch {
	case w.ready:
		return nil
	case err != nil:
		return err
	}
	return s.Reply(opened{Reply: r})
}

// storeTree gives what a call about a tree is about, and the tree.
func (a Agent) storeTree(c storeCall, s rpc.Answer[opened]) (checkpoint.Dir, checkpoint.Request, *overWire, error) {
	q, err := rpc.Decode[checkpoint.Request](c.Store)
	if err != nil {
		return "", q, nil, err
	}
	dir, err := checkpoint.Absolute(q.Dir)
	if err != nil {
		return "", q, nil, err
	}
	w, err := a.meetings.way(s.Stream, c.Via)
	return checkpoint.Dir(dir), q, &overWire{way: w, answer: s}, err
}

// damaged has a reply tell of a damaged checkpoint, which is no error.
func damaged(r *checkpoint.Reply, dir string, err error) error {
	if errors.Is(err, driver.ErrDamaged) {
		r.Damaged = true
		return nil
	}
	return checkpoint.Explain(dir, err)
}

// overWire is the tree at the other end of a call's way.
type overWire struct {
	way    *way
	answer rpc.Answer[opened]
	ready  bool
}

func (w *overWire) begin() error {
	w.ready = true
	return w.answer.Reply(opened{Ready: true})
}

// Fetch implements driver.Source.
func (w *overWire) Fetch(ctx context.Context, to, before string) error {
	basis := basisOf(ctx, to, before).Keyed()
	if err := w.begin(); err != nil {
		return err
	}
	return w.way.receive(ctx, to, basis)
}

// Stage implements driver.Sink.
func (w *overWire) Stage(ctx context.Context, from string) error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.way.send(ctx, from)
}

var errNoDirectory = errors.New("a store that is a directory has no use for it") //nolint:gochecknoglobals // a constant

// Direct implements driver.Source and driver.Sink.
func (w *overWire) Direct() *driver.Connection { return nil }

// Send implements driver.Source.
func (w *overWire) Send(context.Context) (io.ReadWriteCloser, error) { return nil, errNoDirectory }

// Receive implements driver.Sink.
func (w *overWire) Receive(context.Context) (driver.Receiver, error) { return nil, errNoDirectory }
