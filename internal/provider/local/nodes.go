package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/reservation"
	"golang.org/x/sys/unix"
)

// nodeRecord is the file in the lease's directory that names a node's process.
const nodeRecord = "node"

// stopGrace is how long a node that is asked to end may take to clear up.
const stopGrace = 3 * time.Second

// markVariable, in the environment of a node and whatever it starts, reports
// the lease's directory.
const markVariable = "BEE_LEASE"

// Launch starts a node. The node gets its configuration only after its process was
// recorded: were we killed in between, it would read an early end and give up.
func (l *lease) Launch(ctx context.Context, c driver.NodeCommand) error {
	if err := l.checkHost("launch node on", c.Host); err != nil {
		return err
	}
	h := l.details.Hosts[c.Host]
	err := os.MkdirAll(filepath.Dir(c.Log), 0o700)
	if err == nil {
		err = l.hold(true)
	}
	switch {
	case err != nil:
	case l.details.Emulated:
		err = l.launchEmulated(ctx, h, c)
	default:
		err = l.launchHere(ctx, h, c)
	}
	if err != nil {
		return l.fail("launch node on", c.Host, err)
	}
	return nil
}

func (l *lease) nodeArgv() (binary string, argv []string) {
	if len(l.argv) > 0 {
		return l.argv[0], l.argv
	}
	if l.details.Binary != "" {
		return l.details.Binary, []string{"bee", "node"}
	}
	return "/proc/self/exe", []string{"bee", "node"}
}

func (l *lease) mark() string { return markVariable + "=" + l.dir }

// env is a node's. Where there are more of them than processors, each uses one:
// that its work spreads over several costs it something, and gains nothing.
func (l *lease) env() []string {
	env := append(os.Environ(), l.mark())
	if l.ledger != "" && l.details.Reserved != "" {
		env = append(env, reservation.Variable+"="+l.ledger.Path(l.details.Reserved))
	}
	if l.details.Emulated && len(l.details.Hosts) > runtime.NumCPU() {
		env = append(env, "GOMAXPROCS=1")
	}
	return env
}

func (l *lease) launchEmulated(ctx context.Context, h core.Host, n driver.NodeCommand) error {
	c, err := emulate.Open(ctx, l.dir)
	if err != nil {
		return err
	}
	binary, argv := l.nodeArgv()
	_, err = c.Launch(ctx, emulate.Command{Host: h.Index, Path: binary, Argv: argv, Env: l.env(), Tag: nodeRecord, Stdin: n.Config, Log: n.Log})
	return err
}

// launchHere starts a node on this machine.
func (l *lease) launchHere(ctx context.Context, h core.Host, c driver.NodeCommand) error {
	log, err := fsutil.Append(c.Log, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	binary, argv := l.nodeArgv()
	cmd := exec.Command(binary) //nolint:noctx // it outlives this process
	cmd.Args, cmd.Env, cmd.Dir = argv, l.env(), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout, cmd.Stderr = log, log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// Without it, it would stay a zombie as long as we live.
	defer func() { go func() { _ = cmd.Wait() }() }() // not earlier: see order
	return l.order(ctx, h, c, cmd, stdin)
}

// order records a node that has been started, and sends its configuration.
func (l *lease) order(ctx context.Context, h core.Host, c driver.NodeCommand, cmd *exec.Cmd, stdin io.WriteCloser) error {
	id, err := procid.Of(cmd.Process.Pid)
	if err == nil {
		err = os.WriteFile(l.nodePath(h.Index), []byte(id.String()), 0o600)
	}
	if err != nil {
		return errors.Join(err, cmd.Process.Kill())
	}
	// A node that does not read blocks us only once the pipe is full.
	stop := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	defer stop()
	if _, err := stdin.Write(c.Config); err != nil {
		return fmt.Errorf("the node ended before it took its configuration: %w%s", err, tail(c.Log))
	}
	// Where the node has ended since, Wait has closed it already.
	_ = stdin.Close()
	return nil
}

// longestTail is how much of a log an error message shows, in bytes.
const longestTail = 1000

// tail is the end of a log, for an error message.
func tail(path string) string {
	b, err := fsutil.Tail(filepath.Dir(path), filepath.Base(path), longestTail)
	if err != nil {
		return ""
	}
	if text := strings.TrimSpace(core.Printable(string(b), 10*longestTail)); text != "" {
		return ": " + text
	}
	return ""
}

func (l *lease) nodePath(host int) string {
	return filepath.Join(l.dir, nodeRecord+strconv.Itoa(host))
}

// NodeAlive reports whether the node that was launched on a host still runs.
func (l *lease) NodeAlive(ctx context.Context, host int) (bool, error) {
	if err := l.checkHost("look for node on", host); err != nil {
		return false, err
	}
	if !l.details.Emulated {
		id, err := readNode(l.nodePath(host))
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return err == nil && id.Alive(), err
	}
	c, err := emulate.Open(ctx, l.dir)
	if core.IsKind(err, core.NotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	procs, err := c.Procs(ctx)
	for _, p := range procs {
		if p.Host == host && p.Tag == nodeRecord && p.Exit == nil {
			return true, nil
		}
	}
	return false, err
}

func readNode(path string) (procid.ID, error) {
	b, err := readNodeRecord(path)
	if err != nil {
		return procid.ID{}, err
	}
	return procid.Parse(string(b))
}

// mostNode bounds the record of a node, in bytes.
const mostNode = 1000

func readNodeRecord(path string) ([]byte, error) {
	return fsutil.ReadFile(filepath.Dir(path), filepath.Base(path), mostNode)
}

// stopNodes ends all nodes that were launched on this machine itself.
func (l *lease) stopNodes(ctx context.Context) error {
	records, err := filepath.Glob(filepath.Join(fsutil.QuoteGlob(l.dir), nodeRecord+"[0-9]*"))
	if err != nil {
		return err
	}
	errs := make([]error, len(records))
	var wg sync.WaitGroup
	for i, path := range records {
		wg.Go(func() { errs[i] = l.stopNode(ctx, path) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// stopNode lets a node clear up, then kills it and what is left of its session.
func (l *lease) stopNode(ctx context.Context, path string) error {
	raw, err := readNodeRecord(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err // it may run
	}
	id, err := procid.Parse(string(raw))
	if err != nil {
		return nil // a torn record: the node got no configuration and has ended
	}
	found, err := id.Signal(unix.SIGTERM)
	if err != nil {
		return err
	}
	if found {
		grace, cancel := context.WithTimeout(ctx, stopGrace)
		defer cancel()
		if id.Wait(grace) != nil {
			if err := id.Kill(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
	}
	return l.killSession(id.PID)
}

// killSession kills what a node left behind in its session. A session's
// number is given to no stranger as long as it has members; the mark in their
// environment makes sure of it.
func (l *lease) killSession(sid int) error {
	if unix.Kill(-sid, 0) != nil {
		return nil // the usual case: nothing is left
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	mark := "\x00" + l.mark() + "\x00"
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := unix.Getsid(pid); err != nil || s != sid {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !strings.Contains("\x00"+string(env), mark) {
			continue
		}
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	return nil
}
