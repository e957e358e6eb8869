package burst

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

const (
	// awayFor is how long a client on another host has its locks without a connection.
	awayFor = 10 * time.Second
	// knownFor is how long its answers are known, and what it has open. By then it has given up.
	knownFor = calls.ReturnTime + 10*time.Second
	// mostClients bounds the clients of a volume, and mostOver those that are known to be over.
	mostClients = 4096
	mostOver    = 4096
	mostNote    = 1 << 16 * 21 // bytes: a number, and a comma, as many as an earlier version noted
	// anyClient is over once there are more than mostOver. No client has that number.
	anyClient = 0
)

// sessions are those of the clients of a volume.
type sessions struct {
	v      *Volume
	shared bool
	away   time.Duration // how long a client has its locks without a connection

	mu     sync.Mutex
	all    map[uint64]*session
	over   map[uint64]bool // clients that had locks, and lost them
	note   string          // the file that has over for the next process; empty: there is none
	served bool            // there was a session
	stops  func() bool     // reports whether the process ends, so that clients come back to the next one
}

// session is what a client has open and locked.
type session struct {
	client uint64
	kept   bool // its end waits for a while, in case that the client connects again
	cancel context.CancelFunc
	ended  chan struct{} // closed once the last request of the connection has ended
	away   time.Time     // since when there is no connection; zero: there is one
	done   *repeats
}

// count returns how many clients have a connection, or are expected back soon, and whether there was one.
func (s *sessions) count() (n int, served bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.all {
		if of.away.IsZero() || time.Since(of.away) < s.away {
			n++
		}
	}
	return n, s.served
}

// files is the session of a client.
func (s *sessions) files(ctx context.Context, _ rpc.Caller, hello calls.Hello, a rpc.Answer[calls.Welcome]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	mine, err := s.begin(ctx, hello, cancel)
	if err == nil { // a process that no longer leads knows nothing of its clients
		err = s.v.journal.copies.Confirm(ctx, false)
	}
	if mine == nil && err == nil {
		return a.Reply(calls.Welcome{Over: true})
	}
	if mine == nil {
		return err
	}
	if err == nil {
		err = a.Reply(calls.Welcome{})
	}
	if err == nil {
		(&handler{volume: s.v, client: hello.Client, done: mine.done, bye: func() { s.bye(mine) }}).serve(ctx, a)
	}
	return errors.Join(err, s.leave(mine))
}

// begin begins a session, or continues that of the same client. nil means that it is over.
func (s *sessions) begin(ctx context.Context, hello calls.Hello, cancel context.CancelFunc) (*session, error) {
	mine := &session{client: hello.Client, kept: hello.Afar, cancel: cancel, ended: make(chan struct{}), done: newRepeats()}
	for {
		s.mu.Lock()
		before := s.all[hello.Client]
		if before == nil || !before.away.IsZero() {
			break
		}
		before.kept = true
		s.mu.Unlock()
		before.cancel() // its connection is lost: none of its requests may continue beside the new ones
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	defer s.mu.Unlock()
	before := s.all[hello.Client]
	switch {
	case hello.Client == 0:
		return nil, &core.Error{Kind: core.Invalid, Op: "use volume", Err: errors.New("the client has no number"), Remedy: core.RemedyVersions}
	case hello.Afar && !s.shared:
		return nil, &core.Error{Kind: core.Busy, Op: "use volume", Err: errors.New("a volume of one host is still being drained"), Remedy: "Wait until that has ended: `bee volume drain`."}
	case before == nil && len(s.all) > 0 && !s.shared:
		return nil, &core.Error{Kind: core.Busy, Op: "use volume", Err: errors.New("another client has it mounted"), Remedy: "Unmount it there by `bee volume umount`."}
	case before == nil && len(s.all) >= mostClients:
		return nil, &core.Error{Kind: core.Busy, Op: "use volume", Err: errors.New("too many clients have it mounted"), Remedy: "Unmount it on hosts that do not need it."}
	case s.over[hello.Client], before == nil && hello.Again && s.over[anyClient], before == nil && hello.Again && hello.Afar && time.Since(s.v.begun) > knownFor:
		return nil, nil // it is over, and that is no failure of this process
	}
	ours, err := s.v.locks.reclaim(hello.Client, hello.Locks, before == nil && s.shared)
	if err != nil {
		return nil, err
	}
	if !ours {
		return nil, s.forget(hello.Client, true)
	}
	if before != nil {
		mine.done = before.done
	}
	s.all[hello.Client] = mine
	return mine, s.v.Adopt(hello.Client, hello.Open)
}

// leave notes that the connection of a session has ended.
func (s *sessions) leave(mine *session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(mine.ended)
	mine.away = time.Now()
	if mine.kept || s.stops() {
		return nil
	}
	return s.forget(mine.client, false)
}

// bye notes that nobody comes back for a session.
func (s *sessions) bye(mine *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mine.kept = false
}

// expire releases the locks of clients that have been away for so long: those that had some can not come
// back. It ends the sessions of the others later.
func (s *sessions) expire(after time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for client, of := range s.all {
		if of.away.IsZero() || time.Since(of.away) < after {
			continue
		}
		if s.v.locks.any(client) || time.Since(of.away) >= knownFor {
			errs = append(errs, s.forget(client, false))
		}
	}
	return errors.Join(errs...)
}

// forget ends a session, and keeps its client from coming back if that had locks. Callers hold the lock.
func (s *sessions) forget(client uint64, hadLocks bool) error {
	if (hadLocks || s.v.locks.any(client)) && s.shared {
		if err := s.exclude(client); err != nil { // before others get its locks
			return err
		}
	}
	s.v.locks.drop(client)
	delete(s.all, client)
	s.served = true
	return s.v.Adopt(client, nil)
}

// exclude notes that a client is over. Once too many are, so is any client without a session that comes back:
// one that was stopped may come back at any time, so that none of them can be forgotten. Callers hold the lock.
func (s *sessions) exclude(client uint64) error {
	if s.over[anyClient] {
		return nil
	}
	if len(s.over) >= mostOver {
		client = anyClient
	}
	s.over[client] = true
	err := s.remember()
	if err != nil {
		delete(s.over, client)
	}
	return err
}

// remember writes which clients are over, for the next process. Callers hold the lock.
func (s *sessions) remember() error {
	if s.note == "" {
		return nil
	}
	raw, err := json.Marshal(slices.Collect(maps.Keys(s.over)))
	if err != nil {
		return err
	}
	if err := fsutil.WriteFile(s.note, raw, 0o600); err != nil {
		return err
	}
	return s.v.journal.copies.Note(context.Background(), raw) // that ends with the process
}

// end removes the note for the next process, if no client of this one can come back to that. Nothing is
// written after it.
func (s *sessions) end(stopped bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.note != "" && !stopped && len(s.all) == 0 && len(s.over) == 0 {
		fsutil.TryRemove(s.note)
	}
	s.note = ""
}

// newSessions keeps clients from new locks for a while, where those of an earlier process had some.
func newSessions(v *Volume, c Config) (*sessions, error) {
	s := &sessions{v: v, shared: c.Shared, away: cmp.Or(c.away, awayFor), all: map[uint64]*session{}, over: map[uint64]bool{}, stops: func() bool { return false }}
	if !c.Shared {
		return s, nil
	}
	dir := c.Dir
	if c.copied() {
		dir = c.Place // so that each copy has it
	}
	note := filepath.Join(dir, lockedName)
	s.note = note
	raw, err := fsutil.ReadFile(dir, lockedName, mostNote)
	if missing := errors.Is(err, fs.ErrNotExist); missing && c.copied() && v.journal.log.Last() > 0 {
		raw, err = nil, nil // there may have been locks on another host
	} else if missing {
		v.locks.set = func() error { return fsutil.WriteFile(note, []byte("[]"), 0o600) } // no client is over yet
		return s, nil
	}
	var over []uint64
	if err == nil && len(raw) > 0 { // an earlier version wrote an empty note
		err = json.Unmarshal(raw, &over)
	}
	if err != nil {
		return nil, err
	}
	for _, client := range over {
		s.over[client] = true
	}
	v.locks = newLocking(s.away)
	return s, nil
}
