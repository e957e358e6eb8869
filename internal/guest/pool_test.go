package guest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/relay"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/rdma/broker/socket"
	"github.com/bee-hpc/bee/internal/rdma/library"
	"github.com/bee-hpc/bee/internal/rdma/pool"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
)

// pooledAgents are the agents of two guests of a host, whose broker has a port for each. The guests have the pool as the
// host has it: its memory begins where the file does.
func pooledAgents(t *testing.T) (agents [2]*agent, ports [2]*server.Port) {
	t.Helper()
	verbs, err := library.Get()
	if err != nil {
		t.Fatal(err)
	}
	p, err := pool.New(256 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	dir, err := os.MkdirTemp("", "host-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	s := server.New(verbs.Build, slog.New(slog.NewTextHandler(t.Output(), nil)), p)
	for i := range agents {
		path := filepath.Join(dir, fmt.Sprint(i))
		a := broker.Address{LID: uint16(i + 1), GID: [16]byte{0: 0xfe, 1: 0x80, 15: byte(i + 1)}, IPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 77, 0, byte(i + 1)})}}
		if ports[i], err = s.Listen(path, a, server.Limits(64<<20, 64)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ports[i].Close() })
		file, size, err := relay.Pool(path, verbs.Build)
		if err != nil || size != p.Size() {
			t.Fatalf("the pool has %d bytes, %v", size, err)
		}
		t.Cleanup(func() { file.Close() })
		read, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { read.Close() })
		agents[i] = newAgent(t, nil, func(h *rpc.Server) {
			rpc.HandleStream(h, api.CallProgram, func(ctx context.Context, _ rpc.Caller, _ rpc.None, to rpc.Answer[rpc.None]) error {
				conn, err := socket.Dial(path)
				if err != nil {
					return err
				}
				if err := to.Reply(rpc.None{}); err != nil {
					return err
				}
				return relay.Host(ctx, to.Stream, conn, file)
			})
		})
		if err := agents[i].servePrograms(relay.Memory{All: file, Read: read}); err != nil {
			t.Fatal(err)
		}
	}
	return agents, ports
}

// program is one with bee_0 in the container of an agent.
func (a *agent) program(ctx context.Context, name string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	c := exec.CommandContext(ctx, name, args...)
	c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(a.home, verbsFile), "BEE_RDMA_SOCKET="+filepath.Join(a.home, verbsSocket))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	return c, &out
}

// TestGuestsShareMemory: programs in two guests of a host copy from memory to memory, by the broker of the host. They
// sleep and are woken across the guests. A program that is killed is gone for the others, and leaves nothing.
func TestGuestsShareMemory(t *testing.T) {
	agents, ports := pooledAgents(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"ib_write_bw", []string{"-F", "-n", "200", "-s", "65536"}, " 65536 "},
		{"ib_send_lat", []string{"-F", "-n", "50", "-e"}, " 2 "},
		{"ibv_ud_pingpong", []string{"-n", "100"}, "100 iters"},
	} {
		program := testkit.RequireTool(t, tc.name)
		port := testkit.FreePort(t)
		args := append([]string{"-p", fmt.Sprint(port)}, tc.args...)
		server, served := agents[0].program(ctx, program, args...)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 10*time.Second, func() error { return testkit.Listening(port) })
		client, out := agents[1].program(ctx, program, append(args, "127.0.0.1")...)
		err := client.Run()
		if err != nil {
			cancel()
		}
		if werr := server.Wait(); err != nil || werr != nil || !strings.Contains(out.String(), tc.want) {
			t.Fatalf("%s: %v, %v\n%s\n%s", tc.name, err, werr, out, served)
		}
	}
	view := func(i int) core.VerbsPort { return ports[i].Statistics().View(i) }
	if p := view(1); p.Bytes.Direct < 200*65536 || p.Bytes.Forwarded != 0 || p.Bytes.Staged != 0 || p.Operations.Writes < 200 || p.Wakes == 0 {
		t.Errorf("the client has %+v", p)
	}
	testkit.Eventually(t, 10*time.Second, func() error { // the connections of the programs have ended
		for i := range ports {
			if p := view(i); p.Processes != 0 || p.MemoryBytes != 0 || p.Objects.QueuePairs != 0 {
				return fmt.Errorf("left are %+v", p)
			}
		}
		return nil
	})

	program := testkit.RequireTool(t, "ib_write_bw")
	port := testkit.FreePort(t)
	args := []string{"-p", fmt.Sprint(port), "-F", "-D", "120"}
	server, served := agents[0].program(ctx, program, args...)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error { return testkit.Listening(port) })
	client, out := agents[1].program(ctx, program, append(args, "127.0.0.1")...)
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	before := view(1).Operations.Writes
	testkit.Eventually(t, 20*time.Second, func() error {
		if view(1).Operations.Writes == before {
			return fmt.Errorf("nothing is written: %s\n%s", out, served)
		}
		return nil
	})
	if err := server.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	if err := client.Wait(); err == nil || time.Since(killed) > 30*time.Second {
		t.Errorf("the peer of one that was killed: %v after %v\n%s", err, time.Since(killed), out)
	}
	_ = server.Wait()
}
