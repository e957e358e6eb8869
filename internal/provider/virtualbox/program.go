package virtualbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Limits of a call.
const (
	cancelTime = 5 * time.Second  // from the request to end until the program is killed
	askTime    = 30 * time.Second // what only asks
	changeTime = 2 * time.Minute  // what changes a machine
	cloneTime  = 30 * time.Minute // what copies its disk
	mostOutput = 1 << 20
)

// caller calls VBoxManage.
type caller interface {
	call(ctx context.Context, limit time.Duration, l line) (string, error)
}

// program is VBoxManage.
type program struct{ path string }

// call runs a line within a limit of time, and returns what it wrote to its standard output. At the end of ctx, or of
// the time, the program is asked to end, as its service continues else what it has begun; then it is killed.
func (p program) call(ctx context.Context, limit time.Duration, l line) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c := exec.CommandContext(context.WithoutCancel(ctx), p.path, l...)
	c.Env = append(os.Environ(), "LC_ALL=C")
	// A terminal's Ctrl-C is bee's. A program that outlives bee would make a guest that nobody knows of; the signal is tied
	// to the thread that starts it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c.WaitDelay = time.Second // its service may hold its output
	var out, words bytes.Buffer
	stdout := &core.Limited{W: &out, Left: mostOutput}
	c.Stdout, c.Stderr = stdout, &core.Limited{W: &words, Left: mostOutput}
	err := bounded.Err()
	if err == nil {
		err = c.Start()
	}
	if err == nil {
		err = await(bounded, c)
	}
	failed := func(kind core.Kind, err error, remedy string) error {
		return &core.Error{Kind: kind, Op: "run", Object: l.verb(), Err: err, Remedy: remedy}
	}
	switch {
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case bounded.Err() != nil:
		return "", failed(core.Transient, fmt.Errorf("it has not ended within %s", limit), "Does `VBoxManage list vms` answer? Its service VBoxSVC may hang.")
	case errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist):
		return "", failed(core.Unsupported, errors.New("VirtualBox is not installed here"), "Install VirtualBox 6.1 or later, so that VBoxManage is in your PATH.")
	case errors.Is(err, exec.ErrWaitDelay): // its service holds the output
		err = nil
	}
	if err != nil {
		return "", failed(core.Unsupported, errors.New(printedError(words.String(), err)), "The words are VirtualBox's; see whether `VBoxManage "+l[0]+"` works by hand.")
	}
	if stdout.Left <= 0 {
		return "", failed(core.Permanent, fmt.Errorf("it has printed more than %d bytes", mostOutput), "Is that program VirtualBox's VBoxManage?")
	}
	return out.String(), nil
}

// await waits for the end of a program. At the end of ctx it gets a signal, and some time later all that it has started
// is killed.
func await(ctx context.Context, c *exec.Cmd) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	group := -c.Process.Pid // it has not been waited for, or is a moment ago
	core.BestEffort(syscall.Kill(group, syscall.SIGINT))
	late := time.NewTimer(cancelTime)
	defer late.Stop()
	select {
	case err := <-ended:
		return err
	case <-late.C:
		core.BestEffort(syscall.Kill(group, syscall.SIGKILL))
	}
	return <-ended
}

// printedError returns what VBoxManage printed of an error, in one line.
func printedError(words string, err error) string {
	var texts []string
	for line := range strings.Lines(words) {
		if text := strings.TrimPrefix(strings.TrimSpace(line), "VBoxManage: error: "); text != "" && len(texts) < 4 {
			texts = append(texts, core.Printable(text, 300))
		}
	}
	if len(texts) == 0 {
		return err.Error()
	}
	return strings.Join(texts, "; ")
}
