package drivertest

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// inherited compares the state that a process starts with with what `podman run` gives:
// nothing of who started the container, however unusual that one is.
func (s RuntimeSuite) inherited(t *testing.T) {
	ignored := []os.Signal{unix.SIGHUP, unix.SIGPIPE, unix.SIGUSR1, unix.SIGTSTP}
	signal.Ignore(ignored...)
	defer signal.Reset(ignored...)
	defer unix.Umask(unix.Umask(0o077))
	leak, err := unix.Open("/dev/null", unix.O_RDWR, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	c := s.spec(t)
	box := s.start(t, c)
	direct := func(args ...string) string {
		r := run(t, box, "", driver.Command{Args: args})
		if r.exit.Code != 0 {
			t.Errorf("%q: %+v", args, r)
		}
		return strings.TrimSpace(r.out)
	}
	status := direct("cat", "/proc/self/status")
	for _, mask := range []string{"SigBlk", "SigIgn", "SigCgt"} {
		if !strings.Contains(status, mask+":\t0000000000000000") {
			t.Errorf("%s is not empty:\n%s", mask, status)
		}
	}
	if mask := want(t, box, "umask"); mask != "0022" {
		t.Errorf("umask %s", mask)
	}
	if files := strings.Join(strings.Fields(direct("ls", "/proc/self/fd")), " "); files != "0 1 2 3" { // the last is of ls
		t.Errorf("open files: %s", files)
	}
	// Fields 6 and 7 of stat are session and terminal: proc_pid_stat(5).
	if stat := strings.Fields(direct("cat", "/proc/self/stat")); stat[0] != stat[5] || stat[6] != "0" {
		t.Errorf("session %s and terminal %s of process %s", stat[5], stat[6], stat[0])
	} else if nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err == nil && !s.OwnKernel && stat[18] != fmt.Sprint(20-nice) {
		t.Errorf("niceness %s, want %d", stat[18], 20-nice) // the system call gives 20 less the niceness
	}
	if env := direct("env"); env != "PATH=/bin:/usr/bin" {
		t.Errorf("environment:\n%s", env)
	}
	if where := direct("pwd"); where != "/" {
		t.Errorf("working directory %s", where)
	}
	for _, name := range []string{"HUP", "PIPE", "USR1", "TERM"} {
		if r := run(t, box, "", shell("trap 'exit 3' "+name+"; kill -"+name+" $$; exit 4")); r.exit.Code != 3 {
			t.Errorf("a trap of %s: %+v", name, r)
		}
	}
	want(t, box, "yes | head -n 1")
}

// sockets: what is in the run directory cannot be replaced, and neither is there anything
// by which one could speak with the container's init.
func (s RuntimeSuite) sockets(t *testing.T) {
	box, c := s.shared.start()
	for _, script := range []string{
		"touch /.bee/run/new", "mkdir /.bee/run/dir", "ln -s /etc /.bee/run/link", "mv /.bee/run /.bee/ran", "rm -r /.bee/run",
		"mkfifo /.bee/run/init.sock", "mount -o remount,rw /.bee/run",
	} {
		if r := run(t, box, "", shell(script)); r.exit.Code == 0 {
			t.Errorf("%s: it may", script)
		}
	}
	scripts := []string{"dd if=/dev/null of=/proc/1/exe", "dd if=/dev/null of=/.bee/bee", "dd if=/dev/null of=/.bee/rsh"} // which are the user's bee
	if !s.NamespaceRoot || os.Geteuid() != 0 {                                                                            // root of a namespace may trace what is in it
		scripts = append(scripts, "cat /proc/1/exe", "readlink /proc/1/fd/0", "cat /proc/1/environ", "cat /proc/1/maps", "dd if=/dev/null of=/proc/1/mem")
	}
	for _, script := range scripts {
		if r := run(t, box, "", shell("test $(cat /proc/1/comm) = bee && "+script)); r.exit.Code == 0 {
			t.Errorf("%s: it may", script)
		}
	}
	if found := want(t, box, "find /.bee -type s ! -name node.sock"); found != "" {
		t.Errorf("sockets: %s", found)
	}
	if _, err := os.Lstat(filepath.Join(c.RunDir, "init.sock")); !os.IsNotExist(err) {
		t.Errorf("the socket for init is there after it has come: %v", err)
	}
}
