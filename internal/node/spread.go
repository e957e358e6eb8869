package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/wire"
)

// The nodes form a binary tree by rank: what a node lacks it takes from its
// parent, once that has it. The time to reach all grows with log N.
func parentOf(rank int) int { return (rank - 1) / 2 }

// What a treeRequest can ask for.
const (
	treeVolume = "volume"
	treeInputs = "inputs"
	treeFiles  = "files"
)

// haveImage sees to it that this host's cache has the image.
func (n *node) haveImage(ctx context.Context, image core.Image) error {
	if !n.images.Has(image.ID) {
		if err := n.getImage(ctx, image); err != nil {
			return err
		}
	}
	close(n.imageReady)
	return nil
}

func (n *node) getImage(ctx context.Context, image core.Image) error {
	if n.config.Rank == 0 {
		f, err := os.Open(protocol.ArchivePath(n.config.Host.Dir))
		if errors.Is(err, os.ErrNotExist) {
			return &core.Error{Kind: core.NotFound, Op: "find image", Object: image.Ref,
				Err: errors.New("neither the cache of the head's host nor the run's directory holds it"), Remedy: "Run the job again; it will be sent anew."}
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if err := n.images.ImportFlat(ctx, f); err != nil {
			return err
		}
		return os.Remove(f.Name())
	}
	p, err := n.peer(ctx, parentOf(n.config.Rank))
	if err != nil {
		return err
	}
	s, err := p.Open(ctx, callImage, imageRequest{image.ID}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return n.images.ImportFlat(ctx, s)
}

func (n *node) sendImage(ctx context.Context, s *wire.Stream) error {
	var r imageRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	select {
	case <-n.imageReady:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if err := s.Reply(nil); err != nil {
		return err
	}
	return n.images.ExportFlat(ctx, r.ID, s)
}

// takeTree replaces a directory by the parent's.
func (n *node) takeTree(ctx context.Context, r treeRequest, into string) error {
	p, err := n.peer(ctx, parentOf(n.config.Rank))
	if err != nil {
		return err
	}
	s, err := p.Open(ctx, callTree, r, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	// The directory itself is bound into the container: its contents are
	// replaced, it stays.
	temp := into + ".new"
	if err := filestream.Receive(ctx, s, temp); err != nil {
		return fmt.Errorf("take %s from %s: %w", r.What, p.Name(), err)
	}
	return replaceContents(into, temp)
}

// replaceContents moves what is in from to dir, in place of what was there.
func replaceContents(dir, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target := filepath.Join(dir, e.Name())
		if err := filestream.RemoveAll(target); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}
	return filestream.RemoveAll(from)
}

func (n *node) sendTree(ctx context.Context, s *wire.Stream) error {
	var r treeRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	dir := n.config.Host.Dir
	var send func() error
	ready := n.treeReady
	switch r.What {
	case treeVolume:
		send = func() error { return filestream.Send(ctx, s, protocol.VolumeDir(dir), nil) }
	case treeInputs:
		ready = n.inputReady
		send = func() error { return filestream.Send(ctx, s, protocol.InputsDir(dir), nil) }
	case treeFiles:
		ready = nil
		send = func() error { return filestream.SendMany(ctx, s, protocol.VolumeDir(dir), r.Files, nil) }
	default:
		return unknown(callTree + " " + r.What)
	}
	if ready != nil {
		select {
		case <-ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := s.Reply(nil); err != nil {
		return err
	}
	return send()
}

// begin is a node's part of the attempt's start: image, then container.
func (n *node) begin(ctx context.Context, r beginRequest) (beginReply, error) {
	fail := func(err error) (beginReply, error) {
		return beginReply{}, &core.Error{Kind: core.KindOf(err), Op: "start node on", Object: n.config.Host.Name, Err: err, Remedy: core.Remedy(err)}
	}
	n.mu.Lock()
	n.members, n.plan = r.Members, r.Plan
	n.mu.Unlock()
	if err := n.reachNext(ctx); err != nil {
		return beginReply{}, err
	}
	raw, err := os.ReadFile(filepath.Join(n.config.Host.Dir, filepath.Base(r.Token)))
	shared := err == nil && string(raw) == r.Token
	if err := n.haveImage(ctx, r.Plan.Image); err != nil {
		return fail(err)
	}
	if !shared && len(r.Plan.Binds) > 0 {
		if err := n.takeTree(ctx, treeRequest{What: treeInputs}, protocol.InputsDir(n.config.Host.Dir)); err != nil {
			return fail(err)
		}
	}
	close(n.inputReady)
	b, err := n.startBox(ctx, &r.Plan, r.Members, r.Network, r.Runtime)
	if err != nil {
		return fail(err)
	}
	n.mu.Lock()
	n.box = b
	n.mu.Unlock()
	go n.watchBox(context.Background(), b) // as long as the container, not the call
	return beginReply{Shared: shared, Runtime: b.runtime, Why: b.why}, nil
}

// reachNext finds out, before any program hangs on it, whether this host
// reaches the next one. Together the nodes try a ring: N ways, not N².
func (n *node) reachNext(ctx context.Context) error {
	next := (n.config.Rank + 1) % n.config.Size
	p, err := n.peer(ctx, next)
	if err != nil {
		return err
	}
	return p.Call(ctx, callHello, nil, nil)
}

// end stops this node's container and lists what its volume has of the outputs.
func (n *node) end(r endRequest) endReply {
	reply := endReply{Report: n.endBox(r.Grace)}
	volume := protocol.VolumeDir(n.config.Host.Dir)
	for _, glob := range r.Outputs {
		matches, err := filepath.Glob(filepath.Join(volume, glob))
		if err != nil {
			continue
		}
		for _, m := range matches {
			if rel, err := filepath.Rel(volume, m); err == nil {
				reply.Outputs = append(reply.Outputs, rel)
			}
		}
	}
	return reply
}
