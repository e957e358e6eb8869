package emulate

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// dialArg makes the test binary an ssh ProxyCommand: DIR ADDR.
const dialArg = "dial"

func proxy(dir, addr string) int {
	c, err := Open(context.Background(), dir)
	if err == nil {
		err = c.Relay(context.Background(), addr, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Real servers, which change their user and root directory, run on the hosts.
func TestSshd(t *testing.T) {
	testkit.AsRootToo(t)
	sshd, ssh, keygen := testkit.RequireTool(t, "sshd"), testkit.RequireTool(t, "ssh"), testkit.RequireTool(t, "ssh-keygen")
	if os.Geteuid() == 0 {
		must(t, os.MkdirAll("/run/sshd", 0o755)) // its own chroot, part of the package's service
	}
	c := start(t, spec(t, 2))
	dir := t.TempDir()
	for _, key := range []string{"host", "user"} {
		if out, err := exec.Command(keygen, "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	public, err := os.ReadFile(filepath.Join(dir, "user.pub"))
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "authorized"), public, 0o600))
	log := filepath.Join(dir, "log")
	_, err = c.Launch(t.Context(), Command{Host: 1, Env: os.Environ(), Log: log, Argv: []string{
		sshd, "-D", "-e", "-f", "/dev/null", "-p", "2222", "-h", filepath.Join(dir, "host"),
		"-o", "AuthorizedKeysFile=" + filepath.Join(dir, "authorized"), "-o", "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none",
	}})
	must(t, err)
	addr := net.JoinHostPort(c.Hosts()[1].Addr, "2222")
	testkit.Eventually(t, 10*time.Second, func() error {
		conn, err := c.Dial(t.Context(), addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
	out, err := exec.Command(ssh, "-F", "/dev/null", "-i", filepath.Join(dir, "user"), "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no",
		"-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", fmt.Sprintf("ProxyCommand=%s %s %s %s", self(t), dialArg, c.dir, addr), "h1", "hostname").CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "h1" {
		b, _ := os.ReadFile(log)
		t.Errorf("%v: %s\nsshd: %s", err, out, b)
	}
}

func self(t *testing.T) string {
	path, err := os.Executable()
	must(t, err)
	return path
}
