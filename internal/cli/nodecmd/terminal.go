package nodecmd

import (
	"os"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// ownTerminal gives this process's terminal to a command that runs elsewhere:
// every key goes there, and its size is followed. What it returns gives the
// terminal back.
func ownTerminal(r *nodecall.ExecRequest) (restore func(), err error) {
	if err := console.CheckTerminal(); err != nil {
		return nil, err
	}
	now := console.TerminalSize()
	r.Rows, r.Cols = now[0], now[1]
	// Programs ask what their terminal can do by this variable.
	r.Env = append([]string{"TERM=" + os.Getenv("TERM")}, r.Env...)
	cooked, err := console.RawTerminal()
	if err != nil {
		return nil, err
	}
	changed, stop := console.Resizes()
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
			case sizes <- console.TerminalSize():
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
