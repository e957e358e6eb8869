package pid1

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestInitAsAnother: what it starts is that one, and the caller outside; it ends all
// of them when it is asked to, itself by the code that init gives.
func TestInitAsAnother(t *testing.T) {
	testkit.AsRootToo(t)
	dir := t.TempDir()
	listener, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	init := exec.Command(testkit.Binary(t), Command, As, IDs(1234, 1235), dir)
	init.Stderr = os.Stderr
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		init.Wait() //nolint:errcheck // its state shows it
		close(ended)
	}()
	defer init.Process.Kill()
	client, err := listener.Await(t.Context(), ended)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	printed, err := os.Create(filepath.Join(dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	p, err := client.Exec(t.Context(), driver.Command{Args: []string{"sh", "-c", "echo $(id -u) $(id -g); touch made; stat -c %u made; sleep 1000 & echo $!"}, Env: os.Environ(), Dir: dir, Stdout: printed, Stderr: printed})
	if err != nil {
		t.Fatal(err)
	}
	if exit, err := p.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("it ended with %+v, %v", exit, err)
	}
	raw, err := os.ReadFile(printed.Name())
	lines := strings.Fields(string(raw))
	if err != nil || len(lines) != 4 || strings.Join(lines[:3], " ") != "1234 1235 1234" {
		t.Fatalf("inside it is %q, %v", raw, err)
	}
	info, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != os.Getuid() {
		t.Errorf("outside its file is not the caller's: %+v, %v", info, err)
	}
	orphan, err := strconv.Atoi(lines[3])
	if err != nil {
		t.Fatal(err)
	}
	if err := init.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if code := init.ProcessState.ExitCode(); code != 0 || syscall.Kill(orphan, 0) == nil {
		t.Errorf("it ended with %d, and an orphan is left: %v", code, syscall.Kill(orphan, 0))
	}
}
