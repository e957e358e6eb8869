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

// useKeys has the remote of a volume, which is a bucket, use other credentials from now on. A drain that waits tries
// again at once.
func useKeys(v *Volume, k core.BucketKeys) error {
	bucket, is := v.tree.(*remote.S3)
	if !is {
		return &core.Error{Kind: core.Invalid, Op: "use credentials for", Object: v.o.Remote, Err: errors.New("it is no bucket"), Remedy: core.RemedyFault}
	}
	v.access.mu.Lock()
	defer v.access.mu.Unlock()
	err := hideMemory()
	if err == nil {
		err = bucket.UseKeys(k)
	}
	if err != nil {
		return err
	}
	v.access.relayed, v.access.sent = false, true
	v.drainer.again()
	return nil
}

// passKeys gives the I/O process the keys of this one, if there are any: those that it has may have expired.
func (c Config) passKeys(ctx context.Context, peer *rpc.Peer) error {
	if c.Keys == nil {
		return nil
	}
	_, err := rpc.Call(ctx, peer, calls.UseKeys, *c.Keys)
	return err
}
