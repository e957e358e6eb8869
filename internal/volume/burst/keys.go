package burst

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"golang.org/x/sys/unix"
)

// mostKeys bounds keys on their way to a process, in bytes: a pipe has room for them.
const mostKeys = 1 << 15

// sendKeys has a process get the keys of the volume on its standard input, once it is started. No command line,
// variable or file has them.
func (c Config) sendKeys(p *exec.Cmd) (send func(started bool), err error) {
	if c.Keys == nil {
		return func(bool) {}, nil
	}
	raw, err := json.Marshal(c.Keys)
	if err == nil && len(raw) > mostKeys {
		err = &core.Error{Kind: core.Invalid, Op: "send credentials for", Object: c.Remote, Err: io.ErrShortBuffer, Remedy: "Use shorter ones."}
	}
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.Stdin = from
	return func(started bool) {
		from.Close()
		if started {
			core.BestEffort(to.Write(raw)) // a process that has ended reports so
		}
		to.Close()
	}, nil
}

// receiveKeys reads what sendKeys sends, and hides it; nil: nothing was sent.
func receiveKeys(from io.Reader) (*core.BucketKeys, error) {
	raw, err := io.ReadAll(io.LimitReader(from, mostKeys+1))
	if err != nil || len(raw) == 0 {
		return nil, err
	}
	if err := hideMemory(); err != nil {
		return nil, err
	}
	var k core.BucketKeys
	return &k, json.Unmarshal(raw, &k)
}

// hideMemory has no other process of this user read the memory of this one, which has keys, such as one of a container
// without a PID namespace. No image of it is on a disk when it crashes.
func hideMemory() error {
	return errors.Join(syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}), unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// useKeys has the remote of a volume, which is a bucket, use other credentials from now on, and reports whether they are
// other ones. A drain that waits tries again at once then.
func useKeys(ctx context.Context, v *Volume, q calls.KeysOffer) (changed bool, err error) {
	bucket, is := v.tree.(*remote.S3)
	if !is {
		return false, &core.Error{Kind: core.Invalid, Op: "use credentials for", Object: v.o.Remote, Err: errors.New("it is no bucket"), Remedy: core.RemedyFault}
	}
	v.access.mu.Lock()
	defer v.access.mu.Unlock()
	if err := hideMemory(); err != nil {
		return false, err
	}
	if changed, err = bucket.UseKeys(ctx, q.Keys, q.Spare); changed {
		v.access.relayed, v.access.sent = false, true
		v.drainer.again()
	}
	return changed, err
}

// useKeys answers an offer of credentials. The same ones again are no command, as a look at the status is none.
func (s *server) useKeys(ctx context.Context, q calls.KeysOffer) (calls.KeysReply, error) {
	changed, err := useKeys(ctx, s.v, q)
	if changed {
		s.used()
	}
	if errors.Is(err, remote.ErrKeys) {
		s.v.o.Log.Warn("credentials are not used", "err", err)
		return calls.KeysReply{Refused: core.Printable(err.Error(), 1000)}, nil
	}
	return calls.KeysReply{}, err
}

// PassKeys gives the I/O process the keys of this one, if there are any: those that it has may have expired. Where the
// bucket refuses them, it keeps its own.
func (c Config) PassKeys(ctx context.Context, peer *rpc.Peer) error {
	if c.Keys == nil {
		return nil
	}
	_, err := c.offerKeys(ctx, peer)
	return err
}

func (c Config) offerKeys(ctx context.Context, peer *rpc.Peer) (calls.KeysReply, error) {
	reply, err := rpc.Call(ctx, peer, calls.OfferKeys, calls.KeysOffer{Keys: *c.Keys, Spare: c.Spare})
	if core.IsKind(err, core.Unsupported) { // an earlier version
		_, err = rpc.Call(ctx, peer, calls.UseKeys, *c.Keys)
	}
	return reply, err
}

// UseKeys has the I/O process use the keys of this one from now on. Those that the bucket refuses are an error.
func (c Config) UseKeys(ctx context.Context, peer *rpc.Peer) error {
	reply, err := c.offerKeys(ctx, peer)
	if err == nil && reply.Refused != "" {
		err = &core.Error{
			Kind: core.Invalid, Op: "use new credentials for", Object: c.Remote, Err: errors.New(reply.Refused),
			Remedy: "Those so far are used until they expire. Set the credentials up that may use this bucket, as for AWS's tools.",
		}
	}
	return err
}
