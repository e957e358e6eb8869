package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"golang.org/x/sys/unix"
)

// mostWrite bounds what the kernel writes or reads by one request, in bytes.
const mostWrite = 1 << 20

// client is the client of a mount, as the process sees it that has started it. nil: there is none.
type client struct {
	process *os.Process
	starter *os.File // ends with this process; nil: the client does not look for that
}

// endsWithStarter reports whether the client of a public mount ends with the process that has started it: nobody
// else on its host would end it.
func endsWithStarter(c burst.Config) bool { return !c.Private && (c.Alone || c.Afar) }

// startClient starts the client of a volume, and returns when programs can use the mount. A private one is made
// here, and its client is killed with this process.
func startClient(ctx context.Context, c burst.Config, binary string) (*client, error) {
	if !c.Private {
		return startPublic(ctx, c, binary)
	}
	f, err := mountns.Mount(c.Mount, "bee-"+c.ID, "default_permissions", fmt.Sprintf("max_read=%d", mostWrite))
	if err != nil {
		return nil, explain(c.Mount, err)
	}
	defer f.Close() // the client alone has it
	p, err := c.Start(ctx, binary, Command, burst.Inherited{Mount: f})
	if err != nil {
		return nil, errors.Join(err, unix.Unmount(c.Mount, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH))
	}
	return &client{process: p}, nil
}

func startPublic(ctx context.Context, c burst.Config, binary string) (*client, error) {
	if !endsWithStarter(c) {
		p, err := c.Start(ctx, binary, Command, burst.Inherited{})
		return &client{process: p}, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	p, err := c.Start(ctx, binary, Command, burst.Inherited{Starter: from})
	if err != nil {
		to.Close()
		return nil, err
	}
	return &client{p, to}, nil
}

// alive reports whether the client runs.
func (c *client) alive() bool { return c != nil && c.process.Signal(syscall.Signal(0)) == nil }

// end kills the client. What programs wait for fails then.
func (c *client) end() {
	if c != nil {
		c.process.Kill()
		c.starter.Close()
	}
}

// clientLock is a file in the directory of a record that its clients have locked. A host may hide from its user processes
// that hide their memory (hidepid of proc).
const clientLock = "client"

// lockClient has ClientRuns see this process as a client, until it unlocks the lock or ends.
func lockClient(c burst.Config) (*fsutil.Lock, error) {
	end := time.Now().Add(lockTime)
	for {
		lock, err := fsutil.TryLockShared(filepath.Join(c.Dir, clientLock))
		if !core.IsKind(err, core.Busy) || time.Now().After(end) {
			return lock, err
		}
		time.Sleep(10 * time.Millisecond) // who looks has it for a moment
	}
}

// lockTime bounds the wait for who looks for clients.
const lockTime = 10 * time.Second

// ClientRuns reports whether this user has a client here with the record in a directory. The mount itself is not asked:
// a client that hangs would never answer.
func ClientRuns(dir string) (bool, error) {
	name := filepath.Join(dir, clientLock)
	if there, err := fsutil.Exists(name); err != nil {
		return false, err
	} else if there {
		lock, err := fsutil.TryLockFor(name, fsutil.Momentary)
		if core.IsKind(err, core.Busy) {
			return true, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err == nil {
			lock.Unlock()
		}
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return false, err
	}
	for _, p := range processes {
		if mine(p.Name()) && isClientOf(p.Name(), dir) {
			return true, nil
		}
	}
	return false, nil
}

// mine reports whether a name of /proc is a process of this user. Command lines of others are not read. The files of a
// process that hides its memory are root's, so that its status is asked.
func mine(name string) bool {
	if _, err := strconv.Atoi(name); err != nil {
		return false
	}
	raw, err := os.ReadFile(filepath.Join("/proc", name, "status")) // an error: it has ended
	_, rest, is := bytes.Cut(raw, []byte("\nUid:"))
	uids := bytes.Fields(rest[:max(bytes.IndexByte(rest, '\n'), 0)]) // real, effective, …
	return err == nil && is && len(uids) > 1 && string(uids[1]) == strconv.Itoa(os.Geteuid())
}

// isClientOf reports whether a process is the client with the record in a directory.
func isClientOf(name, dir string) bool {
	raw, err := os.ReadFile(filepath.Join("/proc", name, "cmdline")) // an error: it has ended
	words := bytes.Split(raw, []byte{0})
	return err == nil && len(words) > 2 && string(words[1]) == Command && string(words[2]) == dir
}

// mountedAt gives the directory at which a client has a volume mounted.
func mountedAt(c burst.Config) (string, error) {
	if c.Mount == "" {
		return "", nil
	}
	id, err := At(c.Mount)
	if err != nil || id != c.ID {
		return "", err
	}
	return c.Mount, nil
}

// usedAt gives the directory at which a client has a volume mounted, or a client lives whose mount this process
// does not see.
func usedAt(ctx context.Context, c burst.Config) (string, error) {
	at, err := mountedAt(c)
	if err != nil || at != "" || !c.Private {
		return at, err
	}
	peer, err := c.Dial(ctx)
	if err != nil {
		return "", nil // without an I/O process there is no client for long
	}
	defer peer.Close()
	s, err := rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
	if err != nil || s.Clients == 0 {
		return "", nil // as above
	}
	return c.Mount, nil
}

// publicAt gives the directory at which a client has a volume mounted for all to see. Busy: a run uses a private mount,
// with which op cannot be done.
func publicAt(ctx context.Context, op string, c burst.Config) (string, error) {
	at, err := usedAt(ctx, c)
	if err == nil && at != "" && c.Private {
		return "", usedByRun(op, c)
	}
	return at, err
}

// errUses is about a private mount that is in use.
var errUses = errors.New("uses it")

// usedByRun refuses what cannot be done with a private mount that is in use.
func usedByRun(op string, c burst.Config) error {
	return &core.Error{
		Kind: core.Busy, Op: op, Object: c.Remote, Err: fmt.Errorf("run %s %w", c.Of, errUses),
		Remedy: "Wait until that is over, or end it: `bee stop " + c.Of + "`.",
	}
}
