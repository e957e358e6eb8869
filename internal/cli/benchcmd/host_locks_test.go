package benchcmd

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/reservation"
	"github.com/bee-hpc/bee/internal/spec"
)

// machine is a site's provider, of which the ledger of its host is asked alone.
type machine struct {
	driver.Provider
	ledger reservation.Ledger
	broken bool
	locks  int
}

func (m *machine) HostLocks() driver.HostLocks { return m }

func (m *machine) LockHosts(ctx context.Context, s driver.Study) (driver.HostLock, error) {
	m.locks++
	held, err := leasedir.HostLocks{Ledger: m.ledger}.LockHosts(ctx, s)
	held.Lost = func() bool { return m.broken }
	return held, err
}

// TestTwoStudiesExcludeEachOther: on one host the second names the first, whatever the sites are
// called; on different hosts both are measured.
func TestTwoStudiesExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	here, there := &machine{ledger: reservation.Ledger(filepath.Join(dir, "here"))}, &machine{ledger: reservation.Ledger(filepath.Join(dir, "there"))}
	provider := func(s spec.Site) (driver.Provider, error) {
		if s.Name == "there" {
			return there, nil
		}
		return here, nil
	}
	first, second := newHostLocks("layers", provider), newHostLocks("apps", provider)
	for _, site := range []spec.Site{{Name: "local", Provider: "local"}, {Name: "rack", Provider: "ssh"}, {Name: "cluster", Provider: "slurm"}} {
		if err := first.lock(t.Context(), site); err != nil {
			t.Fatalf("%s: %v", site.Name, err)
		}
	}
	if here.locks != 2 {
		t.Errorf("hosts were locked %d times, expected local and rack", here.locks)
	}
	if err := second.lock(t.Context(), spec.Site{Name: "mine", Provider: "local"}); !isHeld(err) || !strings.Contains(err.Error(), "layers") || core.Remedy(err) == "" {
		t.Errorf("a second study on the host: %v", err)
	}
	if err := second.lock(t.Context(), spec.Site{Name: "there", Provider: "ssh"}); err != nil {
		t.Errorf("a second study on another host: %v", err)
	}
	first.unlock()
	if err := second.lock(t.Context(), spec.Site{Name: "mine", Provider: "local"}); err != nil {
		t.Errorf("after the first study: %v", err)
	}
	second.unlock()
}

// TestBrokenLocksAreMadeAgain: a host whose connection has broken is locked again before the next
// measurement.
func TestBrokenLocksAreMadeAgain(t *testing.T) {
	m := &machine{ledger: reservation.Ledger(filepath.Join(t.TempDir(), "ledger"))}
	provider := func(spec.Site) (driver.Provider, error) { return m, nil }
	l, site := newHostLocks("layers", provider), spec.Site{Name: "rack", Provider: "ssh"}
	for _, broken := range []bool{false, false, true} {
		m.broken = broken
		if err := l.lock(t.Context(), site); err != nil {
			t.Fatal(err)
		}
	}
	if m.locks != 2 {
		t.Errorf("the host was locked %d times, expected 2", m.locks)
	}
	l.unlock()
}

// TestLeftNotes: the note of a process that measures is its own; one that a process has left is
// found once.
func TestLeftNotes(t *testing.T) {
	dir := t.TempDir()
	n, err := newRunNote(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"0123456789abcdef0123456789", "", "k7"} {
		if err := n.write(id); err != nil {
			t.Fatal(err)
		}
		if got, err := n.run(); err != nil || got != id {
			t.Errorf("noted %q, %v; expected %q", got, err, id)
		}
	}
	if left, err := leftNotes(dir); err != nil || len(left) > 0 {
		t.Errorf("the note in use is %v, %v", left, err)
	}
	n.lock.Unlock() // as the end of the process does
	left, err := leftNotes(dir)
	if err != nil || len(left) != 1 {
		t.Fatalf("left are %v, %v", left, err)
	}
	left[0].remove()
	if left, err := leftNotes(dir); err != nil || len(left) > 0 {
		t.Errorf("after its removal: %v, %v", left, err)
	}
}
