package testkit

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// FreeAddress gives an address of the loopback on which nothing listens.
func FreeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Registry starts Debian's docker-registry on loopback until the test ends, and
// gives its address. more is added to the configuration: on its first line to
// what it says about HTTP, from there on as keys of their own.
func Registry(t testing.TB, more string) string {
	t.Helper()
	program := RequireTool(t, "docker-registry")
	address, dir := FreeAddress(t), t.TempDir()
	ofHTTP, others, _ := strings.Cut(more, "\n")
	config := filepath.Join(dir, "config.yml")
	text := fmt.Sprintf("version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: %s/data}, delete: {enabled: true}}\nhttp: {addr: %s%s}\n%s\n", dir, address, ofHTTP, others)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(program, "serve", config)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); c.Wait() }() //nolint:errcheck // it is killed
	t.Cleanup(func() { c.Process.Kill(); <-ended })
	Eventually(t, 20*time.Second, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ended:
			t.Fatalf("the registry ended: %s", &out)
		default:
		}
		return err
	})
	return address
}

// PrivateRegistry is a Registry that wants a password, and gives a directory as docker's
// configuration, which has it, besides.
func PrivateRegistry(t testing.TB) (address, config string) {
	t.Helper()
	config = t.TempDir()
	users := filepath.Join(config, "htpasswd")
	if out, err := exec.Command(RequireTool(t, "htpasswd"), "-Bbc", users, "ann", "secret").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	address = Registry(t, "\nauth: {htpasswd: {realm: test, path: "+users+"}}")
	auth := base64.StdEncoding.EncodeToString([]byte("ann:secret"))
	if err := os.WriteFile(filepath.Join(config, "config.json"), fmt.Appendf(nil, `{"auths":{%q:{"auth":%q}}}`, address, auth), 0o600); err != nil {
		t.Fatal(err)
	}
	return address, config
}
