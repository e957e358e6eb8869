package burst

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/remote/far"
)

// TestMain makes the test binary the agent on a host, and an I/O process, as the bee binary is in real use.
func TestMain(m *testing.M) {
	if code, meant := sshfarm.Main(os.Args); meant {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == Command {
		os.Exit(Main(os.Args[2:], nil))
	}
	if len(os.Args) > 1 && os.Args[1] == sshlink.RemoteArg {
		os.Exit(sshlink.Serve(func(s *rpc.Server, _ *sshlink.RendezvousTable) { far.Register(s) }))
	}
	os.Exit(m.Run())
}

// host is one with a real sshd, whose connections can be cut.
type host struct {
	*testing.T
	farm *sshfarm.Farm
	dir  string // of the processes of ssh, and of a file away while none may begin
}

func startHost(t *testing.T) *host {
	t.Helper()
	h := &host{t, sshfarm.Start(t, 1), t.TempDir()}
	script := fmt.Sprintf("#!/bin/sh\n[ ! -e %[1]s/away ] || exit 255\necho > %[1]s/$$\nexec %[2]s/ssh \"$@\"\n", h.dir, h.farm.Bin)
	if err := core.WriteProgram(filepath.Join(h.dir, "ssh"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// cut ends all connections.
func (h *host) cut() {
	h.Helper()
	names, err := os.ReadDir(h.dir)
	if err != nil {
		h.Fatal(err)
	}
	for _, d := range names {
		if pid, err := strconv.Atoi(d.Name()); err == nil {
			if args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && strings.Contains(string(args), h.farm.Config) {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			os.Remove(filepath.Join(h.dir, d.Name()))
		}
	}
}

func (h *host) away(is bool) {
	h.Helper()
	file := filepath.Join(h.dir, "away")
	err := os.Remove(file)
	if is {
		err = os.WriteFile(file, nil, 0o600)
		h.cut()
	}
	if err != nil {
		h.Fatal(err)
	}
}

func (h *host) open(p remote.Place, o remote.Options) (remote.Remote, error) {
	client := sshlink.New(sshlink.Settings{Program: filepath.Join(h.dir, "ssh"), BinaryFor: func(arch string) (string, error) {
		if arch == runtime.GOARCH {
			return os.Executable()
		}
		return "", os.ErrNotExist
	}})
	return far.Open(client, p, o), nil
}

// start starts a volume whose remote is a directory of the host.
func (h *host) start(t *testing.T, o Options) *bench {
	t.Helper()
	dir, err := os.MkdirTemp(h.farm.Dir, "far")
	if err != nil {
		t.Fatal(err)
	}
	o.At, o.Far = remote.Place{Host: "h0", Dir: dir}, h.open
	return begin(&bench{T: t, far: dir, gate: &gate{}}, o)
}

// TestForeignBehindSSH has others change a directory of a host behind ssh.
func TestForeignBehindSSH(t *testing.T) {
	h := startHost(t)
	foreign(t, func(t *testing.T) *bench { return h.start(t, Options{}) })
}

// TestHistoriesBehindSSH plays histories with a host whose connections are cut at random.
func TestHistoriesBehindSSH(t *testing.T) {
	h := startHost(t)
	histories(t, 1, func(w *world) {
		w.far = filepath.Join(h.farm.Dir, fmt.Sprint("far", w.seed))
		w.where, w.opener, w.cut = remote.Place{Host: "h0", Dir: w.far}, h.open, h.cut
		if err := os.Mkdir(w.far, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHostAway writes while a host behind ssh is away: programs wait or work, and everything
// arrives once it is back.
func TestHostAway(t *testing.T) {
	h := startHost(t)
	b := h.start(t, Options{})
	large := strings.Repeat("0123456789abcdef", 3<<16)
	b.foreign("there", large)
	b.file("f", "first")
	b.drained()
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	h.away(true)
	b.must(b.Write(t.Context(), a.Ino, 0, []byte(large)))
	b.must(b.Flush(a.Ino))
	seen := make(chan string)
	go func() { seen <- b.sees("there") }()
	testkit.Eventually(t, 20*time.Second, func() error {
		if s := b.Status(); s.Waits == "" || s.Drained {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	select {
	case got := <-seen:
		t.Errorf("read %d bytes from a host that is away", len(got))
	default:
	}
	h.away(false)
	if got := <-seen; got != large {
		t.Errorf("read %d bytes", len(got))
	}
	b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "f"}))
	b.drained()
	if p, err := b.Read(t.Context(), a.Ino, 0, 4); err != nil || string(p) != large[:4] {
		t.Errorf("a removed file that is open: %q, %v", p, err)
	}
	b.must(b.Release(0, a.Ino, 1))
	b.has(map[string]string{"there": large})

	none, err := h.open(remote.Place{Host: "h0", Dir: b.far + "/none"}, remote.Options{Volume: "test"})
	b.must(err)
	defer none.Close()
	if err := take(none, &Config{ID: "test"}, false, false); err == nil {
		t.Error("a directory that is not there was taken")
	}
	if err := take(b.tree, &Config{ID: "test"}, false, false); err != nil {
		t.Error(err)
	}
	if err := take(b.tree, &Config{ID: "other"}, false, false); !core.IsKind(err, core.Busy) {
		t.Errorf("a second volume: %v", err)
	}
	b.must(Leave(b.tree, Config{ID: "test"}))
	b.has(map[string]string{"there": large})
	bare(b)
}

// bare takes the file system of the remote away, so that its mount point is there in its place.
// Nothing is sent to that, and nothing is taken for gone.
func bare(b *bench) {
	b.file("f", "before")
	b.drained()
	a, err := b.names.Lookup(b.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(b.Context(), who{}, a.Ino, true)
	b.must(err)
	b.must(take(b.tree, &Config{ID: "test"}, false, false))
	away := b.far + ".away"
	b.must(os.Rename(b.far, away))
	b.must(os.Mkdir(b.far, 0o755))
	b.must(b.Write(b.Context(), a.Ino, 0, []byte("after")))
	b.must(b.Flush(a.Ino))
	testkit.Eventually(b.T, 20*time.Second, func() error {
		if s := b.Status(); s.Waits == "" || s.Drained {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	b.journal.mu.Lock()
	clear(b.names.listings) // what was listed before counts for a while
	b.journal.mu.Unlock()
	ctx, cancel := context.WithTimeout(b.Context(), 100*time.Millisecond)
	defer cancel()
	if a, err := b.names.Lookup(ctx, meta.Root, "other"); !errors.Is(err, context.DeadlineExceeded) {
		b.Errorf("a mount point without its file system: %+v, %v", a, err)
	}
	b.has(map[string]string{})
	b.must(os.Remove(b.far))
	b.must(os.Rename(away, b.far))
	b.drained()
	b.must(b.Release(0, a.Ino, 1))
	b.must(Leave(b.tree, Config{ID: "test"}))
	if got := tree(b.T, b.far)["f"]; got != "after" {
		b.Errorf("the remote has %q", got)
	}
}
