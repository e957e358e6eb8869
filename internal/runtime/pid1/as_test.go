package pid1

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// startInit starts an init of its own for a directory, and connects to it. Both end with the
// test; ended is closed once it has ended.
func startInit(t *testing.T, dir string, options ...string) (init *exec.Cmd, client *Client, ended chan struct{}) {
	t.Helper()
	listener, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	init = exec.Command(testkit.Binary(t), slices.Concat([]string{Command}, options, []string{dir})...)
	init.Stderr = os.Stderr
	if err := init.Start(); err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		init.Wait() //nolint:errcheck // its state shows it
		close(ended)
	}()
	t.Cleanup(func() { init.Process.Kill() })
	if client, err = listener.Await(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return init, client, ended
}

// TestInitAsAnother: what it starts is that one, and the caller outside; it ends all
// of them when it is asked to, itself by the code that init gives.
func TestInitAsAnother(t *testing.T) {
	testkit.AsRootToo(t)
	dir := t.TempDir()
	init, client, ended := startInit(t, dir, As, IDs(1234, 1235))
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
