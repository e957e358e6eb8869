package terminal

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTerminal(t *testing.T) {
	made, program, err := Open(33, 77)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	fd, err := unix.Dup(int(made.Fd())) // as another process gets it
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	end, err := Received(fd)
	if err != nil {
		t.Fatal(err)
	}
	size := func() unix.Winsize {
		w, err := unix.IoctlGetWinsize(int(program.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			t.Fatal(err)
		}
		return *w
	}
	if w := size(); w.Row != 33 || w.Col != 77 {
		t.Errorf("its size is %+v", w)
	}
	if err := end.Resize(44, 88); err != nil {
		t.Fatal(err)
	}
	if w := size(); w.Row != 44 || w.Col != 88 {
		t.Errorf("its size is then %+v", w)
	}
	if path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(program.Fd()))); err != nil || !strings.HasPrefix(path, "/dev/pts/") {
		t.Errorf("its path is %q, %v", path, err)
	}
	if err := end.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Error(err) // a Read would not end by Close
	}
	ended := make(chan error)
	go func() {
		_, err := end.Read(make([]byte, 1))
		ended <- err
	}()
	if err := end.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("a Read gives what nobody wrote")
	}
}

// TestReceivedIsChecked: a peer that sends descriptors may send any.
func TestReceivedIsChecked(t *testing.T) {
	_, program, err := Open(0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, f := range map[string]*os.File{"a pipe": r, "the program's end": program} {
		fd, err := unix.Dup(int(f.Fd()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Received(fd); err == nil {
			t.Errorf("%s is taken", name)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
			t.Errorf("%s stays open", name)
		}
	}
}
