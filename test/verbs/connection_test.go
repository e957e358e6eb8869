package verbs

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/testkit"
)

// connecting are stock programs that connect by librdmacm, as server and client. One has a
// port of its own.
var connecting = [][2]string{
	{"rping -s -p PORT -C 30 -S 2000", "rping -c -p PORT -V -C 30 -S 2000 -a 127.0.0.1"},
	{"rping -s -p PORT -q -C 30", "rping -c -p PORT -q -V -C 30 -a 127.0.0.1"},
	{"rdma_server -p PORT", "rdma_client -p PORT -s 127.0.0.1"},
	{"ucmatose -p PORT -c 5", "ucmatose -p PORT -c 5 -s 127.0.0.1"},
	{"ucmatose -p PORT -m", "ucmatose -p PORT -m -s 127.0.0.1"},
	{"udaddy -c 3", "udaddy -c 3 -s 127.0.0.1"},
	{"ib_write_bw -p PORT -F -R -n 300", "ib_write_bw -p PORT -F -R -n 300 127.0.0.1"},
	{"ib_read_lat -p PORT -F -R -n 300", "ib_read_lat -p PORT -F -R -n 300 127.0.0.1"},
	{"ib_send_bw -p PORT -F -R -q 4 -n 300", "ib_send_bw -p PORT -F -R -q 4 -n 300 127.0.0.1"},
	{"ib_send_lat -p PORT -F -R -c UD -n 300", "ib_send_lat -p PORT -F -R -c UD -n 300 127.0.0.1"},
}

// started is a program that runs.
type started struct {
	*exec.Cmd
	out   fmt.Stringer
	ended chan struct{} // err is set then
	err   error
}

// start starts a program on a port of the host.
func (h host) start(t *testing.T, ctx context.Context, port int, args ...string) *started {
	t.Helper()
	s := &started{ended: make(chan struct{})}
	s.Cmd, s.out = h.command(ctx, port, args...)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.err = s.Wait()
		close(s.ended)
	}()
	return s
}

// rpingsEnd is what rping's client prints, and fails by, where its thread of events comes back from the last one only
// after its main thread has closed their channel. All rounds are over and checked then.
const rpingsEnd = "rdma_get_cm_event: Bad file descriptor"

// connect runs a client until its server listens, and reports both ends.
func (h host) connect(t *testing.T, server, client []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	s := h.start(t, ctx, 0, server...)
	defer func() { cancel(); <-s.ended }()
	testkit.Eventually(t, 100*time.Second, func() error {
		c, out := h.command(ctx, 1, client...)
		err := c.Run()
		if err == nil || strings.TrimSpace(out.String()) == rpingsEnd {
			return nil
		}
		select {
		case <-s.ended:
			t.Fatalf("client: %v\n%s\nserver: %v\n%s", err, out, s.err, s.out)
		default:
		}
		return fmt.Errorf("client: %w\n%s", err, out)
	})
	if <-s.ended; s.err != nil {
		t.Errorf("server: %v\n%s", s.err, s.out)
	}
}

// empty fails where processes that have ended have left anything at the broker.
func (h host) empty(t *testing.T) {
	t.Helper()
	for _, p := range h.ports {
		testkit.Eventually(t, 10*time.Second, func() error {
			if u := p.Statistics(); u.Processes != 0 || u.Objects != [message.Kinds]int{} {
				return fmt.Errorf("left are %+v", u.Usage)
			}
			return nil
		})
	}
}

func TestStockProgramsConnectByAddress(t *testing.T) {
	h := newHost(t)
	t.Run("programs", func(t *testing.T) { h.connects(t) })
	for i, p := range h.ports {
		if c := p.Statistics().Counters; c[message.CountSends]+c[message.CountWrites] == 0 {
			t.Errorf("the device of container %d has sent nothing", i)
		}
	}
	h.empty(t)
}

// connects runs all of them.
func (h host) connects(t *testing.T) {
	for _, pair := range connecting {
		t.Run(strings.ReplaceAll(pair[0], " ", "_"), func(t *testing.T) {
			t.Parallel()
			port := strings.NewReplacer("PORT", fmt.Sprint(testkit.FreePort(t)))
			server, client := strings.Fields(port.Replace(pair[0])), strings.Fields(port.Replace(pair[1]))
			testkit.RequireTool(t, server[0])
			h.connect(t, server, client)
		})
	}
}

// TestConnectionEvents: each event comes as documented, at both ends: of refusals, of a
// rejected, pending and ended connection, and of a peer that is killed.
func TestConnectionEvents(t *testing.T) { newHost(t).events(t) }

// events runs a server and a client that compares each event.
func (h host) events(t *testing.T) {
	program := compile(t, nil, []string{"test/verbs/programs/connections.c"}, "-lrdmacm", "-libverbs")
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	server, errs := h.command(ctx, 0, program, "serve")
	server.Stdout = nil
	ports, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	var port int
	if _, err := fmt.Fscanln(ports, &port); err != nil {
		t.Errorf("the port of the server: %v", err)
	}
	client, out := h.command(ctx, 1, program, "check", fmt.Sprint(port))
	if err := client.Run(); err != nil {
		cancel()
		t.Fatalf("client: %v\n%s\nserver: %v\n%s", err, out, server.Wait(), errs)
	}
	if _, err := io.Copy(io.Discard, ports); err != nil {
		t.Error(err)
	}
	if err := server.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the server: %v\n%s", err, errs)
	}
	h.empty(t)
}

// TestMulticast: each message of a stock sender reaches a member of its group.
func TestMulticast(t *testing.T) { newHost(t).multicast(t) }

// multicast sends to a group until its member has all that it waits for.
func (h host) multicast(t *testing.T) {
	testkit.RequireTool(t, "mckey")
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
	defer cancel()
	args := []string{"mckey", "-m", "239.1.2.3", "-b", "127.0.0.1", "-C", "5"}
	member := h.start(t, ctx, 0, args...)
	for {
		sender, out := h.command(ctx, 1, append(args, "-s")...)
		if err := sender.Run(); err != nil {
			t.Errorf("the sender: %v\n%s", err, out)
			cancel()
		}
		select {
		case <-member.ended:
			if member.err != nil || !strings.Contains(member.out.String(), "receiving data transfers") {
				t.Errorf("the member: %v\n%s", member.err, member.out)
			}
			h.empty(t)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestKilledProcessDisconnects: rping ends when its other side is killed amid its work.
func TestKilledProcessDisconnects(t *testing.T) { killed(t, newHost) }

// killed kills either side of a connection.
func killed(t *testing.T, newHost func(t *testing.T) host) {
	testkit.RequireTool(t, "rping")
	for victim, name := range []string{"server", "client"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			ctx, cancel := context.WithTimeout(t.Context(), 120*time.Second)
			defer cancel()
			sides := []*started{h.start(t, ctx, 0, "rping", "-s")}
			testkit.Eventually(t, 60*time.Second, func() error {
				c := h.start(t, ctx, 1, "rping", "-c", "-a", "127.0.0.1")
				for {
					select {
					case <-c.ended:
						return fmt.Errorf("the client ends:\n%s", c.out)
					case <-time.After(10 * time.Millisecond):
					}
					if n := h.ports[1].Statistics().Counters; n[message.CountSends] > 100 {
						sides = append(sides, c)
						return nil
					}
				}
			})
			sides[victim].Process.Kill()
			since, survivor := time.Now(), sides[1-victim]
			select {
			case <-survivor.ended:
				t.Logf("the other side ended after %s", time.Since(since))
			case <-time.After(time.Minute):
				t.Errorf("the other side works on:\n%s", survivor.out)
			}
			cancel()
			for _, s := range sides {
				<-s.ended
			}
			h.empty(t)
		})
	}
}
