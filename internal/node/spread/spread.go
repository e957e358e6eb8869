// Package spread passes images, inputs and volumes on from node to node. The nodes form a
// binary tree by rank: what a node lacks it takes from its parent, and passes it on to its
// children while it comes in. So the time to reach all is that of one copy, and a little
// for each level. The package knows connections to nodes, and not what the things are for.
package spread

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// Parent returns the node above another in the tree.
func Parent(rank int) int { return (rank - 1) / 2 }

// What spreads over the tree.
const (
	Image  = "image"
	Guest  = "guest" // image of virtual machines
	Volume = "volume"
	Inputs = "inputs"
)

func all() []string { return []string{Image, Guest, Volume, Inputs} }

// Call asks for a thing, whose bytes follow the answer.
var Call = rpc.Method[Thing, rpc.None]{Name: "spread", By: rpc.Nodes}

// Thing is something that spreads over the nodes.
type Thing struct {
	What string `json:"what"`
}

// Check implements the check of package rpc.
func (t Thing) Check() error {
	if !slices.Contains(all(), t.What) {
		return &core.Error{Kind: core.Invalid, Op: "check", Object: "thing to spread", Err: fmt.Errorf("%.200q is no valid value", t.What), Remedy: core.RemedyVersions}
	}
	return nil
}

// spread is one thing's way through this node.
type spread struct {
	known chan struct{} // closed when it is settled where it comes from
	relay *relay        // valid once known is closed
	make  func(ctx context.Context, w io.Writer) error
}

// Tree is this node's place in the tree, and the things that have come to it.
type Tree struct {
	life       context.Context // the node's
	rank, size int
	dir        string // where relays have their files
	peer       func(ctx context.Context, rank int) (*rpc.Peer, error)

	mu     sync.Mutex
	things map[string]*spread
}

// New returns the place of a node, whose relays have their files in dir.
func New(life context.Context, rank, size int, dir string, peer func(ctx context.Context, rank int) (*rpc.Peer, error)) *Tree {
	s := &Tree{life: life, rank: rank, size: size, dir: dir, peer: peer, things: map[string]*spread{}}
	for _, what := range all() {
		s.things[what] = &spread{known: make(chan struct{})}
	}
	return s
}

// Offer settles that this node has a thing itself, and how to write it. That
// is done once, when the first child asks.
func (s *Tree) Offer(what string, make func(ctx context.Context, w io.Writer) error) {
	one := s.things[what]
	one.make = make
	close(one.known)
}

// pass settles that children get what the relay gets.
func (s *Tree) pass(what string, r *relay) {
	one := s.things[what]
	one.relay = r
	close(one.known)
}

// PassFile settles that children get what is in a complete file, which is closed once all
// have it.
func (s *Tree) PassFile(what string, f *os.File) error {
	r, err := relayOf(f)
	if err == nil {
		s.pass(what, r)
	}
	return err
}

// Send answers a child that asks for a thing, once it is here or while it comes in.
func (s *Tree) Send(ctx context.Context, _ rpc.Caller, t Thing, st rpc.Answer[rpc.None]) error {
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
func (s *Tree) relayFor(one *spread) (*relay, error) {
	if one.make == nil {
		return one.relay, nil
	}
	if 2*s.rank+2 >= s.size {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.relay == nil {
		r, err := newRelay(s.dir)
		if err != nil {
			return nil, err
		}
		one.relay = r
		go func() { r.finish(one.make(s.life, r)) }()
	}
	return one.relay, nil
}

// Forget releases the space of what every host has now.
func (s *Tree) Forget(things ...string) {
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

// Take copies a thing from the parent in the tree. A nil consume only passes
// it on to the children.
func (s *Tree) Take(ctx context.Context, what string, consume func(r io.Reader) error) error {
	p, err := s.peer(ctx, Parent(s.rank))
	if err != nil {
		return err
	}
	stream, _, err := rpc.Open(ctx, p, Call, Thing{what})
	if err != nil {
		return err
	}
	defer stream.Close()
	var in io.Reader = stream
	var r *relay
	if 2*s.rank+1 < s.size {
		if r, err = newRelay(s.dir); err != nil {
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
func (s *Tree) takeTree(ctx context.Context, what, into string) error {
	return s.Take(ctx, what, func(r io.Reader) error {
		temp := into + ".new"
		if err := treesync.Receive(ctx, r, temp); err != nil {
			return err
		}
		return replaceContents(into, temp)
	})
}

// HaveTree sees to it that a directory below Host.Dir is here as the head has
// it, and the children in the tree can get it. Where several hosts see one
// directory, one of them fills it.
func (s *Tree) HaveTree(ctx context.Context, what, dir string, group int) error {
	switch group {
	case 0:
		s.Offer(what, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, dir, nil) })
		return nil
	case s.rank:
		return s.takeTree(ctx, what, dir)
	}
	if 2*s.rank+1 >= s.size {
		return nil
	}
	return s.Take(ctx, what, nil)
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
