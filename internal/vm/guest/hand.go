package guest

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/runtime/docker"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/vm/agent"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// hand runs the one container of this guest for the node outside.
type hand struct {
	home string
	mu   sync.Mutex
	peer *wire.Peer // the host
	box  driver.Container
	task *task // the job's command; nil: it was not given to us
}

// runHand serves the node's port as long as the guest lives.
func runHand() error {
	home, err := os.MkdirTemp("/tmp", "bee-")
	if err != nil {
		return err
	}
	h := &hand{home: home}
	return servePort(agent.NodePort, h.handle, func(p *wire.Peer) {
		h.mu.Lock()
		h.peer = p
		h.mu.Unlock()
	})
}

func (h *hand) handle(ctx context.Context, method string, s *wire.Stream) error {
	switch method {
	case agent.CallHello:
		return hello(ctx, s)
	case agent.CallPing:
		return s.Reply(nil)
	case agent.CallStart:
		return h.start(ctx, s)
	case agent.CallExec:
		return h.exec(ctx, s)
	case agent.CallStop:
		return h.stop(ctx, s)
	case agent.CallWait:
		box, err := h.container()
		if err != nil {
			return err
		}
		exit, err := box.Wait(ctx)
		if err != nil {
			return err
		}
		unix.Sync() // what was written to shares is outside now
		return s.Reply(exit)
	case agent.CallPut:
		return put(ctx, s)
	case agent.CallGet:
		return get(ctx, s)
	case agent.CallTask:
		return h.startTask(ctx, s)
	case agent.CallTaskOutput, agent.CallTaskSignal:
		return h.attendTask(ctx, method, s)
	}
	return &core.Error{Kind: core.Unsupported, Op: "call", Object: method, Err: errors.New("the guest knows no such call")}
}

func hello(ctx context.Context, s *wire.Stream) error {
	if failed := os.Getenv(errorVariable); failed != "" {
		return &core.Error{Kind: core.Permanent, Op: "set up the guest", Err: errors.New(failed)}
	}
	if err := awaitDocker(ctx); err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	return s.Reply(agent.Hello{
		Kernel: unix.ByteSliceToString(name.Release[:]), Init: seconds(os.Getenv(initVariable)),
		Root: seconds(os.Getenv(rootVariable)), Docker: seconds(uptime()),
	})
}

func seconds(text string) time.Duration {
	f, _ := strconv.ParseFloat(text, 64)
	return time.Duration(f * float64(time.Second))
}

func (h *hand) container() (driver.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.box == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "use the guest's container", Err: errors.New("it does not run (yet, or any more)")}
	}
	return h.box, nil
}

// start makes the image ready and starts the container.
func (h *hand) start(ctx context.Context, s *wire.Stream) error {
	var r agent.StartRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	spec := r.Spec
	spec.Binary, spec.RunDir, spec.StateDir = binary, filepath.Join(h.home, "run"), filepath.Join(h.home, "state")
	for _, d := range []string{spec.RunDir, spec.StateDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	for name, raw := range r.Files {
		if filepath.Base(name) != name {
			continue
		}
		if err := os.WriteFile(filepath.Join(spec.RunDir, name), raw, 0o600); err != nil {
			return err
		}
	}
	l, err := wire.ListenUnix(filepath.Join(spec.RunDir, "node.sock"))
	if err != nil {
		return err
	}
	if r.Peers != nil {
		if err := h.join(*r.Peers, l); err != nil {
			return err
		}
	} else {
		go h.relay(l)
	}
	box, err := docker.New(docker.Options{Binary: binary, Own: engine()}).Start(ctx, spec)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.box = box
	h.mu.Unlock()
	return s.Reply(nil)
}

// mostAgents is how many launch agents of the container are served at a time.
const mostAgents = 4096

// relay joins everyone in the container who wants the node with it.
func (h *hand) relay(l net.Listener) {
	g := wire.Gate{Most: mostAgents}
	g.Serve(l, func(c net.Conn, known func() bool) {
		defer c.Close()
		known() // the socket is the container's
		h.mu.Lock()
		peer := h.peer
		h.mu.Unlock()
		s, err := peer.Open(context.Background(), agent.CallDial, nil, nil)
		if err != nil {
			return
		}
		defer s.Close()
		splice(c, s)
	})
}

// splice copies both ways until either side ends.
func splice(a, b io.ReadWriter) {
	done := make(chan struct{}, 2)
	for _, way := range [][2]io.ReadWriter{{a, b}, {b, a}} {
		go func() {
			io.Copy(way[0], way[1]) //nolint:errcheck // its end is what counts
			done <- struct{}{}
		}()
	}
	<-done
}

func (h *hand) exec(ctx context.Context, s *wire.Stream) error {
	box, err := h.container()
	if err != nil {
		return err
	}
	return execIn(ctx, s, box.Exec)
}

// execIn runs a process by start, whose standard streams go over the call.
func execIn(ctx context.Context, s *wire.Stream, start func(context.Context, driver.Command) (driver.Process, error)) error {
	var r agent.ExecRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	e, err := execute.New(s, client.ExecRequest{TTY: r.TTY, Rows: r.Rows, Cols: r.Cols})
	if err != nil {
		return err
	}
	defer e.Close()
	c := driver.Command{Args: r.Args, Env: r.Env, Dir: r.Dir, TTY: r.TTY}
	c.Stdin, c.Stdout, c.Stderr = e.Files()
	p, err := start(ctx, c)
	if refused, ok := errors.AsType[*pid1.StartError](err); ok {
		return s.Reply(agent.ExecReply{Code: refused.Code, Message: refused.Message})
	}
	if err != nil {
		return err
	}
	if err := s.Reply(agent.ExecReply{}); err != nil {
		return err
	}
	return e.Attend(ctx, p)
}

func (h *hand) stop(ctx context.Context, s *wire.Stream) error {
	var r agent.StopRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	box, err := h.container()
	if err == nil {
		err = box.Stop(ctx, r.Grace)
	} else if core.IsKind(err, core.NotFound) {
		err = nil
	}
	if err != nil {
		return err
	}
	unix.Sync() // see CallWait
	return s.Reply(nil)
}
