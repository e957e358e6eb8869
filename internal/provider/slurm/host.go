package slurm

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// HostArg makes the bee binary the agent on a node of a job.
const HostArg = "slurm-host"

// How long an agent waits for its node to be started after the last file was
// brought, or where its start alone is to come, for which there has to be a
// controller, that looks at its queue every 30 seconds at least; how long it stays
// when its node has ended, and how long a node may take to clear up. An allocation
// that nobody uses is released.
const (
	idleTimeout   = 15 * time.Minute
	attendTimeout = 2 * time.Minute
	linger        = 3 * time.Second
	stopGrace     = 3 * time.Second
)

// announcement is what an agent says of itself.
type announcement struct {
	Job  string `json:"job"`
	Step string `json:"step"`
	// Restart counts how often Slurm has put the job back into its queue.
	Restart string   `json:"restart,omitempty"`
	Name    string   `json:"name"`
	Addrs   []string `json:"addrs"` // ip:port
	Slots   int      `json:"slots"`
	Arch    string   `json:"arch"`
}

func announcementPath(dir string, rank int) string {
	return filepath.Join(dir, hostsDir, strconv.Itoa(rank)+".json")
}

// agent is one node's. Everything it starts ends with its job step: Slurm sees
// to that.
type agent struct {
	dir   string // the lease's
	rank  int    // of 0 on; the first leads
	self  announcement
	start driver.Starter
	// idle and attend are for how long nothing may come: see idleTimeout.
	idle, attend time.Duration

	log  *slog.Logger
	end  chan struct{} // closed when the agent shall end
	once sync.Once

	mu   sync.Mutex
	node *exec.Cmd
	done chan struct{} // closed when the node has ended
	// bound is set when a launch spec is about to be executed, tired when nothing
	// is to be started any more.
	bound, tired bool
}

// HostMain is `bee slurm-host DIR`, started by srun on each node of a job.
func HostMain(args []string, start driver.Starter) int {
	return hostMain(args, start, idleTimeout, attendTimeout)
}

func hostMain(args []string, start driver.Starter, idle, attend time.Duration) int {
	environ.Enter()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	if len(args) != 1 {
		log.Error("bee slurm-host is for bee's own use, in a job of Slurm's")
		return 2
	}
	a := &agent{dir: args[0], start: start, idle: idle, attend: attend, log: log, end: make(chan struct{}), done: make(chan struct{})}
	if err := a.serve(); err != nil {
		log.Error("the agent on this node cannot work", "err", err)
		return 1
	}
	return 0
}

func (a *agent) serve() error {
	notices := make(chan os.Signal, 4)
	signal.Notify(notices, syscall.SIGTERM, syscall.SIGINT)
	var k keys
	if err := readJSON(filepath.Join(a.dir, keysName), &k); err != nil {
		return fmt.Errorf("read the lease: %w (do the nodes share this directory with the login node?)", err)
	}
	identity, err := wire.NewIdentity(k.CA, k.AgentCert, k.AgentKey)
	if err != nil {
		return err
	}
	listener, err := tls.Listen("tcp", ":0", identity.Server())
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := a.announce(listener.Addr().(*net.TCPAddr).Port); err != nil {
		return err
	}
	go a.accept(listener)
	if a.rank == 0 {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go a.lead(ctx)
	}
	begun := time.Now()
	idle := time.NewTimer(a.timeout(begun))
	defer idle.Stop()
	ended := a.done
	for {
		select {
		case <-notices:
			a.notice()
		case <-idle.C:
			if more := a.timeout(begun); more > 0 {
				idle.Reset(more)
				continue
			}
			if a.giveUp() {
				if a.rank == 0 {
					a.missed()
					a.dismiss(context.Background())
				}
				return nil
			}
		case <-ended:
			// Its result is on the shared scratch: nobody needs this node.
			ended = nil
			time.AfterFunc(linger, a.finish)
		case <-a.end:
			a.stopNode()
			return nil
		}
	}
}

func (a *agent) finish() { a.once.Do(func() { close(a.end) }) }

func (a *agent) launched() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.node != nil
}

// giveUp has the agent start nothing any more, unless it has, or is about to.
func (a *agent) giveUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tired = a.node == nil && !a.bound
	return a.tired
}

// bind keeps the agent from giving up. False: it has.
func (a *agent) bind() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bound = !a.tired
	return a.bound
}

// announce writes where this agent is found and what its node offers.
func (a *agent) announce(port int) error {
	var err error
	if a.rank, err = strconv.Atoi(os.Getenv("SLURM_PROCID")); err != nil {
		return errors.New("SLURM_PROCID is not set: this is for srun to start")
	}
	slots := goruntime.NumCPU() // as far as Slurm lets us
	if n, err := strconv.Atoi(os.Getenv("SLURM_CPUS_ON_NODE")); err == nil && n > 0 {
		slots = min(slots, n)
	}
	name := os.Getenv("SLURMD_NODENAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	say := announcement{
		Job: os.Getenv("SLURM_JOB_ID"), Step: os.Getenv("SLURM_STEP_ID"), Restart: os.Getenv("SLURM_RESTART_COUNT"),
		Name: name, Slots: slots, Arch: goruntime.GOARCH,
	}
	if say.Addrs, err = wire.HostAddrs(port); err != nil {
		return err
	}
	if len(say.Addrs) == 0 { // a machine that is a whole cluster, without a network
		say.Addrs = []string{net.JoinHostPort("localhost", strconv.Itoa(port))}
	}
	a.self = say
	return writeJSON(announcementPath(a.dir, a.rank), say)
}

// notice is what a signal from Slurm means: that the job is released, or else
// that its nodes are about to be taken back. With some of Slurm's plugins the
// signal reaches every process of the job, with others the agent alone, which
// passes it on.
func (a *agent) notice() {
	if a.released() {
		a.finish()
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node == nil {
		a.finish()
		return
	}
	a.log.Info("Slurm takes this job's nodes back")
	a.node.Process.Signal(syscall.SIGTERM)
}

// released reports whether the lease was released. Where the scratch does not answer, it
// was not: a job that is notified of a preemption has time for its checkpoint, and one that is
// ended for good loses nothing by being notified.
func (a *agent) released() bool {
	asked, err := fsutil.Exists(filepath.Join(a.dir, releasedName))
	return err == nil && (asked || core.IsKind(kind().Check(a.dir), core.NotFound))
}

func (a *agent) accept(l net.Listener) {
	g := wire.Gate{Failed: func(err error) { a.log.Warn("accept a connection", "err", err) }}
	g.Serve(l, func(conn net.Conn, known func() bool) {
		defer conn.Close()
		if conn.(*tls.Conn).HandshakeContext(context.Background()) != nil || !known() {
			return // a stranger
		}
		peer, err := rpc.NewPeer(conn, false, "the controller", wire.Prompt, protocol)
		if err != nil {
			return
		}
		peer.Serve(context.Background(), a.server(), rpc.Caller{Role: rpc.Controller, Rank: -1})
	})
}

// server gives the calls that the agent answers.
func (a *agent) server() *rpc.Server {
	s := rpc.NewServer(a.log)
	rpc.Handle(s, callLaunch, func(_ context.Context, _ rpc.Caller, r launchRequest) (rpc.None, error) {
		return rpc.None{}, a.launch(r)
	})
	rpc.Handle(s, callAlive, func(context.Context, rpc.Caller, rpc.None) (bool, error) { return a.alive(), nil })
	rpc.HandleStream(s, callEnd, func(_ context.Context, _ rpc.Caller, _ rpc.None, to rpc.Answer[rpc.None]) error {
		a.stopNode()
		err := to.Reply(rpc.None{})
		time.AfterFunc(50*time.Millisecond, a.finish) // for the answer to be on its way
		return err
	})
	rpc.HandleStream(s, callDial, func(ctx context.Context, _ rpc.Caller, r dialRequest, to rpc.Answer[rpc.None]) error {
		conn, err := wire.DialSocket(ctx, r.Path)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := to.Reply(rpc.None{}); err != nil {
			return err
		}
		return wire.Splice(to, conn)
	})
	return s
}

// launch starts the node, once.
func (a *agent) launch(r launchRequest) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.node != nil {
		return nil // by a controller that did not notice it
	}
	if a.tired {
		return &core.Error{Kind: core.Lost, Op: "start node on", Object: a.self.Name, Err: errors.New("it is being given back"), Remedy: core.RemedyShow}
	}
	if a.rank == 0 {
		if err := a.mark(); err != nil && !core.IsKind(err, core.Busy) {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(r.Log), 0o700); err != nil {
		return err
	}
	log, err := fsutil.Append(r.Log, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	argv := r.Argv
	if len(argv) == 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv = []string{self, "node"}
	}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // it has a stop of its own
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", log, log
	cmd.Env = append(os.Environ(), core.NoticeVariable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	a.node = cmd
	go func() {
		procid.Reap(cmd) // however it ends, its result says it
		close(a.done)
	}()
	_, err = io.Copy(stdin, bytes.NewReader(r.Config))
	return errors.Join(err, stdin.Close())
}

func (a *agent) alive() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.done:
		return false
	default:
		return a.node != nil || !a.tired // it is still to be started
	}
}

// stopNode lets the node clear up, then kills it.
func (a *agent) stopNode() {
	a.mu.Lock()
	node := a.node
	a.mu.Unlock()
	if node == nil {
		return
	}
	node.Process.Signal(syscall.SIGINT)
	select {
	case <-a.done:
	case <-time.After(stopGrace):
		node.Process.Kill()
	}
}
