package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// The nodes form a binary tree by rank: what a node lacks it takes from its
// parent, and passes it on to its children while it comes in. So the time to
// reach all is that of one copy, and a little for each level.
func parentOf(rank int) int { return (rank - 1) / 2 }

// What spreads over the tree.
const (
	spreadImage  = "image"
	spreadGuest  = "guest" // image of virtual machines
	spreadVolume = "volume"
	spreadInputs = "inputs"
)

// spread is one thing's way through this node.
type spread struct {
	known chan struct{} // closed when it is settled where it comes from
	relay *relay        // valid once known is closed
	make  func(ctx context.Context, w io.Writer) error
}

func newSpreads() map[string]*spread {
	m := map[string]*spread{}
	for _, what := range []string{spreadImage, spreadGuest, spreadVolume, spreadInputs} {
		m[what] = &spread{known: make(chan struct{})}
	}
	return m
}

// offer settles that this node has a thing itself, and how to write it. That
// is done once, when the first child asks.
func (n *node) offer(what string, make func(ctx context.Context, w io.Writer) error) {
	s := n.spreads[what]
	s.make = make
	close(s.known)
}

// pass settles that children get what the relay gets.
func (n *node) pass(what string, r *relay) {
	s := n.spreads[what]
	s.relay = r
	close(s.known)
}

// sendSpread gives a child a thing, once it is here or while it comes in.
func (n *node) sendSpread(ctx context.Context, _ rpc.Caller, t thing, st rpc.Answer[rpc.None]) error {
	s := n.spreads[t.What]
	if err := st.Reply(rpc.None{}); err != nil {
		return err
	}
	select {
	case <-s.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r, err := n.relayFor(s)
	if err != nil {
		return err
	}
	if r == nil {
		return s.make(ctx, st)
	}
	return r.sendTo(ctx, st)
}

// relayFor gives the relay to read from. Where several children may ask for
// what this node has itself, it is written once for all of them; nil where
// there is one child only.
func (n *node) relayFor(s *spread) (*relay, error) {
	if s.make == nil {
		return s.relay, nil
	}
	if 2*n.config.Rank+2 >= n.config.Size {
		return nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if s.relay == nil {
		r, err := newRelay(plan.NodeDir(n.config.Host.Dir, n.config.Rank))
		if err != nil {
			return nil, err
		}
		s.relay = r
		go func() { r.finish(s.make(n.life, r)) }()
	}
	return s.relay, nil
}

// forget gives the space of what every host has now back.
func (n *node) forget(things ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, what := range things {
		s := n.spreads[what]
		select {
		case <-s.known:
			if s.relay != nil {
				s.relay.close()
			}
		default:
		}
	}
}

// take gets a thing from the parent in the tree. A nil consume only passes
// it on to the children.
func (n *node) take(ctx context.Context, what string, consume func(r io.Reader) error) error {
	p, err := n.pool.peer(ctx, parentOf(n.config.Rank))
	if err != nil {
		return err
	}
	s, _, err := rpc.Open(ctx, p, callSpread, thing{what})
	if err != nil {
		return err
	}
	defer s.Close()
	var in io.Reader = s
	var r *relay
	if 2*n.config.Rank+1 < n.config.Size {
		if r, err = newRelay(plan.NodeDir(n.config.Host.Dir, n.config.Rank)); err != nil {
			return err
		}
		n.pass(what, r)
		in = io.TeeReader(s, r)
	}
	if consume != nil {
		err = consume(in)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, in) // what the consumer did not need
	}
	if r != nil {
		r.finish(err)
	}
	if err != nil {
		return fmt.Errorf("take %s from %s: %w", what, p.Name(), err)
	}
	return nil
}

// haveImage sees to it that this host's cache has the image, and the children
// in the tree can get it.
func (n *node) haveImage(ctx context.Context, what string, image core.Image, cacheToken string) error {
	export := func(ctx context.Context, w io.Writer) error { return n.images.ExportFlat(ctx, image.ID, w) }
	if n.images.Has(image.ID) {
		n.offer(what, export)
		return nil
	}
	if n.config.Rank == 0 {
		return n.importStaged(ctx, what, image)
	}
	if n.sees(n.config.Host.Cache, cacheToken) {
		// The cache is the head's own: it is unpacked there once for all.
		if _, err := rpc.Call(ctx, n.pool.headConn(), callAwaitImage, thing{what}); err != nil {
			return err
		}
		n.offer(what, export)
		return nil
	}
	return n.take(ctx, what, func(r io.Reader) error { return n.images.ImportFlat(ctx, r) })
}

// importStaged imports the image that the controller put into the run's
// directory. The children get it directly from the file.
func (n *node) importStaged(ctx context.Context, what string, image core.Image) error {
	path := plan.ArchivePath(n.config.Host.Dir)
	if what == spreadGuest {
		path = plan.GuestPath(n.config.Host.Dir)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &core.Error{
			Kind: core.NotFound, Op: "find image", Object: image.Ref,
			Err: errors.New("neither the cache of the head's host nor the run's directory holds it"), Remedy: "Run the job again; it will be sent again.",
		}
	}
	if err != nil {
		return err
	}
	if n.config.Size > 1 {
		again, err := os.Open(f.Name())
		if err != nil {
			f.Close()
			return err
		}
		r, err := relayOf(again)
		if err != nil {
			f.Close()
			return err
		}
		n.pass(what, r)
	}
	defer f.Close()
	if err := n.images.ImportFlat(ctx, f); err != nil {
		return err
	}
	return os.Remove(f.Name())
}

// takeTree replaces what is in a directory by the parent's. The directory
// itself is bound into the container: it stays.
func (n *node) takeTree(ctx context.Context, what, into string) error {
	return n.take(ctx, what, func(r io.Reader) error {
		temp := into + ".new"
		if err := treesync.Receive(ctx, r, temp); err != nil {
			return err
		}
		return replaceContents(into, temp)
	})
}

// haveTree sees to it that a directory below Host.Dir is here as the head has
// it, and the children in the tree can get it. Where several hosts see one
// directory, one of them fills it.
func (n *node) haveTree(ctx context.Context, what, dir string) error {
	switch n.group {
	case 0:
		n.offer(what, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, dir, nil) })
		return nil
	case n.config.Rank:
		return n.takeTree(ctx, what, dir)
	}
	if 2*n.config.Rank+1 >= n.config.Size {
		return nil
	}
	return n.take(ctx, what, nil)
}

// replaceContents moves what is in from to dir, in place of what was there.
func replaceContents(dir, from string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		target := filepath.Join(dir, e.Name())
		if err := fsutil.RemoveAll(target); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, e.Name()), target); err != nil {
			return err
		}
	}
	return fsutil.RemoveAll(from)
}
