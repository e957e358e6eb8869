package execute

import (
	"context"
	"io"

	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/wire"
)

// Pass has a peer, which is a rank's, start the command that a caller asks for,
// and joins the two streams until one of them ends.
func Pass(ctx context.Context, caller *wire.Stream, peer *wire.Peer, r client.ExecRequest, rank int) error {
	r.Host, r.Rank = "", rank
	far, err := peer.Open(ctx, client.CallExec, r, nil)
	if err != nil {
		return err
	}
	defer far.Close()
	if err := caller.Reply(nil); err != nil {
		return err
	}
	go func() {
		io.Copy(far, caller) //nolint:errcheck // its end is what counts:
		far.Close()          // the caller is gone, so shall be the process
	}()
	_, err = io.Copy(caller, far)
	return err
}
