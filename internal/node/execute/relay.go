package execute

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// Relay has a peer, which is a rank's, start the command that a caller asks for,
// and joins the two streams until one of them ends.
func Relay(ctx context.Context, caller rpc.Answer[rpc.None], peer *rpc.Peer, r nodecall.ExecRequest, rank int) error {
	r.Host, r.Rank = "", rank
	far, _, err := rpc.Open(ctx, peer, nodecall.CallExec, r)
	if err != nil {
		return err
	}
	defer far.Close()
	if err := caller.Reply(rpc.None{}); err != nil {
		return err
	}
	go func() {
		core.BestEffort(io.Copy(far, caller)) // its end is what counts:
		far.Close()                           // the caller is gone, so shall be the process
	}()
	_, err = io.Copy(caller, far)
	return err
}
