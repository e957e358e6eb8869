package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"golang.org/x/term"
)

// ownTerminal gives this process's terminal to a command that runs elsewhere:
// every key goes there, and its size is followed. What it returns gives the
// terminal back.
func ownTerminal(r *nodecall.ExecRequest) (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return nil, &core.Error{Kind: core.Invalid, Op: "give the command a terminal", Err: errors.New("standard input is none"), Remedy: "Leave out -t, or run it from a terminal."}
	}
	size := func() [2]uint16 {
		cols, rows, err := term.GetSize(fd)
		if err != nil {
			return [2]uint16{24, 80}
		}
		return [2]uint16{uint16(rows), uint16(cols)}
	}
	now := size()
	r.Rows, r.Cols = now[0], now[1]
	// Programs ask what their terminal can do by this variable.
	r.Env = append([]string{"TERM=" + os.Getenv("TERM")}, r.Env...)
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	changed, done, sizes := make(chan os.Signal, 1), make(chan struct{}), make(chan [2]uint16, 1)
	r.Resized = sizes
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-changed:
			case <-done:
				return
			}
			select {
			case sizes <- size():
			case <-done:
				return
			}
		}
	}()
	return func() {
		signal.Stop(changed)
		close(done)
		term.Restore(fd, before) //nolint:errcheck // the terminal may be gone
	}, nil
}
