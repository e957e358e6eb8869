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
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/wire"
)

// The calls of a node's own socket.
const (
	CallWatch     = "watch"
	CallOutput    = "output"
	CallExec      = "exec"
	CallStop      = "stop"
	CallExtend    = "extend"
	CallSave      = "save"
	CallSnapshot  = "snapshot"
	CallHold      = "hold-snapshot"
	CallAddresses = "addresses"
	CallHealth    = "health"
	CallConsole   = "console"
	CallLogin     = "login"
	CallFabric    = "fabric"
)

// Client is a connection to a node.
type Client struct{ peer *wire.Peer }

// New speaks over a connection that the client owns from now on. A node that
// does not answer for some seconds counts as lost; but where the connection goes
// over another one, which is watched by itself, and is filled by what else goes
// over it, only after minutes.
func New(conn net.Conn) (*Client, error) { return newClient(conn, vigilOver(conn)) }

func vigilOver(conn net.Conn) wire.Vigil {
	if around, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = around.NetConn()
	}
	if _, inner := conn.(*wire.Stream); inner {
		return wire.Patient
	}
	return wire.Watched
}

// NewLocal is New for a node of this host, which is waited for however long it
// is silent: so a client that is stopped and goes on later loses nothing.
func NewLocal(conn net.Conn) (*Client, error) { return newClient(conn, wire.Trusting) }

func newClient(conn net.Conn, v wire.Vigil) (*Client, error) {
	peer, err := wire.NewPeerWith(conn, true, "the node", v)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Client{peer}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.peer.Close() }

// WatchRequest asks for the events after a sequence number.
type WatchRequest struct {
	After int64 `json:"after"`
}

// Watch tells events as they come, until the last one, which has a result.
// Only the head has events.
func (c *Client) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	s, err := c.peer.Open(ctx, CallWatch, WatchRequest{after}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		var e protocol.Event
		if err := wire.ReadMessage(s, &e); err != nil {
			return lost("watch the head", err)
		}
		if err := fn(e); err != nil || e.Result != nil {
			return err
		}
	}
}

// OutputRequest asks for the task's output from an offset on.
type OutputRequest struct {
	Offset int64 `json:"offset"`
	Follow bool  `json:"follow"`
}

// Output tells the task's output; with follow until the task has ended.
func (c *Client) Output(ctx context.Context, offset int64, follow bool, fn func(tasklog.Frame) error) error {
	s, err := c.peer.Open(ctx, CallOutput, OutputRequest{offset, follow}, nil)
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

// StopRequest asks for the end of the attempt.
type StopRequest struct {
	Grace time.Duration `json:"grace"`
}

// Stop ends the attempt: TERM to the task, KILL after the grace.
func (c *Client) Stop(ctx context.Context, grace time.Duration) error {
	return c.peer.Call(ctx, CallStop, StopRequest{grace}, nil)
}

// ExtendRequest tells of a site that takes its hosts back later.
type ExtendRequest struct {
	Ends time.Time `json:"ends"`
}

// Extend tells the head when the site takes its hosts back now, by the site's clock,
// which has had them stand still meanwhile.
func (c *Client) Extend(ctx context.Context, ends time.Time) error {
	return c.peer.Call(ctx, CallExtend, ExtendRequest{ends}, nil)
}

// SaveRequest asks for a checkpoint now.
type SaveRequest struct {
	// Move has the task end with it in any case.
	Move bool `json:"move,omitempty"`
}

// SaveReply tells what became of that.
type SaveReply struct {
	// Kept is the number of the checkpoint, where the task goes on; 0: it was asked to
	// write one and end.
	Kept int `json:"kept,omitempty"`
}

// Save takes a checkpoint of the task, which goes on, and gives its number. Where the
// task has to end for one, and with move, it gives 0: the task is asked to write its
// checkpoint and end, as at the end of a time slot, and the run goes on in another
// attempt.
func (c *Client) Save(ctx context.Context, move bool) (int, error) {
	var r SaveReply
	err := c.peer.Call(ctx, CallSave, SaveRequest{move}, &r)
	return r.Kept, err
}

// Snapshot saves the run's virtual machines, which go on, and takes the files
// into a directory.
func (c *Client) Snapshot(ctx context.Context, into string) error {
	s, err := c.peer.Open(ctx, CallSnapshot, nil, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return filestream.Receive(ctx, s, into)
}

// HoldRequest asks for a checkpoint that was kept to stay.
type HoldRequest struct {
	Snapshot int `json:"snapshot"`
}

// Hold has a checkpoint that the head has kept stay, until done is called or the
// connection ends: it is being brought home, which may take longer than others take to
// come. It is core.NotFound where it has made way for later ones already.
func (c *Client) Hold(ctx context.Context, snapshot int) (done func(), err error) {
	s, err := c.peer.Open(ctx, CallHold, HoldRequest{snapshot}, nil)
	if err != nil {
		return nil, err
	}
	return func() { s.Close() }, nil
}

// Addresses gives the head's ip:port addresses for the other nodes.
func (c *Client) Addresses(ctx context.Context) ([]string, error) {
	var addrs []string
	err := c.peer.Call(ctx, CallAddresses, nil, &addrs)
	return addrs, err
}

// Health is what a node tells of itself.
type Health struct {
	Rank  int            `json:"rank"`
	Phase protocol.Phase `json:"phase"`
	// Running tells whether the node's container runs.
	Running bool `json:"running"`
}

// Health asks whether the node answers.
func (c *Client) Health(ctx context.Context) (Health, error) {
	var h Health
	err := c.peer.Call(ctx, CallHealth, nil, &h)
	return h, err
}

// Console gives what the kernel of a node's virtual machine has said.
func (c *Client) Console(ctx context.Context) (string, error) {
	var text string
	err := c.peer.Call(ctx, CallConsole, nil, &text)
	return text, err
}

// Login gives the account of the site's user in a node's virtual machine.
func (c *Client) Login(ctx context.Context) (string, error) {
	var name string
	err := c.peer.Call(ctx, CallLogin, nil, &name)
	return name, err
}

// Fabric gives what has passed a node's switch of the guests' network.
func (c *Client) Fabric(ctx context.Context) (fabric.Stats, error) {
	var s fabric.Stats
	err := c.peer.Call(ctx, CallFabric, nil, &s)
	return s, err
}

// ExecRequest names a command and the node in whose container it shall run:
// by Host, else by Rank.
type ExecRequest struct {
	Host string `json:"host,omitempty"`
	Rank int    `json:"rank,omitempty"`
	// Guest means the virtual machine around the container, and its root.
	Guest bool     `json:"guest,omitempty"`
	Args  []string `json:"args"`
	// Env is added to the container's own environment.
	Env []string `json:"env,omitempty"`
	Dir string   `json:"dir,omitempty"` // default: the job's working directory
	// TTY gives the command a terminal of Rows and Cols; its standard error
	// then comes with its standard output.
	TTY  bool   `json:"tty,omitempty"`
	Rows uint16 `json:"rows,omitempty"`
	Cols uint16 `json:"cols,omitempty"`
	// Resized tells new sizes of the terminal (rows, columns).
	Resized <-chan [2]uint16 `json:"-"`
}

// Exec runs a command in a container to its end. Signals that come while it
// runs go to the command. A stdin of nil is empty.
func (c *Client) Exec(ctx context.Context, r ExecRequest, stdin io.Reader, stdout, stderr io.Writer, signals <-chan os.Signal) (core.Exit, error) {
	s, err := c.peer.Open(ctx, CallExec, r, nil)
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
		return WriteFrame(s, kind, data)
	}
	done := make(chan struct{})
	defer close(done)
	credit := make(chan struct{}, StdinCredit)
	for range StdinCredit {
		credit <- struct{}{}
	}
	go sendStdin(stdin, credit, done, write)
	go func() {
		for {
			select {
			case sig := <-signals:
				if n, ok := sig.(syscall.Signal); ok {
					write(FrameSignal, []byte{byte(n)}) //nolint:errcheck // the end of the stream is noticed by who reads it
				}
			case size := <-resized:
				raw := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size[0]), size[1])
				write(FrameResize, raw) //nolint:errcheck // see above
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
		buf := make([]byte, StdinPiece)
		for {
			n, err := stdin.Read(buf)
			if n > 0 {
				select {
				case <-credit:
				case <-done:
					return
				}
				if write(FrameStdin, buf[:n]) != nil {
					return
				}
			}
			if err != nil {
				break
			}
		}
	}
	write(FrameStdin, nil) //nolint:errcheck // the end of the stream is noticed by who reads it
}

func lost(op string, err error) error {
	return &core.Error{Kind: core.Lost, Op: op, Err: err}
}
