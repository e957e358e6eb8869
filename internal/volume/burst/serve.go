package burst

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/generation"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
	"github.com/bee-hpc/bee/internal/wire"
)

const (
	// lookOften is how often the process looks whether anything is left to do, and lookRarely while clients are there.
	lookOften  = 100 * time.Millisecond
	lookRarely = 500 * time.Millisecond
)

// linger is how long the process stays without a client or a command, once all is drained.
const linger = 5 * time.Second

// server answers the clients and commands of a volume.
type server struct {
	v     *Volume
	mount string

	mu       sync.Mutex
	peers    int
	idle     time.Time // when it began, or had the last command
	sessions *sessions
	absence  *absence
	left     chan struct{} // a client or a command has gone
}

// Serve is the I/O process of a volume, until it is drained and nobody uses it, or ctx
// ends. Where nobody manages the volume, it also ends once nobody has come for long; what is undrained stays
// in the buffer, and the record has the reason. far opens a remote behind ssh, and ready is called once clients are answered.
func Serve(ctx context.Context, c Config, far remote.Opener, log *slog.Logger, ready func()) error {
	lock, err := c.Lock()
	if err != nil {
		return err
	}
	defer lock.Unlock()
	if c, err = c.again(); err != nil {
		return err
	}
	if c.copied() {
		if c.At.Bucket != "" {
			return errBucket(c)
		}
		ready = sync.OnceFunc(ready)
		if c, err = awaitLead(ctx, c, far, log, ready); errors.Is(err, replica.ErrDrained) {
			return c.Remove()
		} else if ctx.Err() != nil {
			return nil
		} else if err != nil {
			return err
		}
	}
	if c.Ended != nil { // an earlier process
		c.Ended = nil
		if err := c.Save(); err != nil {
			return err
		}
	}
	v, err := load(Options{
		ID: c.ID, Remote: c.Remote, At: c.At, Far: far, Place: c.Place, Room: c.Room, Rate: c.Rate, Protect: c.Protect, Local: c.Local, Shared: c.Shared, Log: log, Notes: filepath.Join(c.Dir, notesName),
		Run: c.Run, Globs: c.Globs, Keys: c.Keys, Relay: c.relay(), Copy: c.Copy,
	})
	if err != nil {
		return err
	}
	if err := c.mark(); err != nil {
		return errors.Join(err, v.Close())
	}
	// A remote that is away keeps no volume from its journal, but one that is new.
	claim := func() error { return take(v.tree, &c, !v.journal.drained(), v.journal.log.Last() > 0) }
	err = claim()
	if (errors.Is(err, remote.ErrAway) || remote.ReasonOf(err) != "") && v.journal.log.Last() > 0 {
		log.Warn("the remote is away, or refuses its record", "err", err)
		v.drainer.claim, err = claim, nil
	}
	if err == nil {
		err = v.begins(ctx, c.Number)
	}
	if errors.Is(err, generation.ErrOther) {
		err = errors.Join(err, Leave(v.tree, c))
	}
	if err != nil {
		return errors.Join(err, v.Close())
	}
	if c.copied() {
		if err := lead(v, c); err != nil {
			return errors.Join(err, v.Close())
		}
	}
	if c.Run != "" {
		v.drainer.taken = func() bool { return taken(v.tree, c) }
	}
	clients, err := newSessions(v, c)
	if err != nil {
		return errors.Join(err, v.Close())
	}
	v.begin(ctx)
	s := &server{v: v, mount: c.Mount, idle: time.Now(), sessions: clients, absence: newAbsence(c), left: make(chan struct{}, 1)}
	err = s.serve(ctx, c, log, ready)
	absent := errors.Is(err, errAbsent)
	if absent {
		err = nil
	}
	if err != nil || absent || ctx.Err() != nil {
		v.journal.copies.Stop()
	}
	s.sessions.end(ctx.Err() != nil) // the clients of a process that is stopped come back with their locks
	if !v.journal.drained() {
		v.tree.Stop()
	}
	v.halt()
	pause := fsutil.Backoff{First: 100 * time.Millisecond, Longest: 10 * time.Second}
	var away error
	for err == nil && !absent && v.journal.drained() {
		if err = v.leave(c); !errors.Is(err, remote.ErrAway) || pause.Wait(ctx) != nil {
			break
		}
		away, err = err, nil
		absent = s.absence.over(false, v.drainer.progress.count())
	}
	over := c.Alone && err == nil && ctx.Err() == nil && !absent && v.journal.drained() && len(v.Status().Conflicts) == 0
	waits := v.drainer.waitsFor(away)
	err = errors.Join(err, v.Close())
	switch {
	case err == nil && over:
		return c.Remove()
	case err == nil && absent:
		log.Warn("nobody has come for the volume", "waits", waits)
		return c.noteEnd(s.absence.most, waits)
	}
	return err
}

// taken reports whether another volume of a run has taken its remote over, and notes that.
func taken(r remote.Remote, c Config) bool {
	of, _, err := owner(r, c)
	if err != nil || of.ID == c.holder() || of.Run != c.Run {
		return false
	}
	if now, err := Load(c.Dir); err == nil {
		now.Superseded = true
		return now.Save() == nil
	}
	return false
}

// leave removes what a drained volume has on the remote. A run that is not over has its checkpoints and
// the record there, so that nobody else uses the remote.
func (v *Volume) leave(c Config) error {
	if c.Run != "" {
		now, err := Load(c.Dir)
		if err != nil || !now.Over {
			return err
		}
		if err := v.drainer.generations.RemoveAll(); err != nil {
			return err
		}
	}
	return Leave(v.tree, c)
}

func (s *server) serve(ctx context.Context, c Config, log *slog.Logger, ready func()) error {
	listener, err := c.Listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.sessions.stops = func() bool { return ctx.Err() != nil }
	calls := s.calls(c, log)
	go new(wire.Gate).Serve(listener, func(conn net.Conn, known func() bool) {
		if known() { // the socket is in a directory of its user's own
			s.answer(ctx, conn, calls)
		}
	})
	ready()
	if err := s.untilDone(ctx); err != nil {
		return err
	}
	listener.Close() // nobody comes any more
	if ctx.Err() == nil && s.v.journal.drained() {
		return s.v.journal.copies.Drained(ctx)
	}
	return nil
}

// untilDone waits until nothing is left to do.
func (s *server) untilDone(ctx context.Context) error {
	look := time.NewTimer(lookOften)
	defer look.Stop()
	begun, orphans := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		case <-s.left:
		}
		if err := s.v.journal.copies.Over(); err != nil {
			return err
		}
		if err := s.sessions.expire(s.sessions.away); err != nil {
			return err
		}
		count, served := s.sessions.count()
		s.mu.Lock()
		alone, gone := s.peers == 0 && count == 0, count == 0
		long := served || time.Since(s.idle) > linger
		s.mu.Unlock()
		look.Reset(lookRarely)
		if alone {
			look.Reset(lookOften)
		}
		if !orphans && gone && time.Since(begun) > linger {
			orphans = true // no client of an earlier process has come back
			if err := s.v.Adopt(0, nil); err != nil {
				return err
			}
		}
		if alone && long && (s.v.journal.drained() || s.v.superseded()) {
			return nil
		}
		if s.absence.over(!alone, s.v.drainer.progress.count()) {
			return errAbsent
		}
	}
}

func (s *server) answer(ctx context.Context, conn net.Conn, table *rpc.Server) {
	s.mu.Lock()
	s.peers++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.peers--
		select {
		case s.left <- struct{}{}:
		default:
		}
	}()
	peer, err := rpc.NewPeer(conn, false, "a client of the volume", wire.Local, calls.Protocol)
	if err != nil {
		conn.Close()
		return
	}
	defer peer.Close()
	peer.Serve(ctx, table, rpc.Caller{Role: rpc.Controller, Rank: -1})
}

// follow keeps the copy of a follower like the journal. Its connection is no reason for the process to stay.
func (s *server) follow(ctx context.Context, _ rpc.Caller, q calls.FollowRequest, a rpc.Answer[rpc.None]) error {
	copies := s.v.journal.copies
	if copies == nil {
		return &core.Error{Kind: core.Unsupported, Op: "follow volume", Object: s.v.o.ID, Err: errors.New("it has one copy"), Remedy: core.RemedyVersions}
	}
	count := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.peers += n
	}
	count(-1)
	defer count(1)
	hello := replica.Hello{Copy: q.Copy, At: buffer.Position{Segment: q.Segment, At: q.At}}
	return copies.Serve(ctx, hello, a, func() error { return a.Reply(rpc.None{}) })
}

// used notes that a command has come. One that only looks at the status is none: who does so again and
// again would keep the process, and the run that waits for its end.
func (s *server) used() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.idle = time.Now()
}

func (s *server) calls(c Config, log *slog.Logger) *rpc.Server {
	table := rpc.NewServer(log)
	rpc.Handle(table, calls.StatusCall, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (calls.Status, error) {
		status, err := confirmedStatus(ctx, s.v)
		if status.Clients, _ = s.sessions.count(); status.Clients > 0 {
			status.Mount = s.mount
		}
		return status, err
	})
	rpc.Handle(table, calls.Publish, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (calls.Published, error) {
		s.used()
		last, err := s.v.PublishAll()
		if err == nil {
			err = s.v.journal.copies.Confirm(ctx, true)
		}
		return calls.Published{Last: last}, err
	})
	rpc.Handle(table, calls.Checkpoint, func(ctx context.Context, _ rpc.Caller, q calls.CheckpointRequest) (calls.Barrier, error) {
		s.used()
		number, err := s.v.Checkpoint(q.Also, q.Quiet)
		if err == nil {
			err = s.v.journal.copies.Confirm(ctx, true)
		}
		return calls.Barrier{Number: number}, err
	})
	rpc.Handle(table, calls.UseKeys, func(ctx context.Context, _ rpc.Caller, k core.BucketKeys) (rpc.None, error) {
		_, err := s.useKeys(ctx, calls.KeysOffer{Keys: k})
		return rpc.None{}, err
	})
	rpc.Handle(table, calls.OfferKeys, func(ctx context.Context, _ rpc.Caller, q calls.KeysOffer) (calls.KeysReply, error) {
		return s.useKeys(ctx, q)
	})
	rpc.Handle(table, calls.UseRelay, func(_ context.Context, _ rpc.Caller, q calls.RelayRequest) (rpc.None, error) {
		now := c // others ask at the same time
		now.Relay = q.Use
		return rpc.None{}, useRelay(s.v, now.relay())
	})
	rpc.Handle(table, calls.Prefetch, func(ctx context.Context, _ rpc.Caller, q calls.PrefetchRequest) (calls.Prefetched, error) {
		defer s.used()
		return s.v.Prefetch(ctx, q.Globs)
	})
	rpc.Handle(table, calls.IndexCall, func(ctx context.Context, _ rpc.Caller, q calls.IndexRequest) (calls.IndexReply, error) {
		s.used()
		return s.v.Index(q), s.v.journal.copies.Confirm(ctx, false)
	})
	rpc.Handle(table, calls.Leads, func(context.Context, rpc.Caller, rpc.None) (calls.Leading, error) {
		return calls.Leading{Leads: s.v.journal.copies.Over() == nil, Copy: c.holder()}, nil
	})
	rpc.HandleStream(table, calls.Follow, s.follow)
	rpc.HandleStream(table, calls.Files, s.sessions.files)
	return table
}
