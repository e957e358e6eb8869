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

// checkTerminal refuses to lend a terminal where there is none.
func checkTerminal() error {
	if term.IsTerminal(int(os.Stdin.Fd())) {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "give the command a terminal", Err: errors.New("standard input is none"), Remedy: "Leave out -t, or run it from a terminal."}
}

// terminalSize returns rows and columns of this process's terminal.
func terminalSize() [2]uint16 {
	cols, rows, err := term.GetSize(int(os.Stdin.Fd()))
	if err != nil {
		return [2]uint16{24, 80}
	}
	return [2]uint16{uint16(rows), uint16(cols)}
}

// rawTerminal has this process's terminal pass every key on. What it returns ends that.
func rawTerminal() (restore func(), err error) {
	fd := int(os.Stdin.Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, err
	}
	return func() { term.Restore(fd, before) }, nil //nolint:errcheck // the terminal may be gone
}

// resizes gets a value when the size of this process's terminal has changed, until stop is
// called.
func resizes() (changed <-chan struct{}, stop func()) {
	signals, done, sizes := make(chan os.Signal, 1), make(chan struct{}), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-signals:
			case <-done:
				return
			}
			select {
			case sizes <- struct{}{}:
			default: // the reader asks for the size as it is then
			}
		}
	}()
	return sizes, func() {
		signal.Stop(signals)
		close(done)
	}
}

// ownTerminal gives this process's terminal to a command that runs elsewhere:
// every key goes there, and its size is followed. What it returns gives the
// terminal back.
func ownTerminal(r *nodecall.ExecRequest) (restore func(), err error) {
	if err := checkTerminal(); err != nil {
		return nil, err
	}
	now := terminalSize()
	r.Rows, r.Cols = now[0], now[1]
	// Programs ask what their terminal can do by this variable.
	r.Env = append([]string{"TERM=" + os.Getenv("TERM")}, r.Env...)
	cooked, err := rawTerminal()
	if err != nil {
		return nil, err
	}
	changed, stop := resizes()
	sizes, done := make(chan [2]uint16), make(chan struct{})
	r.Resized = sizes
	go func() {
		for {
			select {
			case <-changed:
			case <-done:
				return
			}
			select {
			case sizes <- terminalSize():
			case <-done:
				return
			}
		}
	}()
	return func() {
		stop()
		close(done)
		cooked()
	}, nil
}
