package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/state"
)

// ErrEnough ends a copy whose rest is not wanted.
var ErrEnough = errors.New("no more is read")

// DialNode speaks with a node of a run.
func (a *Workspace) DialNode(ctx context.Context, word string, rank int) (*client.Client, func(), error) {
	s, run, err := a.OpenRun(ctx, word)
	if err != nil {
		return nil, nil, err
	}
	c, err := s.Node(ctx, run, rank)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return c, func() { c.Close(); s.Close() }, nil
}

// Node connects to a node of a run.
func (s *Session) Node(ctx context.Context, run state.Run, rank int) (*client.Client, error) {
	conn, err := s.DialNode(ctx, run, rank)
	if err != nil {
		return nil, err
	}
	return client.New(conn)
}

// RunInside runs a command line of package inside in a node's container.
func RunInside(ctx context.Context, c *client.Client, rank int, args []string, in io.Reader, out io.Writer) error {
	var stderr bytes.Buffer
	exit, err := c.Exec(ctx, nodecall.ExecRequest{Rank: rank, Args: args}, in, out, &core.Limited{W: &stderr, Left: inside.MaxError}, nil)
	if err == nil && exit.Code != 0 {
		err = inside.Error(stderr.Bytes())
	}
	return err
}

// Ended reports whether a connection has ended, rather than what went over it.
func Ended(err error) bool {
	return core.IsKind(err, core.Lost) || core.IsKind(err, core.Transient) || errors.Is(err, io.EOF)
}
