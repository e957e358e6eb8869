package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/sshlink"
	sshstore "github.com/bee-hpc/bee/internal/store/ssh"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/wire"
)

// openRendezvous connects a listener and a caller.
func openRendezvous(t testing.TB, listener, caller driver.Connector) (name string, cut func()) {
	t.Helper()
	ca, err := wire.NewAuthority()
	must(t, err)
	name = rand.Text()
	join := func(m driver.Connector, as string, addrs []string) driver.End {
		cert, key, err := ca.Issue(as)
		must(t, err)
		e, err := m.Rendezvous(t.Context(), driver.RendezvousSpec{Name: name, Addrs: addrs, CA: ca.Certificate(), Cert: cert, Key: key, Limit: 20 * time.Second})
		must(t, err)
		return e
	}
	listenEnd := join(listener, wire.ListenerName, nil)
	call := join(caller, "caller", listenEnd.Addrs())
	for _, e := range []driver.End{call, listenEnd} {
		_, err := e.Met()
		must(t, err)
	}
	return name, func() { must(t, errors.Join(listenEnd.Close(), call.Close())) }
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// farTree is a directory on the host of a lease.
type farTree struct {
	driver.DirectTransfer
	path  string
	route *driver.Connection
}

var errFar = errors.New("it is not on this machine")

func (f farTree) Direct() *driver.Connection                  { return f.route }
func (f farTree) Fetch(context.Context, string, string) error { return errFar }
func (f farTree) Stage(context.Context, string) error         { return errFar }
func (f farTree) transfer() driver.Transfer {
	if f.route == nil {
		return driver.Transfer{Remote: f.path}
	}
	return driver.Transfer{Remote: f.path, Via: f.route.Name}
}

func (f farTree) Send(ctx context.Context) (io.ReadWriteCloser, error) {
	return f.Outgoing(ctx, f.transfer())
}

func (f farTree) Receive(ctx context.Context) (driver.Receiver, error) {
	return f.Incoming(ctx, f.transfer())
}

// far is a rack's host with a volume, and the store that is to have it.
type far struct {
	*sshfarm.Farm
	lease *lease
	place driver.Store
	store driver.Checkpoints
	tree  farTree
	data  []byte
}

func newFar(t testing.TB, f *sshfarm.Farm, size int) *far {
	t.Helper()
	l, err := site(t, f, "h0").Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "far", Attempt: 1}, Nodes: 1})
	must(t, err)
	t.Cleanup(func() { l.Release(context.Background()) })
	p := sshstore.New(sshlink.New(site(t, f, "h1").(*provider).s.link()), "h1", filepath.Join(f.Private, "bee-h1"))
	t.Cleanup(func() { p.Close() })
	s := &far{Farm: f, lease: l.(*lease), place: p, store: p.Run("u@far"), data: make([]byte, size)}
	s.tree = farTree{DirectTransfer: s.lease.DirectTransfer(), path: filepath.Join(l.Hosts()[0].Dir, "volume")}
	rand.Read(s.data)
	must(t, s.store.Note(t.Context(), []byte("{}")))
	must(t, os.Mkdir(s.tree.path, 0o755))
	must(t, os.WriteFile(filepath.Join(s.tree.path, "state"), s.data, 0o600))
	return s
}

// same looks at what is in a directory.
func (s *far) same(t *testing.T, dir string) {
	t.Helper()
	if got, err := os.ReadFile(filepath.Join(dir, "state")); err != nil || !bytes.Equal(got, s.data) {
		t.Errorf("%s is not what was sent: %d bytes, %v", dir, len(got), err)
	}
}

func (s *far) kept() string {
	return filepath.Join(s.Private, "bee-h1", "u@far", "1", "volume")
}

func TestATreeGoesStraightToAStoreAndBack(t *testing.T) {
	s := newFar(t, sshfarm.Start(t, 2), 32<<20)
	for name, ends := range map[string][2]driver.Connector{"the receiver listens": {s.place.Connector(), s.lease.DirectTransfer()}, "the sender listens": {s.lease.DirectTransfer(), s.place.Connector()}} {
		t.Run(name, func(t *testing.T) {
			begun, reported := s.Carried(t), int64(0)
			via, end := openRendezvous(t, ends[0], ends[1])
			from := s.tree
			from.route = &driver.Connection{Name: via, Progress: func(n int64) { reported = n }, Close: func() {}}
			m, made, err := s.store.Keep(t.Context(), driver.Generation{Attempt: 1}, "rack", from)
			if err != nil || !made || m.Bytes != int64(len(s.data)) || reported == 0 {
				t.Fatalf("kept %v, %d bytes, %v; told of %d", made, m.Bytes, err, reported)
			}
			end()
			s.same(t, s.kept())
			list, err := s.store.List(t.Context())
			if err != nil || len(list) != 1 {
				t.Fatalf("kept %v, %v", list, err)
			}
			via, end = openRendezvous(t, ends[0], ends[1])
			to := farTree{DirectTransfer: s.lease.DirectTransfer(), path: s.tree.path + "-back", route: &driver.Connection{Name: via, Progress: func(int64) {}, Close: func() {}}}
			must(t, s.store.Restore(t.Context(), list[0], to))
			end()
			s.same(t, to.path)
			if n := s.Carried(t) - begun; n > 1<<20 {
				t.Errorf("%d bytes went through here", n)
			}
			must(t, os.RemoveAll(to.path))
			must(t, os.RemoveAll(filepath.Dir(s.kept())))
		})
	}
}

// TestATreeGoesStraightFromSiteToSite, and what has arrived is compared there.
func TestATreeGoesStraightFromSiteToSite(t *testing.T) {
	s := newFar(t, sshfarm.Start(t, 2), 32<<20)
	next, err := site(t, s.Farm, "h1").Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "far", Attempt: 2}, Nodes: 1})
	must(t, err)
	t.Cleanup(func() { next.Release(context.Background()) })
	must(t, s.lease.VolumeReuse().LendVolume(t.Context()))
	begun, reported := s.Carried(t), int64(0)
	via, end := openRendezvous(t, next.DirectTransfer(), s.lease.DirectTransfer())
	to := driver.Transfer{Remote: filepath.Join(next.Hosts()[0].Dir, "volume"), Via: via}
	in, err := next.DirectTransfer().Incoming(t.Context(), to)
	must(t, err)
	from := driver.Transfer{Remote: filepath.Join(s.lease.Hosts()[0].Dir, "volume"), Via: via, Progress: func(n int64) { reported = n }}
	must(t, s.lease.DirectTransfer().Pass(t.Context(), from, in, func() {}))
	in.Close()
	end()
	s.same(t, to.Remote)
	if n := s.Carried(t) - begun; n > 1<<20 || reported == 0 {
		t.Errorf("%d bytes went through here, and it was told of %d", n, reported)
	}
	same := func(m driver.Manifest) bool {
		is, err := next.Matches(t.Context(), to.Remote, m)
		must(t, err)
		return is
	}
	sum := sha256.Sum256(s.data)
	m := driver.Manifest{Files: map[string]string{"state": hex.EncodeToString(sum[:])}, Bytes: int64(len(s.data))}
	if !same(m) {
		t.Error("what has arrived differs")
	}
	if m.Files["more"] = ""; same(m) {
		t.Error("a file that is missing is not noticed")
	}
}

// TestAStraightWayBreaks: whichever process dies in the middle of it, nothing is lost, and what
// has arrived need not travel again.
func TestAStraightWayBreaks(t *testing.T) {
	s := newFar(t, sshfarm.StartSlow(t, 2, 120_000_000), 64<<20)
	for name, kill := range map[string]func(cut func()){
		"the connection": func(cut func()) { cut() },
		"the sender":     func(func()) { kill(t, clients(t, "h0")...) },
		"the receiver":   func(func()) { kill(t, clients(t, "h1")...) },
	} {
		t.Run(name, func(t *testing.T) {
			via, cut := openRendezvous(t, s.place.Connector(), s.lease.DirectTransfer())
			var once sync.Once
			from := s.tree
			from.route = &driver.Connection{Name: via, Close: cut, Progress: func(n int64) {
				if n > 32<<20 {
					once.Do(func() { kill(cut) })
				}
			}}
			_, made, err := s.store.Keep(t.Context(), driver.Generation{Attempt: 1}, "rack", from)
			if made || !core.IsKind(err, core.Lost) && !core.IsKind(err, core.Transient) {
				t.Fatalf("kept %v, %v", made, err)
			}
			cut()
			s.same(t, s.tree.path)
			if list, err := s.store.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("half a tree counts: %v, %v", list, err)
			}
			testkit.Eventually(t, 20*time.Second, func() error { // once the agent has put away what it had
				if found, _ := filepath.Glob(filepath.Join(filepath.Dir(s.kept()), ".*")); len(found) == 0 {
					return errors.New("nothing has arrived")
				}
				return nil
			})
			begun := s.Carried(t)
			if _, made, err := s.store.Keep(t.Context(), driver.Generation{Attempt: 1}, "rack", s.tree); err != nil || !made {
				t.Fatalf("kept %v, %v", made, err)
			}
			s.same(t, s.kept())
			if n := s.Carried(t) - begun; n > 2*56<<20 { // to this machine, and on
				t.Errorf("%d bytes came anew", n)
			}
			must(t, os.RemoveAll(filepath.Dir(s.kept())))
		})
	}
}

// TestAHostListensForOneRendezvousOnly: not beyond its time, its call, or the connection
// to its agent.
func TestAHostListensForOneRendezvousOnly(t *testing.T) {
	s := newFar(t, sshfarm.Start(t, 2), 1)
	ca, err := wire.NewAuthority()
	must(t, err)
	cert, key, err := ca.Issue(wire.ListenerName)
	must(t, err)
	for name, end := range map[string]func(driver.End){
		"its time":       func(driver.End) {},
		"its call":       func(e driver.End) { must(t, e.Close()) },
		"its connection": func(driver.End) { kill(t, clients(t, "h1")...) },
	} {
		t.Run(name, func(t *testing.T) {
			m := driver.RendezvousSpec{Name: "m", CA: ca.Certificate(), Cert: cert, Key: key, Limit: time.Hour}
			if name == "its time" {
				m.Limit = 2 * time.Second
			}
			e, err := s.place.Connector().Rendezvous(t.Context(), m)
			must(t, err)
			defer e.Close()
			open := func() error {
				c, err := s.Dial(t.Context(), e.Addrs()[0])
				if err == nil {
					c.Close()
				}
				return err
			}
			must(t, open())
			end(e)
			testkit.Eventually(t, 20*time.Second, func() error {
				if open() == nil {
					return errors.New("it still listens")
				}
				return nil
			})
		})
	}
	// Without a certificate nobody is met.
	e, err := s.place.Connector().Rendezvous(t.Context(), driver.RendezvousSpec{Name: "m", CA: ca.Certificate(), Cert: cert, Key: key, Limit: 2 * time.Second})
	must(t, err)
	defer e.Close()
	c, err := s.Dial(t.Context(), e.Addrs()[0])
	must(t, err)
	defer c.Close()
	c.Write([]byte("let me in"))
	if addr, err := e.Met(); !core.IsKind(err, core.Unsupported) {
		t.Errorf("met %q, %v", addr, err)
	}
}

// BenchmarkATreeToAStore, straight and through a home with a line of 100 Mbit/s.
func BenchmarkATreeToAStore(b *testing.B) {
	f := sshfarm.Start(b, 2)
	f.Home(b, 100_000_000/8)
	s := newFar(b, f, 64<<20)
	for _, how := range []string{"straight", "through a home"} {
		b.Run(how, func(b *testing.B) {
			b.SetBytes(int64(len(s.data)))
			for b.Loop() {
				from, end := s.tree, func() {}
				if how == "straight" {
					var via string
					via, end = openRendezvous(b, s.place.Connector(), s.lease.DirectTransfer())
					from.route = &driver.Connection{Name: via, Progress: func(int64) {}, Close: func() {}}
				}
				_, _, err := s.store.Keep(b.Context(), driver.Generation{Attempt: 1}, "rack", from)
				must(b, err)
				end()
				must(b, os.RemoveAll(filepath.Dir(s.kept())))
			}
		})
	}
}
