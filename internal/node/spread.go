package node

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

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

// spreads are the things that spread over the nodes, as they come to this node and pass
// it.
type spreads struct {
	config plan.Config
	life   context.Context // the node's
	pool   *pool

	mu     sync.Mutex
	things map[string]*spread
}

func newSpreads(life context.Context, c plan.Config, p *pool) *spreads {
	s := &spreads{config: c, life: life, pool: p, things: map[string]*spread{}}
	for _, what := range []string{spreadImage, spreadGuest, spreadVolume, spreadInputs} {
		s.things[what] = &spread{known: make(chan struct{})}
	}
	return s
}

// offer settles that this node has a thing itself, and how to write it. That
// is done once, when the first child asks.
func (s *spreads) offer(what string, make func(ctx context.Context, w io.Writer) error) {
	one := s.things[what]
	one.make = make
	close(one.known)
}

// pass settles that children get what the relay gets.
func (s *spreads) pass(what string, r *relay) {
	one := s.things[what]
	one.relay = r
	close(one.known)
}

// send gives a child a thing, once it is here or while it comes in.
func (s *spreads) send(ctx context.Context, _ rpc.Caller, t thing, st rpc.Answer[rpc.None]) error {
	one := s.things[t.What]
	if err := st.Reply(rpc.None{}); err != nil {
		return err
	}
	select {
	case <-one.known:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	r, err := s.relayFor(one)
	if err != nil {
		return err
	}
	if r == nil {
		return one.make(ctx, st)
	}
	return r.sendTo(ctx, st)
}

// relayFor gives the relay to read from. Where several children may ask for
// what this node has itself, it is written once for all of them; nil where
// there is one child only.
func (s *spreads) relayFor(one *spread) (*relay, error) {
	if one.make == nil {
		return one.relay, nil
	}
	if 2*s.config.Rank+2 >= s.config.Size {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.relay == nil {
		r, err := newRelay(plan.NodeDir(s.config.Host.Dir, s.config.Rank))
		if err != nil {
			return nil, err
		}
		one.relay = r
		go func() { r.finish(one.make(s.life, r)) }()
	}
	return one.relay, nil
}

// forget gives the space of what every host has now back.
func (s *spreads) forget(things ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, what := range things {
		one := s.things[what]
		select {
		case <-one.known:
			if one.relay != nil {
				one.relay.close()
			}
		default:
		}
	}
}

// take gets a thing from the parent in the tree. A nil consume only passes
// it on to the children.
func (s *spreads) take(ctx context.Context, what string, consume func(r io.Reader) error) error {
	p, err := s.pool.peer(ctx, parentOf(s.config.Rank))
	if err != nil {
		return err
	}
	stream, _, err := rpc.Open(ctx, p, callSpread, thing{what})
	if err != nil {
		return err
	}
	defer stream.Close()
	var in io.Reader = stream
	var r *relay
	if 2*s.config.Rank+1 < s.config.Size {
		if r, err = newRelay(plan.NodeDir(s.config.Host.Dir, s.config.Rank)); err != nil {
			return err
		}
		s.pass(what, r)
		in = io.TeeReader(stream, r)
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

// takeTree replaces what is in a directory by the parent's. The directory
// itself is bound into the container: it stays.
func (s *spreads) takeTree(ctx context.Context, what, into string) error {
	return s.take(ctx, what, func(r io.Reader) error {
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
func (s *spreads) haveTree(ctx context.Context, what, dir string, group int) error {
	switch group {
	case 0:
		s.offer(what, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, dir, nil) })
		return nil
	case s.config.Rank:
		return s.takeTree(ctx, what, dir)
	}
	if 2*s.config.Rank+1 >= s.config.Size {
		return nil
	}
	return s.take(ctx, what, nil)
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
