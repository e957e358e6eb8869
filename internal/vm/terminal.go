package vm

import (
	"errors"
	"io"
)

// terminal stands for a terminal in a guest, whose kernel makes the real one.
type terminal struct {
	keys    *io.PipeWriter
	typed   *io.PipeReader
	screen  *io.PipeReader
	shown   *io.PipeWriter
	resized chan<- [2]uint16
	done    <-chan struct{}
}

func newTerminal(resized chan<- [2]uint16, done <-chan struct{}) *terminal {
	t := &terminal{resized: resized, done: done}
	t.typed, t.keys = io.Pipe()
	t.screen, t.shown = io.Pipe()
	return t
}

// Read implements driver.Terminal.
func (t *terminal) Read(b []byte) (int, error) { return t.screen.Read(b) }

// Write implements driver.Terminal.
func (t *terminal) Write(b []byte) (int, error) { return t.keys.Write(b) }

// Close implements driver.Terminal.
func (t *terminal) Close() error { return errors.Join(t.keys.Close(), t.screen.Close()) }

// Resize implements driver.Terminal.
func (t *terminal) Resize(rows, cols uint16) error {
	select {
	case t.resized <- [2]uint16{rows, cols}:
	case <-t.done:
	}
	return nil
}

// end reports to the reader and the writer that the terminal has gone.
func (t *terminal) end() {
	t.shown.Close()
	t.typed.Close()
}
