package e2e

import (
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestGuestImages brings a guest image to a registry and back, into another
// cache: it is the same image, and counts as a guest image there too.
func TestGuestImages(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	testkit.Once(t)
	address := registryOnLoopback(t)
	b := testkit.NewBee(t)
	id := strings.TrimSpace(b.Must("vm", "image", "build"))
	if got := b.Must("vm", "image", "ls"); !strings.Contains(got, id[7:19]) {
		t.Errorf("it is not listed:\n%s", got)
	}
	ref := address + "/guest:1"
	b.Must("vm", "image", "push", id, ref)

	b.Env = append(b.Env, "BEE_CACHE="+filepath.Join(b.Dir, "other"))
	if got := b.Must("vm", "image", "ls"); strings.Contains(got, id[7:19]) {
		t.Errorf("the other cache has it already:\n%s", got)
	}
	b.Must("vm", "image", "pull", ref)
	var list []struct {
		ID   string   `json:"id"`
		Refs []string `json:"refs"`
		Size int64    `json:"size_bytes"`
	}
	b.JSON(&list, "vm", "image", "ls", "--json")
	if len(list) != 1 || len(list[0].Refs) != 1 || list[0].Refs[0] != ref {
		t.Fatalf("the other cache lists %+v", list)
	}
	_, hex, _ := strings.Cut(list[0].ID, ":")
	for _, part := range []string{"vmlinux", "root.sqfs", "packages", "modules", "qemu/loader"} {
		files, err := filepath.Glob(filepath.Join(b.Dir, "other", "trees", hex, part))
		if err != nil || len(files) != 1 {
			t.Errorf("it has no %s", part)
		}
	}
	b.Must("vm", "image", "show", ref)
	b.Must("vm", "image", "rm", ref)
	if got := b.Must("vm", "image", "ls", "--json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("after it was removed there is %s", got)
	}
}

// registryOnLoopback starts Debian's docker-registry.
func registryOnLoopback(t *testing.T) string {
	t.Helper()
	program := testkit.RequireTool(t, "docker-registry")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	dir := t.TempDir()
	b := testkit.NewBee(t)
	config := b.File("registry.yaml", fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %s}}\nhttp: {addr: %s}\nlog: {level: error}\n", dir, address))
	c := exec.Command(program, "serve", config)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	testkit.Eventually(t, 20*time.Second, func() error {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return address
}
