package emulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// world is everything a holder holds.
type world struct {
	spec  Spec
	hosts []*host
	notes []string
	log   *slog.Logger
	net   *network

	mu    sync.Mutex
	procs map[int]*process // running, by number
	ended []Proc
}

// readyFD is where the holder reports that it is ready, or why not.
const readyFD = 3

// HolderMain is the entry point of a holder; see HolderArg. Its only
// argument is the state directory, for people who look at the process list.
func HolderMain(args []string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ready := os.NewFile(readyFD, "ready")
	unix.CloseOnExec(readyFD)
	if os.Getpid() != 1 || len(args) != 1 {
		fmt.Fprintln(os.Stderr, "bee: this is an internal command: the local provider starts it")
		return 2
	}
	// The end of the terminal or the session is not the end of the hosts. What were
	// ignored would stay so in all that runs on them.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTOU, unix.SIGTTIN)
	var spec Spec
	if err := json.NewDecoder(os.Stdin).Decode(&spec); err != nil {
		log.Error("no configuration: the process that started this holder has ended", "error", err)
		return 1
	}
	w := &world{spec: spec, log: log, procs: map[int]*process{}}
	listener, err := w.begin()
	if err != nil {
		_ = json.NewEncoder(ready).Encode(reply{Error: err.Error(), Kind: kindOf(err).String()})
		return 1
	}
	if err := json.NewEncoder(ready).Encode(w.describe()); err != nil {
		return 1 // nobody is left who wants the hosts
	}
	_ = ready.Close()
	go w.reap()
	w.serve(listener)
	return 0
}

func (w *world) begin() (*net.UnixListener, error) {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = unix.Dup2(int(null.Fd()), 0)
		_ = null.Close()
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return nil, fmt.Errorf("mount /proc: %w", err)
	}
	if err := w.up(); err != nil {
		return nil, err
	}
	return listen(filepath.Join(w.spec.Dir, socketName))
}

func (w *world) describe() reply {
	r := reply{Notes: w.notes}
	for _, h := range w.hosts {
		r.Hosts = append(r.Hosts, Host{Hostname: h.spec.Hostname, Addr: h.addr.String()})
	}
	return r
}

// listen makes the socket through its directory's descriptor; see dialUnix.
func listen(path string) (*net.UnixListener, error) {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	_ = os.Remove(path)
	name := fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	return l, os.Chmod(name, 0o600)
}

func (w *world) serve(l *net.UnixListener) {
	g := wire.Gate{Failed: func(err error) { w.log.Error("accept", "error", err) }}
	g.Serve(l, func(c net.Conn, known func() bool) {
		if u, is := c.(*net.UnixConn); is {
			w.handle(u, known)
		}
	})
}

func (w *world) handle(c *net.UnixConn, known func() bool) {
	defer c.Close()
	if err := checkPeer(c); err != nil {
		w.log.Error("refused", "error", err)
		return
	}
	known()
	var q request
	files, err := receive(c, &q)
	if err != nil {
		return
	}
	r, give, err := w.do(c, q, files)
	if err != nil {
		r = reply{Error: err.Error(), Kind: kindOf(err).String()}
	}
	if give != nil {
		err = send(c, r, give)
		_ = give.Close()
	} else {
		err = send(c, r)
	}
	if err != nil {
		w.log.Info("the client has gone", "op", q.Op)
	}
}

func kindOf(err error) core.Kind {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS) {
		return core.Unsupported
	}
	return core.KindOf(err)
}

// checkPeer lets in nobody but the user who owns the hosts.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return err
	}
	if cerr != nil {
		return cerr
	}
	if int(cred.Uid) != os.Geteuid() {
		return fmt.Errorf("user %d may not use the hosts of user %d", cred.Uid, os.Geteuid())
	}
	return nil
}

// do carries out one request; a file that it gives goes along with the reply.
func (w *world) do(c *net.UnixConn, q request, files []*os.File) (reply, *os.File, error) {
	defer closeAll(files)
	host := q.Host
	if q.Command != nil {
		host = q.Command.Host
	}
	if host < 0 || host >= len(w.hosts) {
		return reply{}, nil, &core.Error{Kind: core.Invalid, Err: fmt.Errorf("there is no host %d, only 0 to %d", host, len(w.hosts)-1)}
	}
	h := w.hosts[host]
	switch q.Op {
	case opHosts:
		return w.describe(), nil, nil
	case opProcs:
		return reply{Procs: w.list()}, nil, nil
	case opLaunch:
		pid, err := w.launch(h, q.Command)
		return reply{PID: pid}, nil, err
	case opRun:
		exit, err := w.run(c, h, q.Command, files)
		return reply{Exit: exit}, nil, err
	case opLink:
		return reply{}, nil, w.net.link(h, q.Up)
	case opApart:
		return reply{}, nil, w.net.apart(h, q.Apart)
	case opKill:
		return reply{}, nil, w.kill(h)
	case opDial:
		f, err := dialTCP(q.Addr)
		return reply{}, f, err
	}
	return reply{}, nil, &core.Error{Kind: core.Invalid, Err: fmt.Errorf("unknown request %q", q.Op)}
}

// dialTCP connects from the holder's own network, where the bridge is.
func dialTCP(addr string) (*os.File, error) {
	c, err := net.Dial("tcp", addr) //nolint:noctx // the caller waits no longer than he wants to
	if err != nil {
		return nil, &core.Error{Kind: core.Transient, Err: err}
	}
	defer c.Close()
	return c.(*net.TCPConn).File()
}
