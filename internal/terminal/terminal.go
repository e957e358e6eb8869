// Package terminal makes pseudo-terminals, and takes those that another process has made.
// It knows nothing of the programs on them.
package terminal

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// End is the end of a terminal that stands for its keys and its screen.
type End struct{ *os.File }

// Open makes a terminal in the /dev/pts of this process, with its other end, which is a
// program's. Zero rows or columns leave its size unset.
func Open(rows, cols uint16) (*End, *os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: open /dev/ptmx: %w", err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("make a terminal: unlock it: %w", err)
	}
	// By its name it might be another one, where /dev/pts is not that of /dev/ptmx.
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		unix.Close(fd)
		return nil, nil, fmt.Errorf("make a terminal: open its other end: %w", errno)
	}
	end, program := &End{os.NewFile(uintptr(fd), "terminal")}, os.NewFile(peer, "terminal")
	if rows > 0 && cols > 0 {
		if err := end.Resize(rows, cols); err != nil {
			return nil, nil, errors.Join(err, end.Close(), program.Close())
		}
	}
	return end, program, nil
}

// Received returns the end of a terminal whose descriptor another process has sent, and
// closes what is none.
func Received(fd int) (*End, error) {
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("take a terminal: the descriptor is no end of one: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that Close ends a Read
		unix.Close(fd)
		return nil, fmt.Errorf("take a terminal: %w", err)
	}
	return &End{os.NewFile(uintptr(fd), "terminal")}, nil
}

// Resize sets the size of the terminal, and reports it to the programs on it.
func (e *End) Resize(rows, cols uint16) error {
	conn, err := e.SyscallConn()
	if err != nil {
		return fmt.Errorf("set the size of a terminal: %w", err)
	}
	cerr := conn.Control(func(fd uintptr) {
		err = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err := errors.Join(cerr, err); err != nil {
		return fmt.Errorf("set the size of a terminal: %w", err)
	}
	return nil
}
