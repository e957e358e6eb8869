package ssh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/provider/local"
	"github.com/bee-hpc/bee/internal/provider/ssh/agent"
	"github.com/bee-hpc/bee/internal/sshlink"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestMain lets the test binary be what the bee binary is in real use: the
// agent on a host, and there a node.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case drivertest.NodeArg:
			os.Exit(drivertest.StandInNode())
		case sshlink.RemoteArg:
			os.Exit(agent.Agent{
				Store: func(dir string) driver.Store { return dirstore.Store(dir) },
				Provider: func(raw json.RawMessage, _ environ.Lookup) (driver.Provider, error) {
					s := local.Settings{
						NodeArgv: drivertest.NodeArgv(), TryRuntime: standInRuntime,
						HasImage: func(_, id string) bool { return id == "here" },
					}
					if err := json.Unmarshal(raw, &s); err != nil {
						return nil, err
					}
					return local.New(s)
				},
			}.Main())
		}
	}
	os.Exit(m.Run())
}

// standInRuntime works once: its name is that of a directory that it makes.
func standInRuntime(_ context.Context, name string) (string, error) {
	if err := os.Mkdir(name, 0o700); err != nil {
		return "", &core.Error{Kind: core.Unsupported, Err: err}
	}
	return "stand-in", nil
}

func site(t testing.TB, f *sshfarm.Farm, hosts ...string) driver.Provider {
	t.Helper()
	return siteOn(t, f, f.Private, hosts...)
}

func siteOn(t testing.TB, f *sshfarm.Farm, scratch string, hosts ...string) driver.Provider {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Settings{
		Name: "rack", Hosts: hosts, Site: func(host string) json.RawMessage {
			return fmt.Appendf(nil, `{"Name": "rack", "Slots": 2, "Scratch": %q}`, filepath.Join(scratch, "bee-"+host))
		},
		Client: filepath.Join(f.Bin, "ssh"), BinaryFor: func(arch string) (string, error) {
			if arch == runtime.GOARCH {
				return self, nil
			}
			return "", os.ErrNotExist
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	testkit.AsRootToo(t)
	f := sshfarm.Start(t, 3, drivertest.Stray()...)
	drivertest.ProviderSuite{Nodes: 3, Agents: true, New: func(t testing.TB) driver.Provider { return site(t, f, f.Names...) }}.Run(t)
}

func TestHostsThatShareAFileSystem(t *testing.T) {
	f := sshfarm.Start(t, 2)
	drivertest.ProviderSuite{Nodes: 2, New: func(t testing.TB) driver.Provider { return siteOn(t, f, filepath.Join(f.Dir, "scratch"), f.Names...) }}.Run(t)
	for scratch, shared := range map[string]bool{filepath.Join(f.Dir, "scratch"): true, f.Private: false} {
		l, err := siteOn(t, f, scratch, f.Names...).Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "shared", Attempt: 1}, Nodes: 2})
		if err != nil {
			t.Fatal(err)
		}
		if h := l.Hosts(); (h[0].Dir == h[1].Dir) != shared {
			t.Errorf("in %s: %s and %s", scratch, h[0].Dir, h[1].Dir)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestRuntimesAreTriedOnAllHosts of a lease: it can run containers if all can.
func TestRuntimesAreTriedOnAllHosts(t *testing.T) {
	f := sshfarm.Start(t, 2)
	for n, works := range map[int]string{1: "stand-in", 2: ""} {
		l, err := site(t, f, f.Names...).Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "tried", Attempt: n}, Nodes: n})
		if err != nil {
			t.Fatal(err)
		}
		got, host, err := l.TryRuntime(t.Context(), filepath.Join(t.TempDir(), "once"))
		if got != works || host == "" || core.IsKind(err, core.Unsupported) != (works == "") {
			t.Errorf("of %d hosts one can: %q, %q, %v", n, got, host, err)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatIsAtHomeDoesNotTravelAgain(t *testing.T) {
	f := sshfarm.Start(t, 1)
	l, err := site(t, f, "h0").Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "again", Attempt: 1}, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(context.WithoutCancel(t.Context()))
	data := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{}).Read(data) //nolint:errcheck // it cannot fail
	dir := t.TempDir()
	source, first, second, remote := filepath.Join(dir, "source"), filepath.Join(dir, "first"), filepath.Join(dir, "second"), filepath.Join(l.Hosts()[0].Dir, "volume")
	travelled := map[string]int64{}
	for _, to := range []string{first, second} {
		if err := os.MkdirAll(source, 0o755); err != nil {
			t.Fatal(err)
		}
		data[1<<20]++
		if err := os.WriteFile(filepath.Join(source, "state"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		before := ""
		if to == second {
			before = first
		}
		err := errors.Join(l.Stage(t.Context(), driver.Transfer{Local: source, Remote: remote}),
			l.Fetch(t.Context(), driver.Transfer{Local: to, Remote: remote, Again: true, Before: before, Progress: func(n int64) { travelled[to] = n }}))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(to, "state")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s is not what was sent: %v", to, err)
		}
	}
	for path, want := range map[string]bool{source: false, remote: true, first: true, second: true} {
		if _, err := os.Lstat(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".bee-index")); (err == nil) != want {
			t.Errorf("an index beside %s: %v", path, err)
		}
	}
	if travelled[first] < int64(len(data)) || travelled[second] > int64(len(data))/20 {
		t.Errorf("bytes that travelled: %v", travelled)
	}
}

func TestHostThatIsDownIsPassedOver(t *testing.T) {
	f := sshfarm.Start(t, 3)
	if err := f.Kill(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	p := site(t, f, f.Names...)
	owner := core.Owner{User: "u", Run: "down", Attempt: 1}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: owner, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(context.WithoutCancel(t.Context()))
	if got := []string{l.Hosts()[0].Name, l.Hosts()[1].Name}; got[0] != "h0" || got[1] != "h2" {
		t.Errorf("got hosts %v", got)
	}
	if _, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "three", Attempt: 1}, Nodes: 3}); err == nil || !strings.Contains(err.Error(), "h1") {
		t.Errorf("three of two hosts: %v, want an error that names h1", err)
	}
}

// TestRecoverWhereAHostIsLost: what became of an attempt is on its first host;
// that another one is dead must not keep it from being read.
func TestRecoverWhereAHostIsLost(t *testing.T) {
	f := sshfarm.Start(t, 2)
	p := site(t, f, f.Names...)
	l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "lost", Attempt: 1}, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Kill(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	again, err := p.Recover(t.Context(), l.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := again.NodeAlive(t.Context(), 0); alive || err != nil {
		t.Errorf("the first host does not answer: %v, %v", alive, err)
	}
	if err := again.Release(t.Context()); err == nil || !strings.Contains(err.Error(), "h1") || strings.Contains(err.Error(), "h0") {
		t.Errorf("released as %v, want an error of h1 alone", err)
	}
	if err := f.Kill(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Recover(t.Context(), l.Handle()); !core.IsKind(err, core.Transient) {
		t.Errorf("recovered with the first host dead: %v", err)
	}
}

func TestBrokenLineIsDialledAgain(t *testing.T) {
	f := sshfarm.Start(t, 1)
	l, err := site(t, f, "h0").Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "cut", Attempt: 1}, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(context.WithoutCancel(t.Context()))
	kill(t, clients(t, "h0")...)
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err := l.Status(t.Context())
		return err
	})
}

// A host that cannot take a file, as its disk is full, says so at once: it
// does not leave its sender with the rest of it.
func TestStagingThatFailsIsNotWaitedFor(t *testing.T) {
	f := sshfarm.Start(t, 1)
	l, err := site(t, f, "h0").Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "full", Attempt: 1}, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Release(context.WithoutCancel(t.Context()))
	local := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(local, make([]byte, 64<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- l.Stage(t.Context(), driver.Transfer{Local: local, Remote: "/dev/null/input"}) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("it was sent below a file")
		}
	case <-time.After(time.Minute):
		t.Fatal("it still sends")
	}
}

// TestOneLoginServesWhatFollows: who looks whether a site can be used often uses it
// next. A connection that has died meanwhile is not taken for one.
func TestOneLoginServesWhatFollows(t *testing.T) {
	f := sshfarm.Start(t, 1)
	p := site(t, f, "h0").(*provider)
	probe := func() []int {
		t.Helper()
		if facts, err := p.Probe(t.Context()); err != nil || !facts.Usable {
			t.Fatalf("%+v, %v", facts, err)
		}
		return clients(t, "h0")
	}
	acquire := func(run string) []int {
		t.Helper()
		l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Release(context.Background()) })
		return clients(t, "h0")
	}
	first := probe()
	if len(first) != 1 {
		t.Fatalf("a look has %d logins", len(first))
	}
	if now := acquire("one"); !slices.Equal(now, first) {
		t.Errorf("another login was made: %v after %v", now, first)
	}
	second := slices.DeleteFunc(probe(), func(pid int) bool { return pid == first[0] })
	if len(second) != 1 {
		t.Fatalf("beside a connection in use, a look has %d logins", len(second))
	}
	kill(t, second...)
	testkit.Eventually(t, 20*time.Second, func() error {
		if now := clients(t, "h0"); slices.Contains(now, second[0]) {
			return errors.New("it has not ended")
		}
		return nil
	})
	if now := acquire("two"); len(now) != 2 || slices.Contains(now, second[0]) {
		t.Errorf("a dead connection was used: %v", now)
	}
}
