package execute

import (
	"errors"
	"io"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/nodecall"
)

// stdio is a command's standard streams: pipes, or the terminal that comes with its process.
type stdio struct {
	theirs         [3]*os.File
	stdin          io.WriteCloser
	stdout, stderr io.Reader // stderr is nil with a terminal
	// size is set where the command gets a terminal, which is nil before it has started.
	size     *driver.TerminalSize
	terminal driver.Terminal
	all      []*os.File
}

func openStdio(r nodecall.ExecRequest) (stdio, error) {
	if r.TTY {
		return stdio{size: &driver.TerminalSize{Rows: r.Rows, Cols: r.Cols}}, nil
	}
	var s stdio
	var ours [3]*os.File
	for i := range ours {
		rd, wr, err := os.Pipe()
		if err != nil {
			s.close()
			return stdio{}, err
		}
		s.all = append(s.all, rd, wr)
		s.theirs[i], ours[i] = wr, rd
		if i == 0 {
			s.theirs[i], ours[i] = rd, wr
		}
	}
	s.stdin, s.stdout, s.stderr = ours[0], ours[1], ours[2]
	return s, nil
}

// started closes their ends, which the command has now, or takes its terminal.
func (s *stdio) started(p driver.Process) error {
	for _, f := range s.theirs {
		f.Close()
	}
	if s.size == nil {
		return nil
	}
	t := p.Terminal()
	if t == nil {
		return errors.New("its runtime has made no terminal")
	}
	s.terminal, s.stdin, s.stdout = t, t, t
	return nil
}

// endInput reports to the command that its input is over.
func (s *stdio) endInput() {
	if s.terminal != nil {
		core.BestEffort(s.stdin.Write([]byte{4})) // control-D; the program may have ended
		return
	}
	s.stdin.Close()
}

func (s *stdio) resize(rows, cols uint16) {
	if s.terminal != nil && rows > 0 && cols > 0 {
		core.BestEffort(s.terminal.Resize(rows, cols)) // the size is a courtesy
	}
}

func (s *stdio) close() {
	for _, f := range s.all {
		f.Close()
	}
	if s.terminal != nil {
		s.terminal.Close()
	}
}
