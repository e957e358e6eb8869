package burst

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// copied are records of one volume on two hosts, and their processes.
type copied struct {
	*testing.T
	hosts     []Config
	processes []*os.Process
}

// newCopied makes the records of a volume with two copies, of which the first one leads in the beginning.
func newCopied(t *testing.T) *copied {
	dir := t.TempDir()
	p := &copied{T: t, processes: make([]*os.Process, 2)}
	far, id := filepath.Join(dir, "far"), NewID()
	p.must(fsutil.OwnDir(far))
	for i := range 2 {
		own := filepath.Join(dir, fmt.Sprint("host", i))
		p.must(fsutil.OwnDir(own))
		c := Config{
			ID: id, Remote: far, Dir: filepath.Join(own, "volume"), Place: filepath.Join(own, "buffer"), Room: 64 << 20, Shared: true, Alone: true,
			Replicas: 2, Copy: NewID(), Follows: i > 0,
		}
		p.must(fsutil.OwnDir(c.Place))
		p.must(c.Save())
		p.hosts = append(p.hosts, c)
	}
	for _, c := range p.hosts { // as the nodes do
		l, err := c.ServeLeader(func(ctx context.Context) (io.ReadWriteCloser, error) {
			for _, other := range p.hosts {
				if other.Dir != c.Dir && p.leads(ctx, other) {
					return other.DialConn(ctx)
				}
			}
			return nil, errors.New("nobody else leads")
		})
		p.must(err)
		t.Cleanup(func() { l.Close() })
	}
	t.Cleanup(func() {
		for i, c := range p.hosts {
			p.kill(i)
			if raw, err := os.ReadFile(c.LogPath()); err == nil && t.Failed() {
				t.Logf("host %d:\n%s", i, raw)
			}
		}
	})
	return p
}

// await waits until something is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		if !is() {
			return fmt.Errorf("there is no %s", what)
		}
		return nil
	})
}

func (p *copied) must(err error) {
	if err != nil {
		p.Helper()
		p.Fatal(err)
	}
}

func (p *copied) leads(ctx context.Context, c Config) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	peer, err := c.Dial(ctx)
	if err != nil {
		return false
	}
	defer peer.Close()
	is, err := rpc.Call(ctx, peer, calls.Leads, rpc.None{})
	return err == nil && is.Leads
}

func (p *copied) start(i int) {
	binary, err := os.Executable()
	p.must(err)
	p.processes[i], err = p.hosts[i].Start(p.Context(), binary, Command, Inherited{})
	p.must(err)
}

// kill kills a process, and returns once it has ended.
func (p *copied) kill(i int) {
	if p.processes[i] == nil {
		return
	}
	core.BestEffort(p.processes[i].Kill()) // it may have ended
	p.processes[i] = nil
	await(p.T, "end of the process", func() bool {
		lock, err := p.hosts[i].Lock()
		return err != nil && errors.Is(err, fs.ErrNotExist) || err == nil && lock.Unlock() == nil
	})
}

// complete waits until there are two complete copies.
func (p *copied) complete() {
	await(p.T, "two copies", func() bool {
		for _, c := range p.hosts {
			peer, err := c.Dial(p.Context())
			if err != nil {
				continue
			}
			s, err := rpc.Call(p.Context(), peer, calls.StatusCall, rpc.None{})
			peer.Close()
			if err == nil && len(s.Copies) == 2 {
				return true
			}
		}
		return false
	})
}

// job is a program on a third host that writes on, whichever process leads.
type job struct {
	p      *copied
	peer   *rpc.Peer
	stream *rpc.Stream
	r      *bufio.Reader
	last   uint64
	begun  bool
	open   []calls.OpenFile
	pause  time.Duration // the longest
}

func (j *job) connect() {
	await(j.p.T, "a process that leads", func() bool {
		for _, c := range j.p.hosts {
			if !j.p.leads(j.p.Context(), c) {
				continue
			}
			peer, err := c.Dial(j.p.Context())
			if err != nil {
				continue
			}
			stream, welcome, err := rpc.Open(j.p.Context(), peer, calls.Files, calls.Hello{Client: 7, Afar: true, Again: j.begun, Open: j.open})
			if err != nil {
				peer.Close()
				continue
			}
			if welcome.Over {
				j.p.Fatal("the session is over")
			}
			j.peer, j.stream, j.r, j.begun = peer, stream, bufio.NewReader(stream), true
			return true
		}
		return false
	})
}

// do makes a request, again and again until there is an answer.
func (j *job) do(q calls.Request) *calls.Reply {
	j.p.Helper()
	j.last++
	q.ID = j.last
	begun := time.Now()
	for {
		if j.stream == nil {
			j.connect()
		}
		_, err := j.stream.Write(q.Encode())
		var r *calls.Reply
		if err == nil {
			r, err = calls.ReadReply(j.r)
		}
		if err == nil && r.Errno != 0 {
			j.p.Fatalf("request %d: errno %d", q.Op, r.Errno)
		}
		if err == nil {
			j.pause = max(j.pause, time.Since(begun))
			return r
		}
		j.peer.Close()
		j.stream = nil
	}
}

// write writes files, and a line for each into a log that stays open.
func (j *job) write(log uint64, from, to int) {
	for i := from; i < to; i++ {
		ino := j.do(calls.Request{Op: calls.Create, Ino: meta.Root, Name: fmt.Sprint("f", i), Mode: 0o644, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Flags: calls.Writing}).Attr.Ino
		j.open = append(j.open[:1], calls.OpenFile{Ino: ino, Count: 1})
		j.do(calls.Request{Op: calls.Write, Ino: ino, Data: []byte(strings.Repeat(fmt.Sprint(i), 1000))})
		j.do(calls.Request{Op: calls.Write, Ino: log, Flags: calls.Append, Data: fmt.Appendf(nil, "line %d\n", i)})
		j.do(calls.Request{Op: calls.Flush, Ino: ino})
		j.do(calls.Request{Op: calls.Release, Ino: ino})
		j.open = j.open[:1]
	}
}

// TestIONodesDie kills the processes that lead, one after the other and each with its disk, while a program writes. It
// only waits, each request is carried out once, and the remote gets everything. Then nothing is left.
func TestIONodesDie(t *testing.T) {
	t.Parallel()
	p := newCopied(t)
	p.start(0)
	p.start(1)
	p.complete()
	j := &job{p: p}
	log := j.do(calls.Request{Op: calls.Create, Ino: meta.Root, Name: "log", Mode: 0o644, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Flags: calls.Writing}).Attr.Ino
	j.open = []calls.OpenFile{{Ino: log, Count: 1}}
	j.write(log, 0, 20)
	for round := range 2 {
		p.kill(round)
		p.must(os.RemoveAll(p.hosts[round].Place))
		j.write(log, 20+20*round, 40+20*round)
		p.start(round) // it follows the other one, with a new copy
		p.complete()
	}
	if j.pause > 5*time.Second {
		t.Errorf("the program waited for %v", j.pause)
	}
	t.Logf("the longest pause is %v", j.pause)
	j.do(calls.Request{Op: calls.Release, Ino: log})
	_, err := j.stream.Write((&calls.Request{Op: calls.Bye}).Encode())
	p.must(err)
	j.peer.Close()
	for _, c := range p.hosts {
		await(t, "end of the volume", func() bool {
			_, err := os.Lstat(c.Dir)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
	want, lines := map[string]string{}, ""
	for i := range 60 {
		want[fmt.Sprint("f", i)] = strings.Repeat(fmt.Sprint(i), 1000)
		lines += fmt.Sprintf("line %d\n", i)
	}
	want["log"] = lines
	got := tree(t, p.hosts[0].Remote)
	for name, content := range want {
		if got[name] != content {
			t.Errorf("the remote has %q as %s", got[name], name)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the remote has %d files instead of %d", len(got), len(want))
	}
	if _, err := os.Lstat(filepath.Join(p.hosts[0].Remote, ".bee")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the record is left: %v", err)
	}
}

// TestLocksOfCopies: a client that has lost its locks does not come back to the process of another host, and one that
// has some has them there.
func TestLocksOfCopies(t *testing.T) {
	t.Parallel()
	p := newCopied(t)
	stops := []func(){}
	for i := range p.hosts {
		p.hosts[i].away = 4 * time.Second // within which a client comes back, on a slow host
		stops = append(stops, serveShared(t, p.hosts[i]))
	}
	p.complete()
	a, _ := connect(t, p.hosts[0], calls.Hello{Client: 1, Afar: true})
	ino := a.create("f")
	a.must(lockOf(ino, calls.LockWrite, 0))
	b, _ := connect(t, p.hosts[0], calls.Hello{Client: 2, Afar: true})
	b.must(calls.Request{Op: calls.OpenOp, Ino: ino, Flags: calls.Writing})
	b.send(lockOf(ino, calls.LockWrite, calls.Wait))
	a.peer.Close()
	if got := b.reply(); got.Errno != 0 {
		t.Fatalf("the lock of a client that is away: %d", got.Errno)
	}
	stops[0]()
	await(t, "another leader", func() bool { return p.leads(t.Context(), p.hosts[1]) })
	held := []locks.Held{{Ino: ino, Lock: locks.Lock{Owner: locks.Owner{Number: 1}, End: 99, Write: true}}}
	hello := calls.Hello{Afar: true, Again: true, Locks: held, Open: []calls.OpenFile{{Ino: ino, Count: 1}}}
	for client, want := range map[uint64]bool{1: true, 2: false} {
		hello.Client = client
		if _, over := connect(t, p.hosts[1], hello); over != want {
			t.Errorf("client %d is over: %v", client, over)
		}
	}
}
