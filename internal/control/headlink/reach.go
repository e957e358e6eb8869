package headlink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/input"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/wire"
)

// Head is a connection to the head of an attempt.
type Head interface {
	// Watch passes events after a sequence number to fn, as they come, until the
	// last one, which carries the result.
	Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error
	// Output passes the task's output from an offset on to fn, as it comes.
	Output(ctx context.Context, offset int64, follow bool, fn func(tasklog.Frame) error) error
	// Input passes the input of the task's command on until that has ended; nil: it is lost.
	Input(ctx context.Context, in *input.Input) error
	// Addresses are the ip:port at which other nodes can join the head.
	Addresses(ctx context.Context) ([]string, error)
	// Stop ends the attempt: TERM, and KILL after the grace.
	Stop(ctx context.Context, grace time.Duration) error
	// Extend reports that the site takes its hosts back later than it had announced.
	Extend(ctx context.Context, ends time.Time) error
	// Relay has serve answer the connections by which a burst buffer there reaches its bucket through this machine.
	Relay(ctx context.Context, serve func(context.Context, net.Listener) error) error
	// UseKeys has a burst buffer there use other credentials for its bucket from now on.
	UseKeys(ctx context.Context, keys core.BucketKeys) error
	// KeysExpire reports whether credentials that were sent for a bucket expire, also where nobody knows when.
	KeysExpire(ctx context.Context) (bool, error)
	// Hold has a checkpoint that the head has kept stay until done is called.
	Hold(ctx context.Context, snapshot int) (done func(), err error)
	Close() error
}

// How long a head may take to come up, and when one counts as hung.
const (
	Timeout = 20 * time.Second
	// A head that takes a connection and says nothing hangs. Tries are
	// counted, not time, of which much passes while this machine sleeps. Other nodes
	// give it up sooner, and a host that sleeps takes no connection: all of this is
	// for a lone node on an overloaded host.
	AnswerTimeout = 3 * time.Second // less than a silent connection lives
	SilentTries   = 4
	// silentProofs is the same for connections that get no proof of the attempt's key.
	silentProofs = 2
)

// SecureByKey secures a connection to a node: both ends prove that they have the
// attempt's key. A connection that fails is closed.
func SecureByKey(ctx context.Context, conn net.Conn, key []byte, rank int) (net.Conn, error) {
	secure, err := wire.Key(key).Client(ctx, conn, protocol.ControllerName, protocol.NodeName(rank))
	switch {
	case wire.NotProven(err):
		return nil, &core.Error{
			Kind: core.Lost, Op: "reach node", Object: protocol.NodeName(rank), Err: err,
			Remedy: "Another process answers in its place, and its reports are ignored. Look at the processes on that host.",
		}
	case err != nil:
		return nil, err
	}
	return secure, nil
}

// Connecting connects with a head that has an attempt's key.
func Connecting(secure func(context.Context, net.Conn, []byte, int) (net.Conn, error), connect func(net.Conn) (Head, error), key []byte) func(context.Context, net.Conn) (Head, error) {
	return func(ctx context.Context, conn net.Conn) (Head, error) {
		conn, err := secure(ctx, conn, key, 0)
		if err != nil {
			return nil, err
		}
		return connect(conn)
	}
}

// Reach dials the head of a lease until it listens. A head that never comes up
// is reported with the end of its log.
func Reach(ctx context.Context, lease driver.Lease, timeout time.Duration, connect func(context.Context, net.Conn) (Head, error), gone func(context.Context) (bool, string)) (Head, error) {
	host := lease.Hosts()[0]
	deadline := time.Now().Add(timeout)
	silent := 0
	pause := fsutil.Backoff{First: 200 * time.Microsecond, Longest: 100 * time.Millisecond, Exact: true}
	for {
		conn, err := lease.Dial(ctx, 0, protocol.SocketPath(host.Dir, 0))
		if err == nil {
			head, err := connect(ctx, conn)
			if _, known := errors.AsType[*core.Error](err); err == nil || known || ctx.Err() != nil {
				return head, err
			}
			if errors.Is(err, context.DeadlineExceeded) {
				silent++
			}
			if silent == silentProofs {
				return nil, Hung(host.Name, silentProofs*wire.HandshakeTimeout)
			}
			pause.First = 10 * time.Millisecond // it ended just then, perhaps
		} else if !core.IsKind(err, core.NotFound) {
			return nil, err
		}
		rest := pause.Next()
		if rest > 10*time.Millisecond {
			if is, why := gone(ctx); is || time.Now().After(deadline) {
				return nil, errHeadGone(lease.Handle().Owner.Run, host.Name, why)
			}
		}
		if err := core.Sleep(ctx, rest); err != nil {
			return nil, err
		}
	}
}

func errHeadGone(run, host, why string) error {
	return &core.Error{
		Kind: core.Lost, Op: "reach the head node on", Object: host, Err: errors.New(why),
		Remedy: "`bee logs --node 0 " + run + "` shows what the node wrote; run the job again once the cause is gone.",
	}
}

// Gone asks the lease whether the head's process ended.
func Gone(ctx context.Context, lease driver.Lease) (bool, string) {
	if alive, err := lease.NodeAlive(ctx, 0); err == nil && !alive {
		return true, "its node process has ended without a result (killed, or the host ran out of memory)"
	}
	return false, "its node does not answer"
}

// Hangs reports whether a head that took the connection says nothing on it. A
// connection that breaks is another matter.
func Hangs(ctx context.Context, head Head) bool {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	_, err := head.Addresses(ctx)
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}

// Hung is the error of a head that has not answered for so long.
func Hung(host string, silence time.Duration) error {
	return &core.Error{
		Kind: core.Lost, Op: "watch the head node on", Object: host, Err: fmt.Errorf("it has not answered for %s", silence),
		Remedy: "It was stopped, or its host hangs. Its processes are ended; run the job again.",
	}
}
