package drivertest

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// terminal runs a command on a terminal: it sees the size, and what is typed
// reaches it as signals do.
func (s RuntimeSuite) terminal(t *testing.T) {
	box, _ := s.shared.start()
	ours, theirs := openTerminal(t)
	defer ours.Close()
	if err := unix.IoctlSetWinsize(int(theirs.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 33, Col: 77}); err != nil {
		t.Fatal(err)
	}
	p, err := box.Exec(t.Context(), driver.Command{
		Args: []string{"sh", "-c", "test -t 0 -a -t 1 -a -t 2 && stty size && echo up && exec cat"}, Env: []string{"PATH=/bin:/usr/bin"},
		Stdin: theirs, Stdout: theirs, Stderr: theirs, TTY: true,
	})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := ours.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	said, piece := "", make([]byte, 256)
	for !strings.Contains(said, "up") {
		n, err := ours.Read(piece)
		if err != nil {
			t.Fatalf("after %q: %v", said, err)
		}
		said += string(piece[:n])
	}
	if !strings.Contains(said, "33 77") {
		t.Errorf("it says %q, not the terminal's size", said)
	}
	if _, err := ours.WriteString("\x03"); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != int(syscall.SIGINT) {
		t.Errorf("after Ctrl-C: %+v, %v", exit, err)
	}
}

// openTerminal makes a terminal: our end, and that of the program on it.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours = os.NewFile(uintptr(fd), "terminal")
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	peer, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		t.Fatal(errno)
	}
	return ours, os.NewFile(peer, "terminal")
}
