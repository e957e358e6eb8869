package mount

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"golang.org/x/sys/unix"
)

// mostWrite bounds what the kernel writes or reads by one request, in bytes.
const mostWrite = 1 << 20

// startClient starts the client of a volume, and returns when programs can use the mount. A private one is made
// here, and its client ends with this process.
func startClient(c burst.Config, binary string) (*os.Process, error) {
	if !c.Private {
		return c.Start(binary, Command, nil)
	}
	f, err := mountns.Mount(c.Mount, "bee-"+c.ID, "default_permissions", fmt.Sprintf("max_read=%d", mostWrite))
	if err != nil {
		return nil, explain(c.Mount, err)
	}
	defer f.Close() // the client alone has it
	p, err := c.Start(binary, Command, f)
	if err != nil {
		return nil, errors.Join(err, unix.Unmount(c.Mount, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH))
	}
	return p, nil
}

// endClient kills the client. What programs wait for fails then.
func endClient(client *os.Process) {
	if client != nil {
		client.Kill()
	}
}

// mountedAt gives the directory at which a client has a volume mounted.
func mountedAt(c burst.Config) (string, error) {
	if c.Mount == "" {
		return "", nil
	}
	id, err := At(c.Mount)
	if err != nil || id != c.ID {
		return "", err
	}
	return c.Mount, nil
}

// usedAt gives the directory at which a client has a volume mounted, or a client lives whose mount this process
// does not see.
func usedAt(ctx context.Context, c burst.Config) (string, error) {
	at, err := mountedAt(c)
	if err != nil || at != "" || !c.Private {
		return at, err
	}
	peer, err := c.Dial(ctx)
	if err != nil {
		return "", nil // without an I/O process there is no client for long
	}
	defer peer.Close()
	s, err := rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
	if err != nil || s.Clients == 0 {
		return "", nil // as above
	}
	return c.Mount, nil
}

// publicAt gives the directory at which a client has a volume mounted for all to see. Busy: a run uses a private mount,
// with which op cannot be done.
func publicAt(ctx context.Context, op string, c burst.Config) (string, error) {
	at, err := usedAt(ctx, c)
	if err == nil && at != "" && c.Private {
		return "", usedByRun(op, c)
	}
	return at, err
}

// errUses is about a private mount that is in use.
var errUses = errors.New("uses it")

// usedByRun refuses what cannot be done with a private mount that is in use.
func usedByRun(op string, c burst.Config) error {
	return &core.Error{
		Kind: core.Busy, Op: op, Object: c.Remote, Err: fmt.Errorf("run %s %w", c.Of, errUses),
		Remedy: "Wait until that is over, or end it: `bee stop " + c.Of + "`.",
	}
}
