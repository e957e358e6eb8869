package sshlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
)

// agent is the process at the other end of a link.
type agent struct{ wide *wire.ConnPool }

// Serve answers the calls of one controller over standard input and output, until that is
// gone. The caller registers its own calls, which may use the rendezvous. It returns the code
// with which the process exits.
func Serve(register func(*rpc.Server, *RendezvousTable)) int {
	widen(os.Stdin)
	widen(os.Stdout)
	fmt.Println("BEE " + here)
	a := &agent{wire.NewConnPool(stdio{}, false)}
	peer, err := rpc.NewPeer(a.wide, false, "the controller", wire.Prompt, protocol)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bee remote: %v\n", err)
		return 1
	}
	s, m := rpc.NewServer(nil), &RendezvousTable{made: map[string]net.Conn{}}
	rpc.HandleStream(s, callPool, a.offerPool)
	rpc.HandleStream(s, callJoinPool, joinPool)
	rpc.HandleStream(s, callRendezvous, m.hold)
	register(s, m)
	peer.Serve(context.Background(), s, rpc.Caller{Role: rpc.Controller, Rank: -1})
	return 0
}

type stdio struct{}

func (stdio) Read(b []byte) (int, error)  { return os.Stdin.Read(b) }
func (stdio) Write(b []byte) (int, error) { return os.Stdout.Write(b) }
func (stdio) Close() error                { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }

// BasisOf returns what there is of a tree already. Where that cannot be found, all of the tree
// is sent.
func BasisOf(ctx context.Context, path string, others ...string) *treesync.Basis {
	basis, err := treesync.NewBasis(ctx, path, others...)
	if err != nil {
		return nil
	}
	return basis
}
