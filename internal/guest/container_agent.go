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
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// containerAgent runs the one container of this guest for the node outside.
type containerAgent struct {
	home   string
	engine Engine
	mu     sync.Mutex
	peer   *rpc.Peer // the host
	box    driver.Container
	task   *task        // the job's command; nil: it was not given to us
	verbs  *verbsBroker // of bee_0; nil: this agent runs none
	pooled bool         // the container has bee_0, whose broker is on the host
}

// runContainerAgent serves the node's port as long as the guest lives.
func runContainerAgent(e Engine) error {
	home, err := os.MkdirTemp("/tmp", "bee-")
	if err != nil {
		return err
	}
	h := &containerAgent{home: home, engine: e}
	return servePort(api.NodePort, h.server(), func(p *rpc.Peer) {
		h.mu.Lock()
		h.peer = p
		h.mu.Unlock()
	})
}

// server gives the calls of the host.
func (h *containerAgent) server() *rpc.Server {
	s := rpc.NewServer(nil)
	rpc.Handle(s, api.CallHello, h.hello)
	rpc.Handle(s, api.CallPing, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) { return rpc.None{}, nil })
	rpc.Handle(s, api.CallStart, h.start)
	rpc.HandleStream(s, api.CallExec, h.exec)
	rpc.Handle(s, api.CallStop, h.stop)
	rpc.Handle(s, api.CallWait, h.wait)
	rpc.HandleStream(s, api.CallPut, put)
	rpc.HandleStream(s, api.CallGet, get)
	rpc.Handle(s, api.CallDevices, h.devices)
	rpc.HandleStream(s, api.CallLink, h.link)
	rpc.Handle(s, api.CallRenew, h.renew)
	rpc.Handle(s, api.CallVerbs, h.statistics)
	rpc.Handle(s, api.CallUse, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (core.Sample, error) {
		box, err := h.container()
		if err != nil {
			return core.Sample{}, err
		}
		return box.Use(ctx)
	})
	rpc.Handle(s, api.CallTask, h.startTask)
	rpc.Handle(s, api.CallTaskOutput, h.taskOutput)
	rpc.Handle(s, api.CallTaskSignal, h.taskSignal)
	return s
}

func (h *containerAgent) wait(ctx context.Context, _ rpc.Caller, _ rpc.None) (core.Exit, error) {
	box, err := h.container()
	if err != nil {
		return core.Exit{}, err
	}
	exit, err := box.Wait(ctx)
	if err != nil {
		return core.Exit{}, err
	}
	unix.Sync() // what was written to shares is outside now
	return exit, nil
}

func (h *containerAgent) hello(ctx context.Context, _ rpc.Caller, _ rpc.None) (api.Hello, error) {
	if failed := os.Getenv(errorVariable); failed != "" {
		return api.Hello{}, &core.Error{Kind: core.Permanent, Op: "set up the guest", Err: errors.New(failed), Remedy: "`bee logs --node NUMBER RUN` has the end of its console."}
	}
	if err := awaitDocker(ctx, h.engine); err != nil {
		return api.Hello{}, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return api.Hello{}, err
	}
	return api.Hello{
		Kernel: unix.ByteSliceToString(name.Release[:]), Init: seconds(os.Getenv(initVariable)),
		Root: seconds(os.Getenv(rootVariable)), Docker: seconds(uptime()),
	}, nil
}

func seconds(text string) time.Duration {
	f, _ := strconv.ParseFloat(text, 64)
	return time.Duration(f * float64(time.Second))
}

func (h *containerAgent) container() (driver.Container, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.box == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "use the guest's container", Err: errors.New("it does not run (yet, or any more)"), Remedy: core.RemedyAgain}
	}
	return h.box, nil
}

// start makes the image ready and starts the container.
func (h *containerAgent) start(ctx context.Context, _ rpc.Caller, r api.StartRequest) (rpc.None, error) {
	spec := r.Spec
	spec.Binary, spec.RunDir, spec.StateDir = binary, filepath.Join(h.home, "run"), filepath.Join(h.home, "state")
	for _, d := range []string{spec.RunDir, spec.StateDir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return rpc.None{}, err
		}
	}
	for name, raw := range r.Files {
		if filepath.Base(name) != name {
			continue
		}
		if err := os.WriteFile(filepath.Join(spec.RunDir, name), raw, 0o600); err != nil {
			return rpc.None{}, err
		}
	}
	l, err := wire.ListenUnix(filepath.Join(spec.RunDir, "node.sock"))
	if err != nil {
		return rpc.None{}, err
	}
	if r.Peers != nil {
		if err := h.join(*r.Peers, l); err != nil {
			return rpc.None{}, err
		}
	} else {
		go h.relay(l)
	}
	if r.RDMA {
		spec.Devices = rdmaNodes()
	}
	if r.Broker != nil {
		if err := h.startBroker(*r.Broker, &spec); err != nil {
			return rpc.None{}, err
		}
	}
	box, err := h.engine.Start(ctx, spec)
	if err != nil {
		return rpc.None{}, err
	}
	h.mu.Lock()
	h.box = box
	h.mu.Unlock()
	return rpc.None{}, nil
}

// mostAgents is how many launch agents of the container are served at a time.
const mostAgents = 4096

// relay joins everyone in the container who wants the node with it.
func (h *containerAgent) relay(l net.Listener) {
	g := wire.Gate{Most: mostAgents}
	g.Serve(l, func(c net.Conn, known func() bool) {
		defer c.Close()
		known() // the socket is the container's
		h.mu.Lock()
		peer := h.peer
		h.mu.Unlock()
		s, _, err := rpc.Open(context.Background(), peer, api.CallDial, rpc.None{})
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
	for _, route := range [][2]io.ReadWriter{{a, b}, {b, a}} {
		go func() {
			core.BestEffort(io.Copy(route[0], route[1])) // its end is what counts
			done <- struct{}{}
		}()
	}
	<-done
}

func (h *containerAgent) exec(ctx context.Context, _ rpc.Caller, r api.ExecRequest, to rpc.Answer[api.ExecReply]) error {
	box, err := h.container()
	if err != nil {
		return err
	}
	return execIn(ctx, r, to, box.Exec)
}

// execIn runs a process by start, whose standard streams go over the call.
func execIn(ctx context.Context, r api.ExecRequest, to rpc.Answer[api.ExecReply], start func(context.Context, driver.Command) (driver.Process, error)) error {
	e, err := execute.New(to, nodecall.ExecRequest{TTY: r.TTY, Rows: r.Rows, Cols: r.Cols})
	if err != nil {
		return err
	}
	defer e.Close()
	c := driver.Command{Args: r.Args, Env: r.Env, Dir: r.Dir}
	e.Streams(&c)
	p, err := start(ctx, c)
	if refused, ok := errors.AsType[*pid1.StartError](err); ok {
		return to.Reply(api.ExecReply{Code: refused.Code, Message: refused.Message})
	}
	if err != nil {
		return err
	}
	core.BestEffort(to.Reply(api.ExecReply{})) // the process ends with a caller that is gone
	return e.Attend(ctx, p)
}

func (h *containerAgent) stop(ctx context.Context, _ rpc.Caller, r api.StopRequest) (rpc.None, error) {
	box, err := h.container()
	if err == nil {
		err = box.Stop(ctx, r.Grace)
	} else if core.IsKind(err, core.NotFound) {
		err = nil
	}
	if err != nil {
		return rpc.None{}, err
	}
	unix.Sync() // see wait
	return rpc.None{}, nil
}
