package sshlink

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestJumpCommand has ssh itself expand and run the command. The inner ssh, and the proxy of that, are stand-ins
// that write their arguments.
func TestJumpCommand(t *testing.T) {
	ssh := testkit.RequireTool(t, "ssh")
	dir := t.TempDir()
	seen := filepath.Join(dir, "seen")
	if err := core.WriteProgram(filepath.Join(dir, "ssh"), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >"+seen+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	command := JumpCommand(map[string]string{"ProxyCommand": "dial 'a b' %h", "IdentityFile": `"/k e y"`, "hostkeyalias": "none"}, "ann@192.0.2.1", "10.0.0.1")
	c := exec.Command(ssh, "-F", "none", "-o", "ProxyCommand="+command, "-p", "2222", "10.0.0.2", "true")
	c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "HOME=" + dir}
	c.Run() //nolint:errcheck // the stand-in connects to nothing
	raw, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	got := string(raw)
	for _, want := range []string{"ProxyCommand=dial 'a b' %h\n", "IdentityFile=\"/k e y\"\n", "HostKeyAlias=10.0.0.1\n", "BatchMode=yes\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, got)
		}
	}
	if plain := JumpCommand(map[string]string{"HostKeyAlias": "gate"}, "ann@gate", ""); !strings.Contains(plain, "'HostKeyAlias=gate'") && !strings.Contains(plain, "HostKeyAlias=gate ") {
		t.Errorf("without an alias: %s", plain)
	}
	if !strings.HasSuffix(got, "\n-W\n[10.0.0.2]:2222\n--\nann@192.0.2.1\n") || strings.Contains(got, "none") && strings.Contains(got, "lias=none") {
		t.Errorf("got\n%s", got)
	}
}
