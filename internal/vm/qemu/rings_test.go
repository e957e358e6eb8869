package qemu

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAQEMUWithoutRingsIsKnown: the real one has them, and one that leaves out a word of
// what it says has not.
func TestAQEMUWithoutRingsIsKnown(t *testing.T) {
	whole := testkit.RequireTool(t, Program())
	if why := NoRings(t.Context()); why != "" {
		t.Errorf("the host's QEMU: %s", why)
	}
	for _, part := range []string{"vhost-user", "memory-backend-memfd"} {
		dir := t.TempDir()
		script := "#!/bin/sh\n" + whole + " \"$@\" | grep -v -w -e " + part + "\n"
		if err := core.WriteProgram(filepath.Join(dir, Program()), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
		if why := NoRings(t.Context()); !strings.Contains(why, "without "+part) {
			t.Errorf("one without %s: %q", part, why)
		}
	}
	t.Setenv("PATH", t.TempDir())
	if why := NoRings(t.Context()); why != "" {
		t.Errorf("with that of the guest image: %s", why)
	}
}
