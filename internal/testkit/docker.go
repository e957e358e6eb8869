package testkit

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Docker starts a docker daemon of the test's own, and points docker to it. An
// ordinary user can only use one that is there.
// It gives the daemon's process; nil where the daemon is not the test's own.
func Docker(t *testing.T) *os.Process {
	t.Helper()
	RequireTool(t, "docker")
	if given := os.Getenv("BEE_TEST_DOCKER_HOST"); given != "" {
		t.Setenv("DOCKER_HOST", given)
		return nil
	}
	RequireRoot(t)
	RequireTool(t, "dockerd")
	dir, err := os.MkdirTemp("", "bee-docker-") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	socket := "unix://" + filepath.Join(dir, "d.sock")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c := exec.Command("dockerd", "--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"), "-H", socket,
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--storage-driver=vfs")
	c.Stdout, c.Stderr = log, log
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); c.Wait() }() //nolint:errcheck // see the log
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Error("dockerd did not end")
			syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
			<-done
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("dockerd: %s", text[max(0, len(text)-4096):])
		}
		// dockerd leaves the network namespace of --network=host mounted.
		syscall.Unmount(filepath.Join(dir, "exec", "netns", "default"), syscall.MNT_DETACH)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("DOCKER_HOST", socket)
	Eventually(t, 30*time.Second, func() error {
		out, err := exec.Command("docker", "version").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	return c.Process
}
