package burst

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// TestChangesAreNotRepeated over what another client has done since, when a client comes back without the
// answers to its requests.
func TestChangesAreNotRepeated(t *testing.T) {
	for name, restarts := range map[string]bool{"connection lost": false, "process restarted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newShared(t)
			stop := serveShared(t, c)
			a, _ := connect(t, c, calls.Hello{Client: 1, Afar: true})
			b, _ := connect(t, c, calls.Hello{Client: 2, Afar: true})
			ino, opened, met := a.create("f"), a.create("g"), a.create("h")
			a.create("old")
			requests := []calls.Request{
				{ID: 100, Op: calls.SetAttr, Ino: ino, Valid: calls.SetSize},
				{ID: 101, Op: calls.OpenOp, Ino: opened, Flags: calls.Writing | calls.Truncate},
				{ID: 102, Op: calls.Remove, Ino: meta.Root, Name: "old"},
				{ID: 103, Op: calls.Mkdir, Ino: meta.Root, Name: "dir", Mode: 0o755},
				{ID: 104, Op: calls.Create, Ino: meta.Root, Name: "h", Mode: 0o644, Flags: calls.Writing | calls.Truncate},
			}
			for _, q := range requests {
				a.must(q)
			}
			b.must(calls.Request{Op: calls.Write, Ino: ino, Data: []byte("b")})
			b.must(calls.Request{Op: calls.Write, Ino: opened, Data: []byte("b")})
			b.must(calls.Request{Op: calls.Write, Ino: met, Data: []byte("b")})
			b.create("old")
			b.must(calls.Request{Op: calls.Remove, Ino: meta.Root, Name: "dir", Flags: calls.Directory})
			a.peer.Close() // as if the answers were lost
			if restarts {
				stop()
				serveShared(t, c)
				b, _ = connect(t, c, calls.Hello{Client: 2, Afar: true, Again: true})
			}
			again, over := connect(t, c, calls.Hello{Client: 1, Afar: true, Again: true, Open: []calls.OpenFile{{Ino: ino, Count: 1}}})
			if over {
				t.Fatal("the session is over")
			}
			for _, q := range requests {
				if got := again.do(q); q.Op == calls.Create && (got.Errno != 0 || got.Attr.Ino != met) {
					t.Errorf("created again: %+v", got)
				}
			}
			for _, ino := range []uint64{ino, opened, met} {
				if got := b.must(calls.Request{Op: calls.Read, Ino: ino, Size: 10}); string(got.Data) != "b" {
					t.Errorf("the file has %q", got.Data)
				}
			}
			b.must(calls.Request{Op: calls.Lookup, Ino: meta.Root, Name: "old"})
			if got := b.do(calls.Request{Op: calls.Lookup, Ino: meta.Root, Name: "dir"}); syscall.Errno(got.Errno) != syscall.ENOENT {
				t.Errorf("the directory was made again: %v", syscall.Errno(got.Errno))
			}
			b.must(calls.Request{Op: calls.Remove, Ino: meta.Root, Name: "g"})
			again.must(calls.Request{Op: calls.Read, Ino: opened, Size: 10}) // the client has it open
		})
	}
}

// TestAnswersAreKnownByAge: that to a request that has waited for long is as new as any other.
func TestAnswersAreKnownByAge(t *testing.T) {
	r := newRepeats()
	for id := range uint64(3 * remembered) {
		r.put(id+2, &calls.Reply{})
	}
	r.put(1, &calls.Reply{})
	r.put(4*remembered, &calls.Reply{})
	if r.get(1) == nil {
		t.Error("the last answer but one is forgotten")
	}
	if len(r.replies) > remembered || len(r.order) > remembered {
		t.Errorf("%d answers are known", len(r.replies))
	}
}

// TestAnswersOutliveLocks: a client that was away for some time, and had no locks, repeats nothing.
func TestAnswersOutliveLocks(t *testing.T) {
	b := start(t, Options{Shared: true})
	s, err := newSessions(b.Volume, Config{})
	b.must(err)
	s.shared = true
	mine, err := s.begin(t.Context(), calls.Hello{Client: 1, Afar: true}, func() {})
	b.must(err)
	mine.done.put(7, &calls.Reply{ID: 7})
	b.must(s.leave(mine))
	mine.away = time.Now().Add(-knownFor + time.Second)
	b.must(s.expire(awayFor))
	if count, _ := s.count(); count != 0 {
		t.Error("the client is expected back soon")
	}
	again, err := s.begin(t.Context(), calls.Hello{Client: 1, Afar: true, Again: true}, func() {})
	b.must(err)
	if again.done.get(7) == nil {
		t.Error("its answer is forgotten")
	}
	b.must(s.leave(again))
	again.away = time.Now().Add(-knownFor)
	b.must(s.expire(awayFor))
	b.begun = time.Now().Add(-knownFor - time.Second)
	if again, err = s.begin(t.Context(), calls.Hello{Client: 1, Afar: true, Again: true}, func() {}); again != nil || err != nil {
		t.Errorf("it comes back later: %+v, %v", again, err)
	}
}

// TestRemovedFilesOutliveTheProcess: a file that a client has open is there when that comes back, whoever
// comes back before.
func TestRemovedFilesOutliveTheProcess(t *testing.T) {
	b := start(t, Options{Shared: true})
	b.file("f", "content")
	f, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	ino := f.Ino
	_, err = b.OpenFile(t.Context(), who{client: 1}, ino, false)
	b.must(err)
	b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "f"}))
	b.drained()
	b.crash()
	b.begun = time.Now().Add(-2 * awayFor)
	b.must(b.Adopt(2, nil)) // another client has come back, and has nothing open
	b.journal.mu.Lock()
	b.journal.forgetAll(keptFor)
	b.journal.mu.Unlock()
	b.must(b.Adopt(1, []calls.OpenFile{{Ino: ino, Count: 1}}))
	if got, err := b.Read(t.Context(), ino, 0, 10); err != nil || string(got) != "content" {
		t.Errorf("the file has %q, %v", got, err)
	}
}

// TestClientsStayOver: one that has lost its locks does not come back by a restart of the process.
func TestClientsStayOver(t *testing.T) {
	c := newShared(t)
	stop := serveShared(t, c)
	a, _ := connect(t, c, calls.Hello{Client: 1})
	ino := a.create("f")
	a.must(lockOf(ino, calls.LockWrite, 0))
	b, _ := connect(t, c, calls.Hello{Client: 2, Afar: true})
	b.send(lockOf(ino, calls.LockWrite, calls.Wait))
	a.peer.Close() // it is killed, and not expected back
	if got := b.reply(); got.Errno != 0 {
		t.Errorf("the lock of a client that has died: %v", syscall.Errno(got.Errno))
	}
	stop()
	serveShared(t, c)
	held := []locks.Held{{Ino: ino, Lock: locks.Lock{Owner: locks.Owner{Number: 1}, End: 99, Write: true}}}
	if _, over := connect(t, c, calls.Hello{Client: 1, Again: true, Locks: held}); !over {
		t.Error("it has its lock again")
	}
}

// TestManyClientsAreOver: once there are too many to note, no client without a session comes back, and those
// that have one, or are new, are none of them.
func TestManyClientsAreOver(t *testing.T) {
	b := start(t, Options{Shared: true})
	c := Config{Shared: true, Dir: t.TempDir()}
	s, err := newSessions(b.Volume, c)
	b.must(err)
	for client := range uint64(mostOver) {
		s.over[client+100] = true
	}
	begin := func(hello calls.Hello) *session {
		mine, err := s.begin(t.Context(), hello, func() {})
		b.must(err)
		return mine
	}
	if begin(calls.Hello{Client: 2, Again: true}) == nil {
		t.Error("a client that had no locks is over")
	}
	dies := begin(calls.Hello{Client: 1})
	b.must(b.locks.acquire(t.Context(), meta.Root, locks.Lock{Owner: locks.Owner{Client: 1, Number: 1}, End: 9}, false))
	b.must(s.leave(dies))
	for range 2 {
		if len(s.over) > mostOver+1 {
			t.Errorf("%d clients are noted", len(s.over))
		}
		if begin(calls.Hello{Client: 1, Again: true}) != nil || begin(calls.Hello{Client: 3, Again: true}) != nil {
			t.Error("a client that may have lost its locks comes back")
		}
		if begin(calls.Hello{Client: 4}) == nil {
			t.Error("a new client is over")
		}
		if s, err = newSessions(b.Volume, c); err != nil { // the next process
			t.Fatal(err)
		}
	}
}

// TestLooksForLocksWait until clients of an earlier process have come back.
func TestLooksForLocksWait(t *testing.T) {
	l := newLocking(time.Minute)
	mine := locks.Lock{Owner: locks.Owner{Client: 1, Number: 1}, End: 9, Write: true}
	other := locks.Lock{Owner: locks.Owner{Client: 2, Number: 1}, End: 9}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if got, err := l.conflict(ctx, meta.Root, other); err == nil {
		t.Errorf("seen before: %+v", got)
	}
	ours, err := l.reclaim(1, []locks.Held{{Ino: meta.Root, Lock: mine}}, true)
	if !ours || err != nil {
		t.Fatal(ours, err)
	}
	if got, err := l.conflict(t.Context(), meta.Root, other); err != nil || got.Type != calls.LockWrite {
		t.Errorf("seen: %+v, %v", got, err)
	}
}

// TestLateClaims: a client that comes back to another process with locks has to come before these may have
// been another one's, even if that has released them.
func TestLateClaims(t *testing.T) {
	b := start(t, Options{Shared: true})
	s, err := newSessions(b.Volume, Config{})
	b.must(err)
	s.shared = true
	held := []locks.Held{{Ino: meta.Root, Lock: locks.Lock{Owner: locks.Owner{Number: 1}, End: 99, Write: true}}}
	b.locks = newLocking(time.Minute)
	if mine, err := s.begin(t.Context(), calls.Hello{Client: 1, Afar: true, Again: true, Locks: held}, func() {}); mine == nil || err != nil {
		t.Errorf("in time: %v", err)
	}
	b.locks = newLocking(0)
	hello := calls.Hello{Client: 2, Afar: true, Again: true, Locks: held}
	for range 2 {
		if mine, err := s.begin(t.Context(), hello, func() {}); mine != nil || err != nil {
			t.Fatalf("late: %+v, %v", mine, err)
		}
		hello.Locks = nil
	}
}

// TestNotesOfAnEarlierVersion are empty: there were locks.
func TestNotesOfAnEarlierVersion(t *testing.T) {
	b := start(t, Options{Shared: true})
	dir := t.TempDir()
	b.must(os.WriteFile(filepath.Join(dir, lockedName), nil, 0o600))
	s, err := newSessions(b.Volume, Config{Shared: true, Dir: dir})
	b.must(err)
	if len(s.over) != 0 || time.Until(b.locks.closed) <= 0 {
		t.Errorf("over: %v; new locks wait until %v", s.over, b.locks.closed)
	}
}
