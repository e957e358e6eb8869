package headlink

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// fakeLease is a site with one host, on which nothing runs. Tests set what it answers.
type fakeLease struct {
	driver.Lease
	dir   string
	dial  func() (net.Conn, error)
	alive func() (bool, error)
	fetch func(ctx context.Context, t driver.Transfer) error
	hosts int
}

func (l *fakeLease) Handle() core.Handle { return core.Handle{Owner: core.Owner{Run: "r1"}} }

func (l *fakeLease) Hosts() []core.Host {
	hosts := make([]core.Host, max(l.hosts, 1))
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Name: "h", Dir: l.dir}
	}
	return hosts
}

func (l *fakeLease) Dial(context.Context, int, string) (net.Conn, error) { return l.dial() }

func (l *fakeLease) NodeAlive(context.Context, int) (bool, error) { return l.alive() }

func (l *fakeLease) Fetch(ctx context.Context, t driver.Transfer) error {
	if l.fetch != nil {
		return l.fetch(ctx, t)
	}
	raw, err := os.ReadFile(t.Remote)
	if err != nil {
		return &core.Error{Kind: core.NotFound, Err: err}
	}
	return os.WriteFile(t.Local, raw, 0o600)
}

// filesOf returns what the head of a site leaves.
func filesOf(t *testing.T, l *fakeLease, asked protocol.Asked) *Files {
	t.Helper()
	if l.dir == "" {
		l.dir = t.TempDir()
	}
	if l.alive == nil {
		l.alive = func() (bool, error) { return false, nil }
	}
	return &Files{Lease: l, Site: "a", Run: "r1", Dir: t.TempDir(), Attempt: 1, NodesPerHost: 1, Guard: func(f func()) { f() }, Asked: asked}
}

// leave writes a file of a host.
func leave(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// ended is a moment that no check takes for a lie.
func ended() time.Time { return time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC) }
