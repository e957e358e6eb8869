package burst

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// program is a client that sends one request after the other.
type program struct {
	t      *testing.T
	peer   *rpc.Peer
	stream *rpc.Stream
	r      *bufio.Reader
	last   uint64
}

// newShared makes the record of a volume that clients of several hosts use.
func newShared(t *testing.T) Config {
	dir := t.TempDir()
	c := Config{ID: NewID(), Remote: filepath.Join(dir, "far"), Dir: filepath.Join(dir, "volume"), Place: filepath.Join(dir, "buffer"), Room: 64 << 20, Shared: true, away: time.Minute}
	for _, d := range []string{c.Remote, c.Dir, c.Place} {
		if err := fsutil.OwnDir(d); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	return c
}

// sharedVolume starts its I/O process.
func sharedVolume(t *testing.T) Config {
	c := newShared(t)
	serveShared(t, c)
	return c
}

// serveShared runs the I/O process until stop is called, or the test ends.
func serveShared(t *testing.T, c Config) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- Serve(ctx, c, nil, slog.New(slog.DiscardHandler), func() { close(ready) }) }()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// connect begins a session, and reports whether that is over.
func connect(t *testing.T, c Config, hello calls.Hello) (*program, bool) {
	peer, err := c.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	stream, welcome, err := rpc.Open(t.Context(), peer, calls.Files, hello)
	if err != nil {
		t.Fatal(err)
	}
	return &program{t: t, peer: peer, stream: stream, r: bufio.NewReader(stream)}, welcome.Over
}

// send sends a request without waiting for its answer.
func (p *program) send(q calls.Request) {
	if q.ID == 0 {
		p.last++
		q.ID = p.last
	}
	if _, err := p.stream.Write(q.Encode()); err != nil {
		p.t.Error(err)
	}
}

func (p *program) reply() *calls.Reply {
	r, err := calls.ReadReply(p.r)
	if err != nil {
		p.t.Error(err)
		return &calls.Reply{Errno: uint32(syscall.EIO)}
	}
	return r
}

func (p *program) do(q calls.Request) *calls.Reply {
	p.send(q)
	return p.reply()
}

// must carries out a request that succeeds.
func (p *program) must(q calls.Request) *calls.Reply {
	r := p.do(q)
	if r.Errno != 0 {
		p.t.Errorf("request %d of %+v: %v", q.Op, q, syscall.Errno(r.Errno))
	}
	return r
}

func (p *program) create(name string) uint64 {
	return p.must(calls.Request{Op: calls.Create, Ino: meta.Root, Name: name, Mode: 0o644, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Flags: calls.Writing}).Attr.Ino
}

func lockOf(ino uint64, mode uint32, flags uint8) calls.Request {
	return calls.Request{Op: calls.Lock, Ino: ino, Mode: mode, Flags: flags, Owner: 1, Off: 0, Size: 99}
}

// TestClientsSeeEachOther: each sees at once what another one has written, renamed and removed.
func TestClientsSeeEachOther(t *testing.T) {
	c := sharedVolume(t)
	a, _ := connect(t, c, calls.Hello{Client: 1})
	b, _ := connect(t, c, calls.Hello{Client: 2, Afar: true})
	ino := a.create("f")
	a.must(calls.Request{Op: calls.Write, Ino: ino, Data: []byte("aaaa")})
	if got := b.must(calls.Request{Op: calls.Lookup, Ino: meta.Root, Name: "f"}); got.Attr.Ino != ino || got.Attr.Size != 4 {
		t.Errorf("the other client finds %+v", got.Attr)
	}
	b.must(calls.Request{Op: calls.OpenOp, Ino: ino, Flags: calls.Writing})
	b.must(calls.Request{Op: calls.Write, Ino: ino, Off: 1, Data: []byte("bb")})
	if got := a.must(calls.Request{Op: calls.Read, Ino: ino, Size: 10}); string(got.Data) != "abba" {
		t.Errorf("the first client reads %q", got.Data)
	}
	b.must(calls.Request{Op: calls.SetAttr, Ino: ino, Valid: calls.SetSize, Flags: calls.Grow, Size: 2})
	b.must(calls.Request{Op: calls.Rename, Ino: meta.Root, Name: "f", ToDir: meta.Root, ToName: "g"})
	if got := a.do(calls.Request{Op: calls.Lookup, Ino: meta.Root, Name: "f"}); syscall.Errno(got.Errno) != syscall.ENOENT {
		t.Errorf("the old name has %+v", got)
	}
	a.must(calls.Request{Op: calls.Remove, Ino: meta.Root, Name: "g"})
	a.must(calls.Request{Op: calls.Release, Ino: ino})
	if got := b.must(calls.Request{Op: calls.Read, Ino: ino, Size: 10}); string(got.Data) != "abba" {
		t.Errorf("the removed file, which is open, has %q", got.Data)
	}
}

// TestAppends of several clients lose nothing, and mix nothing.
func TestAppends(t *testing.T) {
	c := sharedVolume(t)
	first, _ := connect(t, c, calls.Hello{Client: 9})
	ino := first.create("log")
	var all sync.WaitGroup
	const clients, lines = 4, 50
	for i := range clients {
		p, _ := connect(t, c, calls.Hello{Client: uint64(i + 1), Afar: true})
		all.Go(func() {
			for line := range lines {
				p.must(calls.Request{Op: calls.Write, Ino: ino, Flags: calls.Append, Off: 3, Data: fmt.Appendf(nil, "%d:%03d\n", i, line)})
			}
		})
	}
	all.Wait()
	got := string(first.must(calls.Request{Op: calls.Read, Ino: ino, Size: 1 << 20}).Data)
	next := [clients]int{}
	for line := range strings.Lines(got) {
		var i, n int
		if _, err := fmt.Sscanf(line, "%d:%d\n", &i, &n); err != nil || i >= clients || next[i] != n {
			t.Fatalf("line %q: %v; next is %v", line, err, next)
		}
		next[i]++
	}
	if next != [clients]int{lines, lines, lines, lines} {
		t.Errorf("there are %v lines", next)
	}
}

// TestLocksOfClients: a lock keeps others out, and ends with its client. One whose connection is lost keeps
// it, while others wait.
func TestLocksOfClients(t *testing.T) {
	c := sharedVolume(t)
	a, _ := connect(t, c, calls.Hello{Client: 1})
	b, _ := connect(t, c, calls.Hello{Client: 2, Afar: true})
	ino := a.create("f")
	b.must(calls.Request{Op: calls.OpenOp, Ino: ino, Flags: calls.Writing})
	for _, kind := range []uint8{0, calls.Whole} {
		a.must(lockOf(ino, calls.LockWrite, kind))
		if got := b.do(lockOf(ino, calls.LockRead, kind)); syscall.Errno(got.Errno) != syscall.EAGAIN {
			t.Errorf("kind %d: the other client's lock: %v", kind, syscall.Errno(got.Errno))
		}
		if got := b.must(lockOf(ino, calls.LockRead, kind|calls.Test)); got.Lock.Type != calls.LockWrite {
			t.Errorf("kind %d: tested: %+v", kind, got.Lock)
		}
	}
	a.must(calls.Request{Op: calls.Flush, Ino: ino, Flags: calls.Owned, Owner: 1}) // close
	b.must(lockOf(ino, calls.LockWrite, 0))
	b.send(lockOf(ino, calls.LockWrite, calls.Whole|calls.Wait)) // that of flock is left
	b.send(calls.Request{ID: b.last, Op: calls.Cancel})
	if got := b.reply(); syscall.Errno(got.Errno) != syscall.EINTR {
		t.Errorf("a wait that was cancelled: %v", syscall.Errno(got.Errno))
	}
	b.send(lockOf(ino, calls.LockWrite, calls.Whole|calls.Wait))
	a.peer.Close() // it is killed
	if got := b.reply(); got.Errno != 0 {
		t.Errorf("after its owner has died: %v", syscall.Errno(got.Errno))
	}
	b.peer.Close()
	d, _ := connect(t, c, calls.Hello{Client: 3})
	if got := d.do(lockOf(ino, calls.LockWrite, 0)); syscall.Errno(got.Errno) != syscall.EAGAIN {
		t.Errorf("a lock of a client that may come back: %v", syscall.Errno(got.Errno))
	}
	held := []locks.Held{{Ino: ino, Lock: locks.Lock{Owner: locks.Owner{Client: 2, Number: 1}, End: 99, Write: true}}}
	again, over := connect(t, c, calls.Hello{Client: 2, Afar: true, Locks: held})
	if over {
		t.Error("the session is over")
	}
	again.must(lockOf(ino, calls.LockNone, 0))
	d.must(lockOf(ino, calls.LockWrite, 0))
}

// TestSessionsThatWereAwayTooLong lose their locks, and then everything.
func TestSessionsThatWereAwayTooLong(t *testing.T) {
	b := start(t, Options{Shared: true})
	s, err := newSessions(b.Volume, Config{})
	b.must(err)
	s.shared, b.locks = true, newLocking(time.Minute)
	held := []locks.Held{{Ino: meta.Root, Lock: locks.Lock{Owner: locks.Owner{Number: 1}, End: 99, Write: true}}}
	hello := calls.Hello{Client: 1, Afar: true, Locks: held}
	mine, err := s.begin(t.Context(), hello, func() {})
	b.must(err)
	b.must(s.leave(mine))
	b.must(s.expire(time.Hour))
	if !b.locks.table.Any(1) {
		t.Error("it lost its lock at once")
	}
	b.must(s.expire(0))
	if b.locks.table.Any(1) {
		t.Error("it still has its lock")
	}
	if mine, err = s.begin(t.Context(), hello, func() {}); mine != nil || err != nil {
		t.Errorf("it comes back with its lock: %+v, %v", mine, err)
	}
	hello.Client = 2
	if mine, err = s.begin(t.Context(), hello, func() {}); mine == nil || err != nil {
		t.Errorf("another client: %v", err)
	}
	hello.Client = 3
	if mine, err = s.begin(t.Context(), hello, func() {}); mine != nil || err != nil {
		t.Errorf("a client whose lock another one has: %+v, %v", mine, err)
	}
}

// TestWritesAreNotRepeated over what another client has written since.
func TestWritesAreNotRepeated(t *testing.T) {
	c := sharedVolume(t)
	a, _ := connect(t, c, calls.Hello{Client: 1, Afar: true})
	b, _ := connect(t, c, calls.Hello{Client: 2})
	ino := a.create("f")
	write := calls.Request{ID: 100, Op: calls.Write, Ino: ino, Data: []byte("a")}
	grow := calls.Request{ID: 101, Op: calls.Write, Ino: ino, Flags: calls.Append, Data: []byte("x")}
	a.must(write)
	a.must(grow)
	b.must(calls.Request{Op: calls.Write, Ino: ino, Data: []byte("b")})
	a.peer.Close() // as if the answers were lost
	again, _ := connect(t, c, calls.Hello{Client: 1, Afar: true, Open: []calls.OpenFile{{Ino: ino, Count: 1}}})
	again.must(write)
	again.must(grow)
	if got := b.must(calls.Request{Op: calls.Read, Ino: ino, Size: 10}); string(got.Data) != "bx" {
		t.Errorf("the file has %q", got.Data)
	}
}

// TestLocksOutliveTheProcess: nobody gets the lock of a client before that can have come back.
func TestLocksOutliveTheProcess(t *testing.T) {
	c := newShared(t)
	stop := serveShared(t, c)
	a, _ := connect(t, c, calls.Hello{Client: 1})
	ino := a.create("f")
	a.must(lockOf(ino, calls.LockWrite, 0))
	stop()
	serveShared(t, c)
	b, _ := connect(t, c, calls.Hello{Client: 2, Afar: true})
	b.send(lockOf(ino, calls.LockWrite, 0))
	held := []locks.Held{{Ino: ino, Lock: locks.Lock{Owner: locks.Owner{Number: 1}, End: 99, Write: true}}}
	if _, over := connect(t, c, calls.Hello{Client: 1, Locks: held, Open: []calls.OpenFile{{Ino: ino, Count: 1}}}); over {
		t.Error("the session of the first client is over")
	}
	b.send(calls.Request{ID: b.last, Op: calls.Cancel})
	if got := b.reply(); syscall.Errno(got.Errno) != syscall.EINTR {
		t.Errorf("the other client's lock: %v", syscall.Errno(got.Errno))
	}
}

// TestOneClientMakesAFile: of many that make it exclusively, one succeeds.
func TestOneClientMakesAFile(t *testing.T) {
	c := sharedVolume(t)
	const clients = 8
	made := make(chan syscall.Errno, clients)
	var all sync.WaitGroup
	for i := range clients {
		p, _ := connect(t, c, calls.Hello{Client: uint64(i + 1), Afar: i > 0})
		all.Go(func() {
			r := p.do(calls.Request{Op: calls.Create, Ino: meta.Root, Name: "f", Mode: 0o600, Flags: calls.Writing | calls.Exclusive})
			made <- syscall.Errno(r.Errno)
		})
	}
	all.Wait()
	close(made)
	first := 0
	for errno := range made {
		switch errno {
		case 0:
			first++
		case syscall.EEXIST:
		default:
			t.Error(errno)
		}
	}
	if first != 1 {
		t.Errorf("%d clients have made it", first)
	}
}
