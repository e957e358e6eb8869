package burst

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

// Command is the first argument of an I/O process; the volume's directory follows.
const Command = "volume-io"

const (
	// reportFD is the descriptor on which a background process reports how its start went.
	reportFD = 3
	// MountFD is that of the file system of a client, where the process that starts it has mounted that.
	MountFD = 4
	// starterFD is that of Inherited.Starter.
	starterFD = 5
)

// Inherited are files that a background process gets from the one that starts it. Each may be nil.
type Inherited struct {
	// Mount is a file system that was mounted for a client. That is killed when the process that starts it ends.
	Mount *os.File
	// Starter is a pipe whose other end that process alone has.
	Starter *os.File
}

// StarterEnded returns a channel that is closed once the process has ended that has started this one with a pipe.
func StarterEnded() <-chan struct{} {
	ended := make(chan struct{})
	syscall.CloseOnExec(starterFD)
	pipe := os.NewFile(starterFD, "starter")
	go func() {
		defer close(ended)
		core.BestEffort(pipe.Read(make([]byte, 1))) // it ends, and nobody writes
	}()
	return ended
}

// report writes to the process that has started this one how the start went.
func report(err error) {
	f := os.NewFile(reportFD, "report")
	raw, merr := json.Marshal(rpc.Fail(err))
	if merr != nil {
		raw = []byte("{}")
	}
	core.BestEffort(f.Write(raw)) // who has started us may have gone
	f.Close()
}

// Background is the main function of a background process of a volume, whose directory is
// its only argument. It reports once how its start went: run calls ready when it works.
func Background(name string, args []string, run func(c Config, log *slog.Logger, ready func()) error) int {
	syscall.CloseOnExec(reportFD)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("process", name)
	if len(args) != 1 {
		return 2
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	ready := false
	err := core.Caught(func() error {
		c, err := Load(args[0])
		if err != nil {
			return err
		}
		if c.Keys, err = receiveKeys(os.Stdin); err != nil {
			return err
		}
		return run(c, log, func() { ready = true; report(nil) })
	})
	if !ready {
		report(err)
	}
	if err != nil {
		log.Error("end", "err", err)
		return 1
	}
	return 0
}

// Main is the I/O process. far opens a remote behind ssh.
func Main(args []string, far remote.Opener) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	debug.SetGCPercent(garbage)
	return Background("I/O", args, func(c Config, log *slog.Logger, ready func()) error {
		return Serve(ctx, c, far, log, ready)
	})
}

// Start starts a background process of a volume, which outlives this one, and returns when
// it works, or with the reason why it does not. Once ctx ends, an I/O process is left to its start, which may wait for
// a remote, and a client is killed.
func (c Config) Start(ctx context.Context, binary, command string, with Inherited) (*os.Process, error) {
	if err := logfile.Rotate(c.LogPath(), logfile.Limit); err != nil {
		return nil, err
	}
	log, err := fsutil.Append(c.LogPath(), 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	p := exec.Command(binary, command, c.Dir) //nolint:noctx // it outlives us
	p.Stdout, p.Stderr, p.ExtraFiles = log, log, []*os.File{to, with.Mount, with.Starter}
	p.Dir = "/"
	p.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if with.Mount != nil {
		p.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	send, err := c.sendKeys(p)
	if err != nil {
		to.Close()
		return nil, err
	}
	mountns.Outside(func() { err = p.Start() }) // it keeps no mount
	to.Close()
	send(err == nil)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { core.BestEffort(from.SetReadDeadline(time.Now())) })()
	raw, err := io.ReadAll(io.LimitReader(from, 1<<20))
	if err != nil && command != Command {
		p.Process.Kill()
	}
	go procid.Reap(p) // it is no zombie while we live
	if ctx.Err() != nil && err != nil {
		err = fmt.Errorf("start process of volume %s: %w", c.ID, context.Cause(ctx))
	}
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, &core.Error{Kind: core.Permanent, Op: "start process of volume", Object: c.ID, Err: errors.New("it has ended without a word"), Remedy: "Read " + c.LogPath() + "."}
	}
	failure, err := rpc.Decode[rpc.Failure](raw)
	if err != nil {
		return nil, err
	}
	return p.Process, failure.Err()
}

// Dial connects with the I/O process, if it runs.
func (c Config) Dial(ctx context.Context) (*rpc.Peer, error) {
	peer, _, err := c.DialProcess(ctx)
	return peer, err
}

// DialProcess is Dial, with the I/O process; 0: that is not known.
func (c Config) DialProcess(ctx context.Context) (*rpc.Peer, int, error) {
	conn, err := c.DialConn(ctx)
	if err != nil {
		return nil, 0, err
	}
	peer, err := rpc.Dial(conn, "the I/O process of volume "+c.ID, wire.Local, calls.Protocol)
	if err != nil {
		conn.Close()
	}
	return peer, wire.PeerPID(conn), err
}

// mostFree is how often in a row the lock of a volume is free before a Busy process means the remote: others have that
// lock for moments, such as to look at the buffer.
const mostFree = 3

// Connect connects with the I/O process, and starts it where it does not run. It then has this process's keys.
func (c Config) Connect(ctx context.Context, binary string) (*rpc.Peer, error) {
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: time.Second}
	free := 0
	for {
		peer, err := c.Dial(ctx)
		if err == nil {
			if err = c.PassKeys(ctx, peer); err == nil {
				err = c.passRelay(ctx, peer)
			}
			if err == nil {
				return peer, nil
			}
			peer.Close()
			if !core.IsKind(err, core.Lost) { // else it has just ended
				return nil, err
			}
		}
		_, err = c.Start(ctx, binary, Command, Inherited{})
		if err != nil && !core.IsKind(err, core.Busy) {
			return nil, err
		}
		if err != nil {
			lock, busy := c.Lock()
			if busy == nil {
				lock.Unlock()
				free++
			} else {
				free = 0
			}
			if free == mostFree { // so it is the remote that another volume uses
				return nil, err
			}
		}
		if err := pause.Wait(ctx); err != nil {
			return nil, fmt.Errorf("connect with the I/O process of volume %s: %w", c.ID, err)
		}
	}
}
