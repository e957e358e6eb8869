package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
)

// opened answers a call that goes on as a stream, or is answered at once.
type opened struct {
	Ready bool             `json:"ready,omitempty"` // the stream goes on
	Reply checkpoint.Reply `json:"reply"`
}

// serveStore answers a call about a store.
func serveStore(ctx context.Context, method string, request json.RawMessage, tree *way) error {
	s := tree.call
	if method == callStore {
		raw, err := checkpoint.Serve(ctx, request)
		if err != nil {
			return err
		}
		if err := s.Reply(nil); err != nil { // what follows may be longer than a message
			return err
		}
		_, err = s.Write(raw)
		return err
	}
	var q checkpoint.Request
	if err := json.Unmarshal(request, &q); err != nil {
		return err
	}
	dir, err := checkpoint.Absolute(q.Dir)
	if err != nil {
		return err
	}
	w := &overWire{way: tree}
	var r checkpoint.Reply
	switch method {
	case callStoreKeep:
		r.Manifest, r.Made, err = checkpoint.Dir(dir).Keep(ctx, q.Generation, q.Site, w)
	case callStoreRestore:
		err = checkpoint.Dir(dir).Restore(ctx, q.Kept, w)
	default:
		err = &core.Error{Kind: core.Unsupported, Op: "answer call", Object: method, Err: errors.New("this agent does not know it")}
	}
	if errors.Is(err, checkpoint.ErrDamaged) {
		r.Damaged, err = true, nil
	}
	err = checkpoint.Explain(dir, err)
	switch {
	case !w.ready && err != nil:
		return err
	case !w.ready:
		return s.Reply(opened{Reply: r})
	case method == callStoreRestore: // the stream itself tells what failed
		return nil
	case err != nil:
		return wire.WriteMessage(s, ended{outcome: failed(err)})
	}
	return wire.WriteMessage(s, ended{Reply: r})
}

// ended is what the host says when the stream of a call has ended.
type ended struct {
	outcome
	Reply checkpoint.Reply `json:"reply"`
}

// overWire is the tree at the other end of a call's way.
type overWire struct {
	way   *way
	ready bool
}

func (w *overWire) begin() error {
	w.ready = true
	return w.way.call.Reply(opened{Ready: true})
}

// Fetch implements checkpoint.Source.
func (w *overWire) Fetch(ctx context.Context, to, before string) error {
	basis := basisOf(ctx, to, before).Keyed()
	if err := w.begin(); err != nil {
		return err
	}
	return w.way.receive(ctx, to, basis)
}

// Stage implements checkpoint.Sink.
func (w *overWire) Stage(ctx context.Context, from string) error {
	if err := w.begin(); err != nil {
		return err
	}
	return w.way.send(ctx, from)
}

var errNoDirectory = errors.New("a store that is a directory has no use for it") //nolint:gochecknoglobals // a constant

// Send implements checkpoint.Source.
func (w *overWire) Send(context.Context) (io.ReadWriteCloser, error) { return nil, errNoDirectory }

// Receive implements checkpoint.Sink.
func (w *overWire) Receive(context.Context) (checkpoint.Receiver, error) { return nil, errNoDirectory }
