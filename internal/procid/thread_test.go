package procid

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const headless = "without-its-first-thread"

func init() {
	if len(os.Args) < 2 || os.Args[1] != headless {
		return
	}
	runtime.LockOSThread() // init runs on the process's first thread
	go func() {
		for {
			time.Sleep(time.Hour) // only there to keep the process alive
		}
	}()
	go func() {
		time.Sleep(50 * time.Millisecond) // for the first thread to end
		os.Stdout.WriteString("up\n")
	}()
	unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0) //nolint:errcheck // it does not return
}

// TestFirstThreadEnded: a process lives as long as any of its threads does,
// though /proc calls it a zombie once the first one has ended.
func TestFirstThreadEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0], headless)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	id, err := Of(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if !id.Alive() {
		t.Error("it is taken for dead")
	}
	if err := id.Kill(t.Context()); err != nil || id.Alive() {
		t.Errorf("kill: %v", err)
	}
	cmd.Process.Kill()
	cmd.Wait() //nolint:errcheck // it was killed
}
