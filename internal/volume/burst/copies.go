package burst

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
	"github.com/bee-hpc/bee/internal/wire"
)

// leaderName is a socket of the node, behind which the leader of the volume is.
const leaderName = "leader"

// configured keeps the configuration of a volume with copies in the record on its remote.
type configured struct {
	r remote.Remote
	c Config
}

// Read implements replica.Store.
func (s configured) Read() (replica.Configuration, []byte, error) {
	of, raw, err := owner(s.r, s.c)
	if err == nil && of.Volume != s.c.ID {
		err = replica.ErrSuperseded
	}
	return replica.Configuration{Term: of.Term, Leader: of.ID, Copies: of.Copies}, raw, err
}

// Replace implements replica.Store.
func (s configured) Replace(old []byte, next replica.Configuration) error {
	var was claim
	if err := json.Unmarshal(old, &was); err != nil {
		return err
	}
	is := newClaim(s.c, was.Epoch)
	is.ID, is.Term, is.Copies = next.Leader, next.Term, next.Copies
	raw, err := json.Marshal(is)
	if err != nil {
		return err
	}
	return s.r.ReplaceRecord(old, raw)
}

// copied reports whether the volume has copies on several hosts.
func (c Config) copied() bool { return c.Replicas > 1 }

// holder is the name by which the record on the remote knows who has it: the volume's, or that of one of its copies.
func (c Config) holder() string { return cmp.Or(c.Copy, c.ID) }

// fenced reports whether the remote changes only while its record names the holder.
func (c Config) fenced() bool { return c.Run != "" || c.copied() }

// timing is how long copies wait for each other.
func (c Config) timing() replica.Timing {
	if c.copies.Lost == 0 {
		return replica.Usual
	}
	return c.copies
}

// errBucket is about copies of a volume whose remote is a bucket.
func errBucket(c Config) error {
	return &core.Error{
		Kind: core.Unsupported, Op: "keep copies of the volume of", Object: c.Remote, Err: errors.New("the record of a bucket is not replaced by compare-and-set yet"),
		Remedy: "Use a directory as the remote, or one copy.",
	}
}

// lead keeps the copies of followers like the journal from now on. The record names this copy alone.
func lead(v *Volume, c Config) error {
	note, err := fsutil.ReadFile(c.Place, lockedName, mostNote)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v.journal.copies = replica.NewLeader(replica.LeaderOptions{
		ID: c.holder(), Log: v.journal.log, Store: configured{v.tree, c}, Most: c.Replicas - 1, Timing: c.timing(), Note: note, Logger: v.o.Log,
	})
	return nil
}

// awaitLead returns once this host's copy of the journal leads, or once nobody has one. Until then the process
// follows the one that leads, and answers at its socket that it does not. A copy that the record no longer names
// lacks something, and is begun again: nothing that was answered is in it alone.
func awaitLead(ctx context.Context, c Config, far remote.Opener, log *slog.Logger, ready func()) (Config, error) {
	tree, err := c.OpenRemote(far)
	if err != nil {
		return c, err
	}
	defer tree.Close()
	defer context.AfterFunc(ctx, tree.Stop)()
	listener, err := c.Listen()
	if err != nil {
		return c, err
	}
	defer listener.Close()
	go c.answerFollower(ctx, listener, log)
	for {
		s := configured{tree, c}
		there, err := buffer.Exists(c.Place)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return c, err
		}
		switch {
		case there: // of an earlier process
			if _, _, err := s.Read(); !c.Follows && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, replica.ErrSuperseded)) {
				return c, nil // what that means is decided with the record
			}
			ready()
			err = replica.Resume(ctx, s, c.holder(), c.timing().Restart)
		case c.Follows && err == nil:
			err = mirrored(ctx, c, s, log, ready)
		default:
			var leads bool
			if leads, err = c.another(ctx, s, ready); !leads && err == nil {
				return c, nil
			}
			if err == nil {
				err = replica.ErrExcluded
			}
		}
		switch {
		case err == nil:
			return c, c.update(func(c *Config) { c.Follows = false })
		case errors.Is(err, replica.ErrSuperseded):
			return c, errors.Join(err, c.update(func(c *Config) { c.Superseded = true }))
		case !errors.Is(err, replica.ErrExcluded):
			return c, err
		}
		if err := awaitLeader(ctx, c, s, ready); err != nil {
			return c, err
		}
		log.Warn("the copy of the volume is begun again", "copy", c.Copy)
		if err := c.copyAgain(); err != nil {
			return c, err
		}
	}
}

// another reports whether a copy on another host leads, where there is none on this one. One that the record still
// expects here is waited for: another one will take its place.
func (c Config) another(ctx context.Context, s replica.Store, ready func()) (bool, error) {
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: time.Second}
	for {
		now, _, err := s.Read()
		switch {
		case err == nil && now.Leader != c.holder():
			return true, nil
		case err == nil && len(now.Copies) == 0:
			return false, nil
		case err != nil && !c.Follows: // what that means is decided with the record
			return false, nil
		}
		ready()
		if werr := pause.Wait(ctx); werr != nil {
			return false, errors.Join(werr, err)
		}
	}
}

// awaitLeader waits until the copy that the record names answers. It may have been lost with its disk before the
// record named it: then this one may be all there is, and stays.
func awaitLeader(ctx context.Context, c Config, s replica.Store, ready func()) error {
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: time.Second}
	for {
		now, _, err := s.Read()
		if err == nil && c.answers(ctx, now.Leader) {
			return nil
		}
		ready()
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// answers reports whether the copy of a name leads, and answers through the node.
func (c Config) answers(ctx context.Context, leader string) bool {
	ctx, cancel := context.WithTimeout(ctx, c.timing().Lost)
	defer cancel()
	peer, err := leaderPeer(ctx, c)
	if err != nil {
		return false
	}
	defer peer.Close()
	is, err := rpc.Call(ctx, peer, calls.Leads, rpc.None{})
	return err == nil && is.Leads && is.Copy == leader
}

// answerFollower answers those who connect with a process that does not lead.
func (c Config) answerFollower(ctx context.Context, listener net.Listener, log *slog.Logger) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	table := rpc.NewServer(log)
	refuse := &core.Error{Kind: core.Busy, Op: "use volume", Object: c.ID, Err: errors.New("the process on this host follows that of another one"), Remedy: core.RemedyAgain}
	rpc.Handle(table, calls.Leads, func(context.Context, rpc.Caller, rpc.None) (calls.Leading, error) { return calls.Leading{}, nil })
	rpc.HandleStream(table, calls.Files, func(context.Context, rpc.Caller, calls.Hello, rpc.Answer[calls.Welcome]) error { return refuse })
	rpc.HandleStream(table, calls.Follow, func(context.Context, rpc.Caller, calls.FollowRequest, rpc.Answer[rpc.None]) error { return refuse })
	new(wire.Gate).Serve(listener, func(conn net.Conn, known func() bool) {
		if !known() { // the socket is in a directory of its user's own
			return
		}
		peer, err := rpc.NewPeer(conn, false, "a client of the volume", wire.Local, calls.Protocol)
		if err != nil {
			conn.Close()
			return
		}
		defer peer.Close()
		defer context.AfterFunc(ctx, func() { peer.Close() })()
		core.BestEffort(peer.Serve(ctx, table, rpc.Caller{Role: rpc.Controller, Rank: -1}))
	})
}

// update changes the record, in which others may have changed something since.
func (c *Config) update(change func(c *Config)) error {
	now, err := c.again()
	if err != nil {
		return err
	}
	change(&now)
	*c = now
	return c.Save()
}

// copyAgain gives the copy a new name, and then removes what it had.
func (c *Config) copyAgain() error {
	if err := c.update(func(c *Config) { c.Copy, c.Follows = NewID(), true }); err != nil {
		return err
	}
	if err := fsutil.RemoveAll(c.Place); err != nil {
		return err
	}
	return fsutil.OwnDir(c.Place)
}

// mirrored keeps a new copy like the leader's journal, and returns once that leads itself.
func mirrored(ctx context.Context, c Config, s replica.Store, log *slog.Logger, ready func()) error {
	return mirroredBy(ctx, c, s, log, ready, c.dialLeader)
}

func mirroredBy(ctx context.Context, c Config, s replica.Store, log *slog.Logger, ready func(), dial dialer) error {
	m, err := buffer.NewMirror(c.Place, buffer.MirrorOptions{Most: 2 * c.Room})
	if err != nil {
		return err
	}
	ready()
	f := replica.Follower{ID: c.holder(), Mirror: m, Store: s, Timing: c.timing(), NoteName: lockedName, Logger: log, Dial: dial}
	return errors.Join(f.Run(ctx), m.Close())
}

// dialer connects with the process that leads.
type dialer = func(ctx context.Context, hello replica.Hello) (io.ReadWriteCloser, error)

// leaderStream is a stream on a connection of its own.
type leaderStream struct {
	*rpc.Stream
	peer *rpc.Peer
	end  context.CancelFunc
}

func (s leaderStream) Close() error {
	s.end()
	return errors.Join(s.Stream.Close(), s.peer.Close())
}

// leaderPeer returns a connection to the process that leads, through the node.
func leaderPeer(ctx context.Context, c Config) (*rpc.Peer, error) {
	socket, err := c.inside(leaderName)
	if err != nil {
		return nil, err
	}
	conn, err := wire.DialUnix(ctx, socket)
	if err != nil {
		return nil, err
	}
	peer, err := rpc.Dial(conn, "the leader of volume "+c.ID, wire.Local, calls.Protocol)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return peer, nil
}

// dialLeader opens a stream to the process that leads, through the node.
func (c Config) dialLeader(ctx context.Context, hello replica.Hello) (io.ReadWriteCloser, error) {
	peer, err := leaderPeer(ctx, c)
	if err != nil {
		return nil, err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end) // until there is an answer
	stream, _, err := rpc.Open(life, peer, calls.Follow, calls.FollowRequest{Copy: hello.Copy, Segment: hello.At.Segment, At: hello.At.At})
	if !stop() && err == nil {
		err = errors.Join(context.Cause(ctx), stream.Close())
	}
	if err != nil {
		end()
		return nil, errors.Join(err, peer.Close())
	}
	return leaderStream{stream, peer, end}, nil
}

// ServeLeader has the I/O process that follows reach the leader through this process, as long as that lives. open
// connects with the host of the leader.
func (c Config) ServeLeader(open func(ctx context.Context) (io.ReadWriteCloser, error)) (net.Listener, error) {
	socket, err := c.inside(leaderName)
	if err != nil {
		return nil, err
	}
	l, err := wire.ListenUnix(socket)
	if err != nil {
		return nil, err
	}
	go new(wire.Gate).Serve(l, func(conn net.Conn, known func() bool) {
		if !known() { // the socket is in a directory of its user's own
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), c.timing().Lost)
		far, err := open(ctx)
		cancel()
		if err != nil {
			conn.Close()
			return
		}
		core.BestEffort(wire.Splice(conn, far)) // both ends notice its end
	})
	return l, nil
}

// statusTime is how long a status waits for the other copies.
const statusTime = time.Second

// confirmedStatus is Status, as the process that leads has it: one that was replaced without its knowledge may believe
// that everything is drained.
func confirmedStatus(ctx context.Context, v *Volume) (calls.Status, error) {
	s := v.Status()
	s.Copies = v.journal.copies.Copies()
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	err := v.journal.copies.Confirm(ctx, false)
	if err == nil || ctx.Err() == nil {
		return s, err
	}
	s.Drained, s.Seconds, s.Waits = false, nil, "another copy of the volume does not answer, and the remote does not either"
	return s, nil
}
