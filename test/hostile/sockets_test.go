package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// callerArg makes the test binary a program in a container that tries all that a
// controller may.
const callerArg = "hostile-caller"

// nodeSocket is the only one that a container has.
const nodeSocket = "/.bee/run/node.sock"

// callerMain is that program. Each line of its output is one thing that it may do.
func callerMain(args []string) (code int, meant bool) {
	if len(args) < 2 || args[1] != callerArg {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	filepath.WalkDir("/.bee", func(path string, d os.DirEntry, err error) error { //nolint:errcheck // what cannot be read is of no use
		if err == nil && d.Type()&os.ModeSocket != 0 && path != nodeSocket {
			fmt.Println("find the socket", path)
		}
		return nil
	})
	if os.Remove(nodeSocket) == nil {
		fmt.Println("remove its socket")
	}
	if l, err := net.Listen("unix", "/.bee/run/control.sock"); err == nil {
		l.Close()
		fmt.Println("listen in the run directory")
	}
	node := func() *client.Client {
		c, err := net.Dial("unix", nodeSocket)
		if err != nil {
			fmt.Println("no socket:", err)
			os.Exit(1)
		}
		n, err := client.New(c)
		if err != nil {
			fmt.Println("no connection:", err)
			os.Exit(1)
		}
		return n
	}
	for what, call := range map[string]func(c *client.Client) error{
		"stop":  func(c *client.Client) error { return c.Stop(ctx, 0) },
		"watch": func(c *client.Client) error { return c.Watch(ctx, 0, func(plan.Event) error { return io.EOF }) },
		"output": func(c *client.Client) error {
			return c.Output(ctx, 0, false, func(tasklog.Frame) error { return io.EOF })
		},
		"extend":    func(c *client.Client) error { return c.Extend(ctx, time.Now()) },
		"save":      func(c *client.Client) error { _, err := c.Save(ctx, true); return err },
		"snapshot":  func(c *client.Client) error { return c.Snapshot(ctx, "/tmp/snapshot") },
		"hold":      func(c *client.Client) error { _, err := c.Hold(ctx, 1); return err },
		"addresses": func(c *client.Client) error { _, err := c.Addresses(ctx); return err },
		"health":    func(c *client.Client) error { _, err := c.Health(ctx); return err },
		"console":   func(c *client.Client) error { _, err := c.Console(ctx); return err },
		"login":     func(c *client.Client) error { _, err := c.Login(ctx); return err },
		"a command as the guest's root": func(c *client.Client) error {
			_, err := c.Exec(ctx, nodecall.ExecRequest{Guest: true, Args: []string{"true"}}, nil, io.Discard, io.Discard, nil)
			return err
		},
	} {
		c := node()
		if err := call(c); !core.IsKind(err, core.Invalid) {
			fmt.Println(what+":", err)
		}
		c.Close()
	}
	for _, raw := range []string{"", "\x00", strings.Repeat("\xff", 1<<16), "GET / HTTP/1.1\r\n\r\n"} {
		for range 100 { // and they stay open
			if c, err := net.Dial("unix", nodeSocket); err == nil {
				c.SetDeadline(time.Now().Add(time.Second))
				c.Write([]byte(raw))
			}
		}
	}
	c := node()
	defer c.Close()
	exit, err := c.Exec(ctx, nodecall.ExecRequest{Args: []string{"sh", "-c", "exit 7"}}, nil, io.Discard, io.Discard, nil)
	if err != nil || exit.Code != 7 {
		fmt.Println("what a launch agent needs:", exit, err)
	}
	return 0, true
}

// TestAJobThatCallsItsNode: a container has one socket, by which a launch agent starts
// commands in containers of its run, and nothing else.
func TestAJobThatCallsItsNode(t *testing.T) {
	b, job := busyboxJob(t, "inputs: [{from: ./caller, to: /work}]", "run: [/work/caller, "+callerArg+"]")
	self, err := os.ReadFile("/proc/self/exe")
	if err = errors.Join(err, core.WriteProgram(filepath.Join(b.Work, "caller"), self, 0o755)); err != nil { // it is to be started
		t.Fatal(err)
	}
	if r := b.Try("run", "-q", job); r.Code != 0 || r.Stdout != "" {
		t.Errorf("a job may:\n%s\nand ended with %d: %s", r.Stdout, r.Code, r.Stderr)
	}
}
