package storecall

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/store"
)

// UploadTree stores a tree of this host as objects, and returns their manifest.
type UploadTree func(ctx context.Context, sign driver.SignObject, g driver.Generation, site string, from driver.Source) (manifest []byte, err error)

// Agent answers the calls on the host.
type Agent struct {
	// Store opens the store in a directory of this host.
	Store           func(dir string) driver.Store
	RendezvousTable *sshlink.RendezvousTable
	Upload          UploadTree // nil: nothing does it
}

// Register adds the calls to a server's.
func (a Agent) Register(s *rpc.Server) {
	rpc.HandleStream(s, callStore, a.serveStore)
	rpc.HandleStream(s, CallKeep, a.storeKeep)
	rpc.HandleStream(s, CallRestore, a.storeRestore)
	rpc.HandleStream(s, callUpload, a.upload)
}

// serveStore answers a call about a store that needs no stream.
func (a Agent) serveStore(ctx context.Context, _ rpc.Caller, c call, s rpc.Answer[rpc.None]) error {
	raw, err := a.useStore(ctx, c.Store)
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
func (a Agent) storeKeep(ctx context.Context, _ rpc.Caller, c call, s rpc.Answer[Opened]) error {
	dir, own, q, w, err := a.storeTree(c, s)
	if err != nil {
		return err
	}
	var r Reply
	r.Manifest, r.Made, err = own.Keep(ctx, q.Generation, q.Site, w)
	err = damaged(&r, dir, err)
	switch {
	case !w.ready && err != nil:
		return err
	case !w.ready:
		return s.Reply(Opened{Reply: r})
	}
	return rpc.Send(s, Ended{Failed: rpc.Fail(err), Reply: r}, MaxManifest)
}

// storeRestore brings a checkpoint to whom a way leads. The stream itself reports what fails
// once it has begun.
func (a Agent) storeRestore(ctx context.Context, _ rpc.Caller, c call, s rpc.Answer[Opened]) error {
	dir, own, q, w, err := a.storeTree(c, s)
	if err != nil {
		return err
	}
	var r Reply
	err = damaged(&r, dir, own.Restore(ctx, q.Kept, w))
	switch {
	case w.ready:
		return nil
	case err != nil:
		return err
	}
	return s.Reply(Opened{Reply: r})
}

// storeTree gives what a call about a tree is about, and the tree.
func (a Agent) storeTree(c call, s rpc.Answer[Opened]) (string, driver.Checkpoints, Request, *overWire, error) {
	q, err := rpc.Decode[Request](c.Store)
	if err != nil {
		return "", nil, q, nil, err
	}
	dir, err := store.Absolute(q.Dir)
	if err != nil {
		return "", nil, q, nil, err
	}
	w, err := a.RendezvousTable.Route(s.Stream, c.Via)
	return dir, a.Store(filepath.Dir(dir)).Run(filepath.Base(dir)), q, &overWire{route: w, answer: s}, err
}

// damaged has a reply report a damaged checkpoint, which is no error.
func damaged(r *Reply, dir string, err error) error {
	if errors.Is(err, driver.ErrDamaged) {
		r.Damaged = true
		return nil
	}
	return store.Explain(dir, err)
}

// overWire is the tree at the other end of a call's way.
type overWire struct {
	route  *sshlink.Route
	answer rpc.Answer[Opened]
	ready  bool
}

func (w *overWire) begin() error {
	w.ready = true
	return w.answer.Reply(Opened{Ready: true})
}

// Fetch implements driver.Source.
func (w *overWire) Fetch(ctx context.Context, to, before string) error {
	basis := sshlink.BasisOf(ctx, to, before).Keyed()
	if err := w.begin(); err != nil {
		return err
	}
	return w.route.Receive(ctx, to, basis)
}

// Stage implements driver.Sink.
func (w *overWire) Stage(ctx context.Context, from string) error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.route.Send(ctx, from)
}

var errNoDirectory = errors.New("a store that is a directory has no use for it")

// Direct implements driver.Source and driver.Sink.
func (w *overWire) Direct() *driver.Connection { return nil }

// Send implements driver.Source.
func (w *overWire) Send(context.Context) (io.ReadWriteCloser, error) { return nil, errNoDirectory }

// Receive implements driver.Sink.
func (w *overWire) Receive(context.Context) (driver.Receiver, error) { return nil, errNoDirectory }
