package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestAMachineIsInASandbox has the monitor ask QEMU for a program, as state of devices that
// another site has written might.
func TestAMachineIsInASandbox(t *testing.T) {
	p, m := bare(t, Machine{})
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil || !strings.Contains(string(status), "Seccomp:\t2\n") {
		t.Errorf("no filter of system calls (%v):\n%s", err, status)
	}
	made := filepath.Join(t.TempDir(), "made")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	//nolint:errcheck // whether QEMU refuses or is killed is its own matter
	m.Do(ctx, "migrate", map[string]string{"uri": "exec:echo made >" + made + "; cat >/dev/null"}, nil)
	if !p.Over() {
		t.Error("it still runs, after a system call that its sandbox denies")
	}
	if _, err := os.Stat(made); err == nil {
		t.Error("it started a program")
	}
}

// without gives a directory of PATH with a QEMU that is built without seccomp.
func without(t *testing.T) string {
	t.Helper()
	program := testkit.RequireTool(t, Program())
	dir := t.TempDir()
	text := "#!/bin/sh\nfor a; do [ \"$a\" != -sandbox ] || { echo '-sandbox support is not enabled in this QEMU binary' >&2; exit 1; }; done\nexec " + program + " \"$@\"\n"
	if err := core.WriteProgram(filepath.Join(dir, Program()), []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestHasSandbox(t *testing.T) {
	for _, c := range []struct {
		name, program string
		want          bool
	}{
		{"built with seccomp", testkit.RequireTool(t, Program()), true},
		{"built without seccomp", filepath.Join(without(t), Program()), false},
		{"not there", "/nonexistent", true},
		{"does not start at all", "false", true},
	} {
		if got := HasSandbox(t.Context(), []string{c.program}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestChoose(t *testing.T) {
	bundle := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(bundle, "qemu"), 0o755), os.WriteFile(filepath.Join(bundle, "qemu", "loader"), nil, 0o755)); err != nil {
		t.Fatal(err)
	}
	here := os.Getenv("PATH")
	for _, c := range []struct {
		name, path, tree string
		bundled          bool
	}{
		{"the host's has a sandbox", here, bundle, false},
		{"only the bundled one has a sandbox", without(t) + ":" + here, bundle, true},
		{"none has a sandbox", without(t) + ":" + here, t.TempDir(), false},
		{"the host has none", t.TempDir(), bundle, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			if got := Choose(t.Context(), c.tree); (len(got) > 1) != c.bundled {
				t.Errorf("%q", got)
			}
		})
	}
}
