// Package client speaks with a node: for the controller, for `bee exec`, and
// for the launch agent inside the containers.
package client

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/treesync"
	"github.com/bee-hpc/bee/internal/wire"
)

// Client is a connection to a node.
type Client struct{ peer *rpc.Peer }

// New speaks over a connection that the client owns from now on. A node that
// does not answer for some seconds counts as lost; but where the connection goes
// over another one, which is watched by itself, and is filled by what else goes
// over it, only after minutes.
func New(conn net.Conn) (*Client, error) { return newClient(conn, livenessOver(conn)) }

func livenessOver(conn net.Conn) wire.Liveness {
	for around, is := conn.(interface{ NetConn() net.Conn }); is; around, is = conn.(interface{ NetConn() net.Conn }) {
		conn = around.NetConn()
	}
	switch conn.(type) {
	case *wire.Stream, *rpc.Stream:
		return wire.Tolerant
	}
	return wire.Prompt
}

// NewLocal is New for a node of this host, which is waited for however long it
// is silent: so a client that is stopped and continues later loses nothing.
func NewLocal(conn net.Conn) (*Client, error) { return newClient(conn, wire.Local) }

func newClient(conn net.Conn, v wire.Liveness) (*Client, error) {
	peer, err := rpc.Dial(conn, "the node", v, nodecall.Protocol)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{peer}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.peer.Close() }

// Watch reports events as they come, until the last one, which has a result.
// Only the head has events.
func (c *Client) Watch(ctx context.Context, after int64, fn func(plan.Event) error) error {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallWatch, nodecall.WatchRequest{After: after})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		e, err := rpc.Receive[plan.Event](s, nodecall.MaxEvent)
		if err != nil {
			return lost("watch the head", err)
		}
		if err := fn(e); err != nil || e.Result != nil {
			return err
		}
	}
}

// Output reports the task's output; with follow until the task has ended.
func (c *Client) Output(ctx context.Context, offset int64, follow bool, fn func(tasklog.Frame) error) error {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallOutput, nodecall.OutputRequest{Offset: offset, Follow: follow})
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		f, err := tasklog.Receive(s)
		if err == io.EOF { //nolint:errorlint // Receive gives it bare between frames
			return nil
		}
		if err != nil {
			return lost("read the task's output", err)
		}
		if err := fn(f); err != nil {
			return err
		}
	}
}

// Stop ends the attempt: TERM to the task, KILL after the grace.
func (c *Client) Stop(ctx context.Context, grace time.Duration) error {
	_, err := rpc.Call(ctx, c.peer, nodecall.CallStop, nodecall.StopRequest{Grace: grace})
	return err
}

// Extend reports to the head when the site takes its hosts back now, by the site's clock,
// which has halted them meanwhile.
func (c *Client) Extend(ctx context.Context, ends time.Time) error {
	_, err := rpc.Call(ctx, c.peer, nodecall.CallExtend, nodecall.ExtendRequest{Ends: ends})
	return err
}

// Save takes a checkpoint of the task, which continues, and gives its number. Where the
// task has to end for one, and with move, it gives 0: the task is asked to write its
// checkpoint and end, as at the end of a time slot, and the run continues in another
// attempt.
func (c *Client) Save(ctx context.Context, move bool) (int, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallSave, nodecall.SaveRequest{Move: move})
	return r.Kept, err
}

// Snapshot saves the run's virtual machines, which continue, and takes the files
// into a directory.
func (c *Client) Snapshot(ctx context.Context, into string) error {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallSnapshot, rpc.None{})
	if err != nil {
		return err
	}
	defer s.Close()
	return treesync.Receive(ctx, s, into)
}

// Hold has a checkpoint that the head has kept stay, until done is called or the
// connection ends: it is being collected, which may take longer than others take to
// come. It is core.NotFound where it has made way for later ones already.
func (c *Client) Hold(ctx context.Context, snapshot int) (done func(), err error) {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallHold, nodecall.HoldRequest{Snapshot: snapshot})
	if err != nil {
		return nil, err
	}
	return func() { s.Close() }, nil
}

// Addresses gives the head's ip:port addresses for the other nodes.
func (c *Client) Addresses(ctx context.Context) ([]string, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallAddresses, rpc.None{})
	return r.Addrs, err
}

// Health asks whether the node answers.
func (c *Client) Health(ctx context.Context) (nodecall.Health, error) {
	return rpc.Call(ctx, c.peer, nodecall.CallHealth, rpc.None{})
}

// Console gives what the kernel of a node's virtual machine has reported.
func (c *Client) Console(ctx context.Context) (string, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallConsole, rpc.None{})
	return r.Text, err
}

// Login gives the account of the site's user in a node's virtual machine.
func (c *Client) Login(ctx context.Context) (string, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallLogin, rpc.None{})
	return r.Name, err
}

// Fabric gives what has passed a node's switch of the guests' network.
func (c *Client) Fabric(ctx context.Context) (fabric.Stats, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallFabric, rpc.None{})
	return r.Stats, err
}

// Verbs returns what bee_0 has done in the containers whose broker a node runs.
func (c *Client) Verbs(ctx context.Context) ([]core.VerbsPort, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallVerbs, rpc.None{})
	return r.Ports, err
}

// Exec runs a command in a container to its end. Signals that come while it
// runs go to the command. A stdin of nil is empty.
func (c *Client) Exec(ctx context.Context, r nodecall.ExecRequest, stdin io.Reader, stdout, stderr io.Writer, signals <-chan os.Signal) (core.Exit, error) {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallExec, r)
	if err != nil {
		return core.Exit{}, err
	}
	defer s.Close()
	return Attend(s, r.Resized, stdin, stdout, stderr, signals)
}

// Attend is the caller's side of a command that runs over a stream: see Exec.
func Attend(s io.ReadWriter, resized <-chan [2]uint16, stdin io.Reader, stdout, stderr io.Writer, signals <-chan os.Signal) (core.Exit, error) {
	var mu sync.Mutex // frames of stdin and of signals must not mix
	write := func(kind byte, data []byte) error {
		mu.Lock()
		defer mu.Unlock()
		return nodecall.WriteFrame(s, kind, data)
	}
	done := make(chan struct{})
	defer close(done)
	credit := make(chan struct{}, nodecall.StdinCredit)
	for range nodecall.StdinCredit {
		credit <- struct{}{}
	}
	go sendStdin(stdin, credit, done, write)
	go func() {
		for {
			select {
			case sig := <-signals:
				if n, ok := sig.(syscall.Signal); ok {
					core.BestEffort(write(nodecall.FrameSignal, []byte{byte(n)})) // the end of the stream is noticed by who reads it
				}
			case size := <-resized:
				raw := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
				core.BestEffort(write(nodecall.FrameResize, raw))
			case <-done:
				return
			}
		}
	}()
	return receiveExec(s, stdout, stderr, credit)
}

// sendStdin sends the input as far as credit goes.
func sendStdin(stdin io.Reader, credit <-chan struct{}, done <-chan struct{}, write func(byte, []byte) error) {
	if stdin != nil {
		buf := make([]byte, nodecall.StdinPiece)
		for {
			n, err := stdin.Read(buf)
			if n > 0 {
				select {
				case <-credit:
				case <-done:
					return
				}
				if write(nodecall.FrameStdin, buf[:n]) != nil {
					return
				}
			}
			if err != nil {
				break
			}
		}
	}
	core.BestEffort(write(nodecall.FrameStdin, nil)) // the end of the stream is noticed by who reads it
}

// lost gives the end of a stream as the loss of its node. What is refused is not lost.
func lost(op string, err error) error {
	if core.IsKind(err, core.Invalid) || core.IsKind(err, core.Unsupported) {
		return err
	}
	return &core.Error{Kind: core.Lost, Op: op, Err: err}
}
