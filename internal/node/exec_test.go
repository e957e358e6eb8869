package node_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/testkit"
)

// running is a cluster whose task waits.
func running(t *testing.T, size int) *cluster {
	t.Helper()
	c := newCluster(t, size, "sleep 1000").startAll()
	c.awaitPhase(core.PhaseRun)
	return c
}

func script(rank int, s string) nodecall.ExecRequest {
	return nodecall.ExecRequest{Rank: rank, Args: []string{"/bin/sh", "-c", s}}
}

func TestExec(t *testing.T) {
	c := running(t, 2)
	ctx := context.Background()
	head := c.dial(0)
	for rank := range 2 {
		for _, e := range []struct {
			name, script, stdin, stdout, stderr string
			code                                int
		}{
			{"streams and code", "cat; echo err >&2; exit 7", "in", "in", "err\n", 7},
			{"its own node", "echo $BEE_NODE_RANK", "", strconv.Itoa(rank) + "\n", "", 0},
			{"death by a signal", "kill -9 $$", "", "", "", 137},
			{"much input", "wc -c", strings.Repeat("x", 3<<20), strconv.Itoa(3<<20) + "\n", "", 0},
			{"input that nobody reads", "exit 4", strings.Repeat("x", 3<<20), "", "", 4},
			{"much output", "head -c 5000000 /dev/zero | tr '\\0' x", "", strings.Repeat("x", 5000000), "", 0},
		} {
			t.Run(fmt.Sprintf("node %d: %s", rank, e.name), func(t *testing.T) {
				var out, errs bytes.Buffer
				exit, err := head.Exec(ctx, script(rank, e.script), strings.NewReader(e.stdin), &out, &errs, nil)
				if err != nil || exit.Code != e.code || out.String() != e.stdout || errs.String() != e.stderr {
					t.Errorf("got %+v, %v, %d bytes out, %q", exit, err, out.Len(), errs.String())
				}
			})
		}
		t.Run(fmt.Sprintf("node %d: a missing program", rank), func(t *testing.T) {
			exit, err := head.Exec(ctx, nodecall.ExecRequest{Rank: rank, Args: []string{"no-such-program"}}, nil, io.Discard, io.Discard, nil)
			if exit.Code != 127 || err == nil {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
		t.Run(fmt.Sprintf("node %d: signals arrive though the input is stuck", rank), func(t *testing.T) {
			signals := make(chan os.Signal, 1)
			out := newWatched("ready", func() { signals <- syscall.SIGTERM })
			exit, err := head.Exec(ctx, script(rank, "trap 'exit 5' TERM; echo ready; while :; do sleep 0.02; done"),
				endless{}, out, io.Discard, signals)
			if err != nil || exit.Code != 5 {
				t.Errorf("got %+v, %v", exit, err)
			}
		})
		t.Run(fmt.Sprintf("node %d: the command ends with its caller", rank), func(t *testing.T) {
			mark := fmt.Sprintf("73%d", rank) + strconv.Itoa(os.Getpid())
			ctx, cancel := context.WithCancel(ctx)
			other := c.dial(0)
			go other.Exec(ctx, script(rank, "echo up; exec sleep "+mark), endless{}, newWatched("up", func() { other.Close(); cancel() }), io.Discard, nil) //nolint:errcheck // it is cut off
			testkit.Eventually(t, 10*time.Second, func() error {
				if ctx.Err() == nil {
					return errors.New("it has not started yet")
				}
				for _, p := range c.bee.Processes() {
					if strings.Contains(p, mark) {
						return errors.New("still runs: " + p)
					}
				}
				return nil
			})
		})
		t.Run(fmt.Sprintf("node %d: a terminal", rank), func(t *testing.T) {
			var out bytes.Buffer
			r := script(rank, "test -t 0 && test -t 1 && test -t 2 && read line && echo got $line")
			r.TTY, r.Rows, r.Cols = true, 40, 100
			exit, err := head.Exec(ctx, r, strings.NewReader("typed\n"), &out, io.Discard, nil)
			if err != nil || exit.Code != 0 || !strings.Contains(out.String(), "got typed\r\n") {
				t.Errorf("got %+v, %v, %q", exit, err, out.String())
			}
		})
	}
	t.Run("a host that is none", func(t *testing.T) {
		_, err := head.Exec(ctx, nodecall.ExecRequest{Host: "elsewhere", Args: []string{"true"}}, nil, io.Discard, io.Discard, nil)
		if !core.IsKind(err, core.NotFound) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a storm", func(t *testing.T) {
		var wg sync.WaitGroup
		begun := time.Now()
		const many = 200
		for i := range many {
			wg.Go(func() {
				var out bytes.Buffer
				exit, err := head.Exec(ctx, script(i%2, "echo "+strconv.Itoa(i)), nil, &out, io.Discard, nil)
				if err != nil || exit.Code != 0 || out.String() != strconv.Itoa(i)+"\n" {
					t.Errorf("command %d: %+v, %v, %q", i, exit, err, out.String())
				}
			})
		}
		wg.Wait()
		t.Logf("%d commands in %v", many, time.Since(begun))
	})
	t.Run("health and stop", func(t *testing.T) {
		for rank := range 2 {
			h, err := c.dial(rank).Health(ctx)
			if err != nil || h.Rank != rank || !h.Running {
				t.Errorf("health of node %d: %+v, %v", rank, h, err)
			}
		}
		if err := head.Stop(ctx, time.Second); err != nil {
			t.Fatal(err)
		}
		if r := c.result(10 * time.Second); r.Kind != "stopped" {
			t.Errorf("result: %+v", r)
		}
		c.awaitEnd(10*time.Second, 0, 1)
	})
}

// endless is input that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// watched is a writer that does something when a word comes.
type watched struct {
	mu   sync.Mutex
	seen bytes.Buffer
	word string
	then func()
}

func newWatched(word string, then func()) *watched {
	return &watched{word: word, then: sync.OnceFunc(then)}
}

func (w *watched) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen.Write(b)
	if strings.Contains(w.seen.String(), w.word) {
		w.then()
	}
	return len(b), nil
}

func TestMuchOutputReachesEveryReader(t *testing.T) {
	const size = 64 << 20
	c := newCluster(t, 1, fmt.Sprintf("head -c %d /dev/zero; echo end >&2", size)).startAll()
	var wg sync.WaitGroup
	for i := range 3 {
		head := c.dial(0)
		wg.Go(func() {
			got, last := 0, ""
			err := head.Output(context.Background(), 0, true, func(f tasklog.Frame) error {
				if f.Stream == tasklog.Stdout {
					got += len(f.Data)
				} else {
					last += string(f.Data)
				}
				return nil
			})
			if err != nil || got != size || last != "end\n" {
				t.Errorf("reader %d: %d of %d bytes, %q, %v", i, got, size, last, err)
			}
		})
	}
	wg.Wait()
	if r := c.result(20 * time.Second); r.Exit == nil || r.Exit.Code != 0 {
		t.Errorf("result: %+v", r)
	}
	c.awaitEnd(10*time.Second, 0)
}

func TestACutLinkEndsTheAttempt(t *testing.T) {
	c := newCluster(t, 3, "sleep 1000").start(0)
	head := c.headAddresses()[0]
	through, cut := blackHole(t, head)
	c.configs[1].Head, c.configs[2].Head = []string{through}, []string{head}
	c.launch(1)
	c.launch(2)
	c.awaitPhase(core.PhaseRun)
	begun := time.Now()
	cut()
	r := c.result(8 * time.Second)
	t.Logf("noticed after %v", time.Since(begun))
	if r.Kind != "lost" || r.Host != "host1" {
		t.Errorf("result: %+v", r)
	}
	c.awaitEnd(15*time.Second, 0, 1, 2)
}

// blackHole relays connections until it is cut; then bytes vanish, and nobody
// is reported.
func blackHole(t *testing.T, to string) (addr string, cut func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	gone := make(chan struct{})
	relay := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if err != nil {
				return
			}
			select {
			case <-gone:
				continue
			default:
			}
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			a, err := l.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			t.Cleanup(func() { a.Close(); b.Close() })
			go relay(a, b)
			go relay(b, a)
		}
	}()
	return l.Addr().String(), func() { close(gone) }
}

// TestAnIdleNodeIsSmall: its own memory is below 5 MB, with connections to others below 7.
// The rest are pages of the program, which all nodes of a host have in common. How many
// of them count depends on the page cache, as a fault maps those around it that are there:
// their bound is what a program of this size takes at most.
func TestAnIdleNodeIsSmall(t *testing.T) {
	for nodes, most := range map[int]struct{ own, all int }{1: {5 << 10, 32 << 10}, 3: {7 << 10, 34 << 10}} {
		c := running(t, nodes)
		for rank := range nodes {
			testkit.Eventually(t, time.Minute, func() error { // what it took to start is released by and by
				raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.nodes[rank].Process.Pid))
				if err != nil {
					return err
				}
				own, all := testkit.Number(t, string(raw), `RssAnon:\s+(\d+)`), testkit.Number(t, string(raw), `VmRSS:\s+(\d+)`)
				if own > float64(most.own) || all > float64(most.all) {
					return fmt.Errorf("node %d of %d takes %v kB, %v of its own, more than %v", rank, nodes, all, own, most)
				}
				t.Logf("node %d of %d: %.1f MB, %.1f of its own", rank, nodes, all/1024, own/1024)
				return nil
			})
		}
	}
}
