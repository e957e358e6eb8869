package local

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/testkit"
)

func acquire(t testing.TB, p driver.Provider, o core.Owner) driver.Lease {
	t.Helper()
	l, err := p.Acquire(t.Context(), driver.Request{Owner: o, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestReleaseRemovesShutTrees(t *testing.T) {
	testkit.AsRootToo(t)
	dir := scratch(t)
	p := newProvider(t, Settings{Scratch: dir})
	l := acquire(t, p, core.Owner{User: "u", Run: "r", Attempt: 1})
	d := l.Hosts()[0].Dir
	for _, err := range []error{
		os.MkdirAll(d+"/volume/a/b", 0o755), os.WriteFile(d+"/volume/a/b/f", nil, 0),
		os.Chmod(d+"/volume/a/b", 0o500), os.Chmod(d+"/volume/a", 0), os.Chmod(d, 0),
		l.Release(t.Context()),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	noTrace(t, dir)
}

// One run's directory is never taken for another attempt's.
func TestAttemptsDoNotMix(t *testing.T) {
	dir := scratch(t)
	p := newProvider(t, Settings{Scratch: dir})
	first, second := core.Owner{User: "u", Run: "r", Attempt: 1}, core.Owner{User: "u", Run: "r", Attempt: 2}
	l := acquire(t, p, first)
	if _, err := p.Acquire(t.Context(), driver.Request{Owner: second, Nodes: 1}); !core.IsKind(err, core.Busy) {
		t.Errorf("got %v, want busy", err)
	}
	if _, err := os.Stat(l.Hosts()[0].Dir); err != nil {
		t.Error(err)
	}
	// A lease killed before it claimed anything.
	half := filepath.Join(dir, "bee", leasesDir, leasedir.Name(second))
	if err := os.MkdirAll(filepath.Join(half, leasedir.MadeName), 0o700); err != nil {
		t.Fatal(err)
	}
	handles, err := p.List(t.Context(), second)
	if err != nil || len(handles) != 1 {
		t.Fatalf("%v, %v", handles, err)
	}
	h, err := p.Recover(t.Context(), handles[0])
	if err != nil {
		t.Fatal(err)
	}
	if s, err := h.Status(t.Context()); err != nil || s.Live {
		t.Errorf("%+v, %v", s, err)
	}
	for _, l := range []driver.Lease{h, h, l} {
		if err := l.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	noTrace(t, dir)
}

func TestOwnerNames(t *testing.T) {
	for _, o := range []core.Owner{{User: "u", Run: "r", Attempt: 1}, {User: "a@b/c", Run: "../x y", Attempt: 12}, {User: ".", Run: "ü", Attempt: 3}} {
		name := leasedir.Name(o)
		if got, ok := leasedir.OwnerNamed(name); !ok || got != o || filepath.Base(name) != name {
			t.Errorf("%+v became %q, then %+v", o, name, got)
		}
		if dir := leasedir.RunDir("/base", o.Run); filepath.Dir(dir) != "/base" {
			t.Errorf("run %q gets the directory %s", o.Run, dir)
		}
	}
	for _, name := range []string{"", "a@b", "a@b@x", "a@b@1@2", "%zz@b@1"} {
		if o, ok := leasedir.OwnerNamed(name); ok {
			t.Errorf("%q was taken for %+v", name, o)
		}
	}
}

func TestForeignHandles(t *testing.T) {
	p := newProvider(t, Settings{Scratch: scratch(t)})
	o := core.Owner{User: "u", Run: "r", Attempt: 1}
	good := (&provider{}).kind().Handle("/nonexistent/bee/.leases/u@r@1", o)
	if _, err := p.Recover(t.Context(), good); !core.IsKind(err, core.NotFound) {
		t.Errorf("got %v, want not found", err)
	}
	for name, change := range map[string]func(*core.Handle){
		"driver":  func(h *core.Handle) { h.Driver = "ssh" },
		"version": func(h *core.Handle) { h.Version = 99 },
		"data":    func(h *core.Handle) { h.Data = json.RawMessage("{") },
		"owner":   func(h *core.Handle) { h.Owner.Run = "x" },
		"place":   func(h *core.Handle) { h.Data = json.RawMessage(`{"dir":"/etc/u@r@1"}`) },
	} {
		h := good
		change(&h)
		if _, err := p.Recover(t.Context(), h); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: got %v, want invalid", name, err)
		}
	}
}

func TestScratchOfOthers(t *testing.T) {
	testkit.AsRootToo(t)
	open, link := scratch(t), scratch(t)
	for _, err := range []error{os.Mkdir(open+"/bee", 0o777), os.Chmod(open+"/bee", 0o777), os.Symlink("/tmp", link+"/bee")} {
		if err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(scratch(t), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"writable by all": open, "a link": link, "a file": file} {
		p := newProvider(t, Settings{Scratch: dir})
		_, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}, Nodes: 1})
		if err == nil || core.Remedy(err) == "" {
			t.Errorf("%s: %v (%s)", name, err, core.Remedy(err))
		}
	}
}

// Leases are found also after the site's scratch was changed.
func TestScratchChanges(t *testing.T) {
	state, old := t.TempDir(), scratch(t)
	o := core.Owner{User: "u", Run: "r", Attempt: 1}
	acquire(t, newProvider(t, Settings{Scratch: old, StateDir: state}), o)
	p := newProvider(t, Settings{Scratch: scratch(t), StateDir: state})
	for range 2 {
		handles, err := p.List(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range handles {
			l, err := p.Recover(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	noTrace(t, old)
}

func TestNodesOfManyHostsUseOneProcessorEach(t *testing.T) {
	for _, many := range []bool{true, false} {
		l := &lease{details: details{Emulated: true, Hosts: make([]core.Host, runtime.NumCPU())}}
		if many {
			l.details.Hosts = append(l.details.Hosts, core.Host{})
		}
		if got := slices.Contains(l.env(), "GOMAXPROCS=1"); got != many {
			t.Errorf("%d hosts on %d processors, one for each node: %v", len(l.details.Hosts), runtime.NumCPU(), got)
		}
	}
}

func nodeLog(l driver.Lease) string { return filepath.Join(l.Hosts()[0].Dir, "node.log") }

// A node that does not obey SIGTERM is killed.
func TestStubbornNode(t *testing.T) {
	dir := scratch(t)
	p, err := New(Settings{Scratch: dir, NodeArgv: []string{"/bin/sh", "-c", "trap '' TERM; sleep 1000 & while :; do sleep 1; done"}})
	if err != nil {
		t.Fatal(err)
	}
	l := acquire(t, p, core.Owner{User: "u", Run: "r", Attempt: 1})
	if err := l.Launch(t.Context(), driver.NodeCommand{Log: nodeLog(l)}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // let it set its trap
	began := time.Now()
	if err := l.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(began); d > stopGrace+30*time.Second { // it does not wait for the node to end by itself
		t.Errorf("took %v", d)
	}
	noTrace(t, dir)
}

func BenchmarkLease(b *testing.B) {
	p := newProvider(b, Settings{Scratch: scratch(b)})
	b.Run("acquire and release", func(b *testing.B) {
		for b.Loop() {
			l := acquire(b, p, core.Owner{User: "u", Run: "r", Attempt: 1})
			if err := l.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("with launch of cat", func(b *testing.B) {
		p, err := New(Settings{Scratch: scratch(b), NodeArgv: []string{"/bin/cat"}})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			l := acquire(b, p, core.Owner{User: "u", Run: "r", Attempt: 1})
			if err := l.Launch(b.Context(), driver.NodeCommand{Log: nodeLog(l)}); err != nil {
				b.Fatal(err)
			}
			if err := l.Release(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestAnotherMachinesLease: of a lease of another machine that shares the state of runs
// nothing is known here, least of all that it is gone.
func TestAnotherMachinesLease(t *testing.T) {
	dir := scratch(t)
	o := core.Owner{User: "u", Run: "r", Attempt: 1}
	there := newProvider(t, Settings{Scratch: dir, Machine: "login1"})
	l, err := there.Acquire(t.Context(), driver.Request{Owner: o, Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := l.Handle()
	for _, elsewhere := range []string{dir, scratch(t)} {
		if _, err := newProvider(t, Settings{Scratch: elsewhere, Machine: "login2"}).Recover(t.Context(), h); !core.IsKind(err, core.Transient) || !strings.Contains(err.Error(), "login1") {
			t.Errorf("on another machine: got %v", err)
		}
	}
	for _, same := range []string{"login1", ""} {
		if _, err := newProvider(t, Settings{Scratch: dir, Machine: same}).Recover(t.Context(), h); err != nil {
			t.Errorf("on %q: %v", same, err)
		}
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := there.Recover(t.Context(), h); !core.IsKind(err, core.NotFound) {
		t.Errorf("when it is gone: got %v", err)
	}
}
