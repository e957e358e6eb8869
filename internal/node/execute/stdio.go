package execute

import (
	"fmt"
	"os"

	"github.com/bee-hpc/bee/internal/node/nodecall"
	"golang.org/x/sys/unix"
)

// stdio holds both ends of a command's standard streams: pipes, or a terminal.
type stdio struct {
	theirs                [3]*os.File
	stdin, stdout, stderr *os.File // ours; stderr is nil with a terminal
	tty                   bool
	all                   []*os.File
}

func openStdio(r nodecall.ExecRequest) (stdio, error) {
	if r.TTY {
		return openTerminal(r.Rows, r.Cols)
	}
	s := stdio{}
	for i, ours := range []**os.File{&s.stdin, &s.stdout, &s.stderr} {
		rd, wr, err := os.Pipe()
		if err != nil {
			s.close()
			return stdio{}, err
		}
		s.all = append(s.all, rd, wr)
		s.theirs[i], *ours = wr, rd
		if i == 0 {
			s.theirs[i], *ours = rd, wr
		}
	}
	return s, nil
}

// openTerminal makes a pseudo-terminal. It is the host's: the container's own
// /dev/pts is not ours to open, and a descriptor needs no name.
func openTerminal(rows, cols uint16) (stdio, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return stdio{}, fmt.Errorf("make a terminal: %w", err)
	}
	s := stdio{tty: true, stdin: master, stdout: master, all: []*os.File{master}}
	conn, err := master.SyscallConn()
	if err != nil {
		s.close()
		return stdio{}, err
	}
	var slave uintptr
	cerr := conn.Control(func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err != nil {
			return
		}
		var errno unix.Errno
		slave, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
		if errno != 0 {
			err = errno
		}
	})
	if err == nil {
		err = cerr
	}
	if err != nil {
		s.close()
		return stdio{}, fmt.Errorf("make a terminal: %w", err)
	}
	peer := os.NewFile(slave, "terminal")
	s.all = append(s.all, peer)
	s.theirs = [3]*os.File{peer, peer, peer}
	s.resize(rows, cols)
	return s, nil
}

// started closes their ends, which the command has now.
func (s *stdio) started() {
	for _, f := range s.theirs {
		f.Close()
	}
}

// endInput tells the command that its input is over.
func (s *stdio) endInput() {
	if s.tty {
		s.stdin.Write([]byte{4}) //nolint:errcheck // control-D; the program may have ended
		return
	}
	s.stdin.Close()
}

func (s *stdio) resize(rows, cols uint16) {
	if !s.tty || rows == 0 || cols == 0 {
		return
	}
	if conn, err := s.stdin.SyscallConn(); err == nil {
		conn.Control(func(fd uintptr) { //nolint:errcheck // the size is a courtesy
			unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols}) //nolint:errcheck // see above
		})
	}
}

func (s *stdio) close() {
	for _, f := range s.all {
		f.Close()
	}
}
