package ssh

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/wire"
)

// wideLease is on a host that counts as far away, with a volume to bring.
func wideLease(t *testing.T, idle time.Duration) (l *lease, volume, path string) {
	t.Helper()
	f := sshfarm.Start(t, 1)
	p := site(t, f, "h0")
	p.(*provider).laning = laning{window: 1 << 10, every: 10 * time.Millisecond, idle: idle}
	granted, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "wide", Attempt: 1}, Nodes: 1})
	must(t, err)
	t.Cleanup(func() { granted.Release(context.Background()) })
	volume = filepath.Join(t.TempDir(), "volume")
	must(t, os.Mkdir(volume, 0o755))
	return granted.(*lease), volume, filepath.Join(granted.Hosts()[0].Dir, "volume")
}

// bring brings a volume that is new each time.
func bring(t *testing.T, l *lease, volume, to string) error {
	t.Helper()
	data := make([]byte, 64<<20)
	rand.Read(data)
	must(t, os.WriteFile(filepath.Join(volume, "state"), data, 0o600))
	return l.Stage(t.Context(), driver.Transfer{Local: volume, Remote: to})
}

// TestATransferGetsMoreLanes while it lasts, either way, and they go afterwards.
func TestATransferGetsMoreLanes(t *testing.T) {
	l, volume, to := wideLease(t, 3*time.Second)
	testkit.Eventually(t, time.Minute, func() error {
		must(t, bring(t, l, volume, to))
		if n, _ := l.links[0].wide.Settled(); n < wire.MaxLanes {
			return fmt.Errorf("the connection has %d lanes", n)
		}
		return nil
	})
	back := filepath.Join(t.TempDir(), "back")
	must(t, l.Fetch(t.Context(), driver.Transfer{Local: back, Remote: to}))
	sent, err := os.ReadFile(filepath.Join(volume, "state"))
	must(t, err)
	got, err := os.ReadFile(filepath.Join(back, "state"))
	must(t, err)
	if string(got) != string(sent) {
		t.Error("what came back is not what was sent")
	}
	quiet(t, l)
	must(t, bring(t, l, volume, to))
	quiet(t, l)
}

// quiet waits until a host's connection is one session again: none is left in the
// midst of its login.
func quiet(t *testing.T, l *lease) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		k := l.links[0]
		if n, settled := k.wide.Settled(); n != 1 || !settled || len(lanesOf(k)) > 0 {
			return fmt.Errorf("%d lanes, and %d sessions more than one", n, len(lanesOf(k)))
		}
		return nil
	})
}

// TestALaneThatIsKilled is a passing matter, and the next connection is whole.
func TestALaneThatIsKilled(t *testing.T) {
	l, volume, to := wideLease(t, 3*time.Second)
	first := l.links[0]
	testkit.Eventually(t, time.Minute, func() error {
		if lanes := lanesOf(first); len(lanes) > 0 {
			lanes[0].cmd.Process.Kill()
		}
		// It is noticed when it is the lane's turn.
		if err := bring(t, l, volume, to); err != nil && !core.IsKind(err, core.Transient) {
			t.Fatal(err)
		}
		if l.links[0].usable() && l.links[0] == first {
			return errors.New("the connection is still there")
		}
		return nil
	})
	must(t, bring(t, l, volume, to))
	if l.links[0] == first {
		t.Error("the broken connection is used again")
	}
	<-first.Done()
	testkit.Eventually(t, 20*time.Second, func() error {
		if n := len(lanesOf(first)); n > 0 {
			return fmt.Errorf("%d sessions of the broken connection are left", n)
		}
		return nil
	})
	quiet(t, l)
}

func lanesOf(l *link) []*link {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes
}
