package verbs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/testkit"
)

// host is a broker with two ports, and the library for programs.
type host struct {
	library string
	sockets [2]string
	ports   [2]*server.Port
}

func newHost(t *testing.T) host {
	l := built(t)
	h := host{library: filepath.Join(shortDir(t), "verbs.so")}
	if err := core.WriteProgram(h.library, l.File, 0o755); err != nil {
		t.Fatal(err)
	}
	s := server.New(l.Build, slog.New(slog.DiscardHandler), nil)
	for i := range h.ports {
		h.listen(t, s, i)
	}
	return h
}

// shortDir makes a directory for sockets: that of t.TempDir has the test's name.
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "verbs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// listen makes one of the ports.
func (h *host) listen(t *testing.T, s *server.Server, i int) {
	h.sockets[i] = filepath.Join(filepath.Dir(h.library), fmt.Sprintf("%d.sock", i))
	port, err := s.Listen(h.sockets[i], portAddress(i), broker.Limits{
		Memory: 1 << 30, QPs: 4096, PDs: 64, CQs: 4096, SRQs: 64, AHs: 4096, MRs: 4096, IDs: 256, WR: 16384, Processes: 64,
	})
	if err != nil {
		t.Fatal(err)
	}
	h.ports[i] = port
	t.Cleanup(func() { port.Close() })
}

// command runs a program on one of the ports.
func (h host) command(ctx context.Context, port int, args ...string) (*exec.Cmd, *bytes.Buffer) {
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+h.library, "BEE_RDMA_SOCKET="+h.sockets[port])
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

func TestDeviceIsListed(t *testing.T) {
	testkit.RequireTool(t, "ibv_devinfo")
	c, out := newHost(t).command(t.Context(), 1, "ibv_devinfo", "-v")
	if err := c.Run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"bee_0", "PORT_ACTIVE", "link_layer:\t\tInfiniBand", "port_lid:\t\t2", "fe80:0000:0000:0000:0000:0000:0000:0002"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

// stock are programs of Debian that come in pairs, with options.
var stock = []string{
	"ibv_rc_pingpong -c", "ibv_rc_pingpong -e -s 100000 -n 300", "ibv_uc_pingpong -n 300", "ibv_ud_pingpong -e -n 300", "ibv_srq_pingpong -e -n 300",
	"ib_write_bw -n 500", "ib_read_bw -n 500", "ib_send_bw -n 500", "ib_atomic_bw -n 500",
	"ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat",
	"ib_write_bw -c UC -n 500", "ib_send_bw -c UD -n 500", "ib_write_bw -q 8 -n 500", "ib_send_bw -e -n 500", "ib_send_bw -I 64 -s 64", "ib_write_lat -I 32",
	"ib_send_bw -r 100 -q 4 --use-srq -n 300", "ib_write_bw -b -n 300", "ib_write_bw -s 8388608 -n 20", "ib_send_bw -s 4194304 -n 20", "ib_read_bw -o 1 -n 300",
}

func TestStockPrograms(t *testing.T) { newHost(t).all(t, stock) }

// all runs programs that come in pairs, each with further options.
func (h host) all(t *testing.T, lines []string, options ...string) {
	for _, line := range lines {
		t.Run(strings.ReplaceAll(line, " ", "_"), func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(line)
			testkit.RequireTool(t, args[0])
			if strings.HasPrefix(line, "ib_") {
				args = append(args, "-F") // whatever the processor's frequency
			}
			h.pair(t, append(args, options...))
		})
	}
}

// staged are programs with memory of a file, which its owner copies.
var staged = []string{
	"ib_write_bw -n 300", "ib_read_bw -n 300", "ib_read_bw -b -n 300", "ib_write_bw -c UC -n 300", "ib_write_bw -s 4194304 -n 10", "ib_atomic_bw -n 200", "ib_write_lat -n 50", "ib_read_lat -n 50",
}

func TestStockProgramsOnMemoryOfFiles(t *testing.T) { newHost(t).all(t, staged, "--mmap=buffer") }

// buffer returns a directory with a file for memory.
func buffer(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "buffer"), make([]byte, 32<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// lost are programs, one of which is killed, or loses its link.
var lost = []string{"ib_send_bw -F -D 120", "ib_write_bw -F -D 120", "ib_read_bw -F -D 120", "ibv_rc_pingpong -e -n 1000000000"}

// A client, the server of which is killed amid its work, ends with an error at once.
func TestPeerOfAKilledProcessFails(t *testing.T) {
	for _, line := range lost {
		t.Run(strings.ReplaceAll(line, " ", "_"), func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			begun := func() bool {
				c := h.ports[1].Statistics().Counters
				return c[message.CountSends]+c[message.CountWrites]+c[message.CountReads] >= 1000
			}
			h.loses(t, line, 20*time.Second, begun, func(victim *service) {
				victim.Process.Kill()
				<-victim.ended
			})
		})
	}
}

// loses runs a program and its client until they have begun, has them lose each other, and checks that
// the client ends with an error. It returns what the client has printed.
func (h host) loses(t *testing.T, line string, within time.Duration, begun func() bool, lose func(victim *service)) string {
	t.Helper()
	args := strings.Fields(line)
	testkit.RequireTool(t, args[0])
	ctx, cancel := context.WithCancel(t.Context())
	victim := h.serve(t, ctx, args)
	client, out := h.command(ctx, 1, append(victim.args, "127.0.0.1")...)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- client.Wait() }()
	t.Cleanup(cancel)
	testkit.Eventually(t, 60*time.Second, func() error {
		if !begun() {
			return errors.New("the client has not begun")
		}
		return nil
	})
	lose(victim)
	since := time.Now()
	select {
	case err := <-ended:
		if err == nil {
			t.Errorf("the client ended well:\n%s", out)
		}
		t.Logf("the client ended after %s", time.Since(since))
	case <-time.After(within):
		client.Process.Kill()
		t.Fatalf("the client works on without its server:\n%s", out)
	}
	return out.String()
}

// service is a program that listens.
type service struct {
	*exec.Cmd
	args  []string // with its port, also of its client
	out   *bytes.Buffer
	ended chan struct{} // err is set then
	err   error
}

// serve starts a server, and waits until it listens. Where another process has got its port
// first, it gets the next.
func (h host) serve(t *testing.T, ctx context.Context, args []string) *service {
	t.Helper()
	for range 5 {
		port := testkit.FreePort(t)
		s := &service{args: append(slices.Clone(args), "-p", fmt.Sprint(port)), ended: make(chan struct{})}
		s.Cmd, s.out = h.command(ctx, 0, s.args...)
		s.Dir = buffer(t)
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			s.err = s.Wait()
			close(s.ended)
		}()
		t.Cleanup(func() { <-s.ended }) // its context has ended
		listens := false
		testkit.Eventually(t, 30*time.Second, func() error {
			select {
			case <-s.ended:
				return nil
			default:
			}
			err := testkit.Listening(port)
			listens = err == nil
			return err
		})
		if listens {
			return s
		}
		t.Logf("%v\n%s", s.err, s.out)
	}
	t.Fatal("no server listens")
	return nil
}

// pair runs a server and its client.
func (h host) pair(t *testing.T, args []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	s := h.serve(t, ctx, args)
	client, out := h.command(ctx, 1, append(s.args, "127.0.0.1")...)
	client.Dir = buffer(t)
	err := client.Run()
	if err != nil {
		cancel()
	}
	if <-s.ended; err != nil || s.err != nil {
		t.Fatalf("client: %v\n%s\nserver: %v\n%s", err, out, s.err, s.out)
	}
}
