package domain

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

var testBuild = strings.Repeat("b", message.Build)

// claimed claims a place, and opens it for later ones.
func claimed(t *testing.T, own, domain string, ports int) *Place {
	t.Helper()
	p, err := Claim(t.Context(), own, domain, testBuild, ports)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range p.others { // nobody greets
		o.conn.Close()
	}
	p.others = nil
	if err := p.Open(nil); err != nil {
		t.Fatal(err)
	}
	return p
}

func closed(t *testing.T, p *Place) {
	t.Helper()
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// TestPlaces: brokers of a domain have LIDs of their own, those of another domain begin at 1, and nothing is left of
// either.
func TestPlaces(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	a, b, c := claimed(t, own, "lab", 3), claimed(t, own, "lab", 2), claimed(t, own, "other", 1)
	if a.First != 1 || b.First != 4 || c.First != 1 {
		t.Errorf("the first LIDs are %d, %d and %d", a.First, b.First, c.First)
	}
	closed(t, a)
	d := claimed(t, own, "lab", 1)
	if d.First != 6 {
		t.Errorf("a LID that programs may still have is used again: %d", d.First)
	}
	for _, p := range []*Place{b, c, d} {
		closed(t, p)
	}
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestPlacesAtOnce: brokers that come and go at the same moment have LIDs of their own.
func TestPlacesAtOnce(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	var mu sync.Mutex
	taken := map[uint16]bool{}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				p, err := Claim(t.Context(), own, "lab", testBuild, 1)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if taken[p.First] {
					t.Errorf("two have the LID %d", p.First)
				}
				taken[p.First] = true
				mu.Unlock()
				for _, o := range p.others {
					o.conn.Close()
				}
				p.others = nil
				if err := p.Open(nil); err != nil {
					t.Error(err)
				}
				mu.Lock()
				delete(taken, p.First)
				mu.Unlock()
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestDeadBroker: what a broker leaves that is killed does not hold others up, and is removed.
func TestDeadBroker(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	dead, live := claimed(t, own, "lab", 1), claimed(t, own, "lab", 1)
	if err := dead.listener.Close(); err != nil {
		t.Fatal(err)
	}
	if err := live.Tidy(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(own, "lab", dead.name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its socket is left: %v", err)
	}
	if err := live.listener.Close(); err != nil {
		t.Fatal(err)
	}
	next := claimed(t, own, "lab", 1)
	if next.First != 1 {
		t.Errorf("the next one has the LID %d", next.First)
	}
	closed(t, next)
	if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestAnotherBuild: runs of two builds do not meet, also not by the directory.
func TestAnotherBuild(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	first := claimed(t, own, "lab", 1)
	defer closed(t, first)
	_, err := Claim(t.Context(), own, "lab", strings.Repeat("c", message.Build), 1)
	if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
		t.Errorf("got %v", err)
	}
	second := claimed(t, own, "lab", 1) // what was refused has left nothing
	if second.First != 2 {
		t.Errorf("the next one has the LID %d", second.First)
	}
	closed(t, second)
}

// greeter returns a broker of a place.
func greeter(t *testing.T, lid uint16) *Far {
	h := &testHost{t: t}
	h.b = broker.New(h, rand.Uint32)
	return New(Options{Host: h, Build: testBuild, Own: []broker.Address{address(lid)}, Warn: func(text string, err error) { t.Logf("%s: %v", text, err) }, Lost: func() {}})
}

// TestGreetingThatEnds: a run that lives is linked with, also if a greeting ends. One that leaves is not waited for.
func TestGreetingThatEnds(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	first := claimed(t, own, "lab", 1)
	defer closed(t, first)
	a := greeter(t, 1)
	links := func(ends int, lid uint16) int {
		p, err := Claim(t.Context(), own, "lab", testBuild, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer closed(t, p)
		accepted := make(chan error, 1)
		go func() {
			for ; ; ends-- {
				c, err := first.listener.AcceptUnix()
				if err != nil {
					accepted <- err
					return
				}
				if ends == 0 {
					defer c.Close()
					accepted <- a.Accept(c, func() bool { return true })
					return
				}
				c.Close()
			}
		}()
		b := greeter(t, lid)
		if err := p.Open(b); err != nil {
			t.Fatal(err)
		}
		b.o.Host.Lock()
		n := b.Links()
		b.o.Host.Unlock()
		b.End()
		if err := <-accepted; err != nil {
			t.Error(err)
		}
		return n
	}
	if n := links(2, 2); n != 1 {
		t.Errorf("it is linked with %d others", n)
	}
	a.End()
	begun := time.Now()
	if n := links(0, 3); n != 0 {
		t.Errorf("it is linked with %d others, of one that leaves", n)
	}
	if d := time.Since(begun); d > claimTime/2 {
		t.Errorf("one that leaves is waited for for %s", d)
	}
}

// TestPlantedDirectory: what others may enter, or have put there, is no domain.
func TestPlantedDirectory(t *testing.T) {
	for what, plant := range map[string]func(dir string) error{
		"for all":  func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o777)) },
		"readable": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)) },
		"link":     func(dir string) error { return os.Symlink(t.TempDir(), dir) },
		"file":     func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"theirs": func(dir string) error {
			if os.Geteuid() != 0 { // who cannot give directories away has none of others
				return os.WriteFile(dir, nil, 0o600)
			}
			return errors.Join(os.Mkdir(dir, 0o700), unix.Chown(dir, 54321, 54321))
		},
	} {
		for _, below := range []string{".", "lab"} {
			own := filepath.Join(t.TempDir(), "own")
			dir := own
			if below != "." {
				dir = filepath.Join(own, below)
				if err := os.Mkdir(own, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := plant(dir); err != nil {
				t.Fatal(err)
			}
			if p, err := Claim(t.Context(), own, "lab", testBuild, 1); err == nil {
				t.Errorf("%s at %s: it is used", what, below)
				closed(t, p)
			}
		}
	}
	for _, name := range []string{"", ".", "..", "../lab", "a/b", "/lab"} {
		if p, err := Claim(t.Context(), filepath.Join(t.TempDir(), "own"), name, testBuild, 1); err == nil {
			t.Errorf("%q is a domain", name)
			closed(t, p)
		}
	}
}

// TestFree: LIDs come after the highest one, and else from a gap.
func TestFree(t *testing.T) {
	for _, tc := range []struct {
		live  []socket
		ports int
		want  int // 0: there are none
	}{
		{nil, 1, 1},
		{[]socket{{first: 4, ports: 2}}, 3, 6},
		{[]socket{{first: 4, ports: mostPorts - 4}}, 3, 1},
		{[]socket{{first: 4, ports: mostPorts - 4}}, 4, 0},
		{[]socket{{first: 1, ports: 2}, {first: 4, ports: 2}, {first: 9, ports: mostPorts - 8}}, 2, 6},
		{nil, mostPorts, 1},
		{nil, mostPorts + 1, 0},
	} {
		if got, is := free(tc.live, tc.ports); got != tc.want || is != (tc.want > 0) {
			t.Errorf("%+v, %d ports: %d, %v", tc.live, tc.ports, got, is)
		}
	}
}
