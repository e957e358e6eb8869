package cli

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/inside"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// runInside runs a command line of package inside in a node's container.
func runInside(ctx context.Context, c *client.Client, rank int, args []string, in io.Reader, out io.Writer) error {
	var stderr bytes.Buffer
	exit, err := c.Exec(ctx, nodecall.ExecRequest{Rank: rank, Args: args}, in, out, &core.Limited{W: &stderr, Left: inside.MaxError}, nil)
	if err == nil && exit.Code != 0 {
		err = inside.Error(stderr.Bytes())
	}
	return err
}

// gone reports whether a connection has ended, rather than what went over it.
func gone(err error) bool {
	return core.IsKind(err, core.Lost) || core.IsKind(err, core.Transient) || errors.Is(err, io.EOF)
}
