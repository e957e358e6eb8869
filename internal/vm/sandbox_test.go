package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// confined reports whether the kernel filters a process's system calls.
func confined(t *testing.T, pid int) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(status), "Seccomp:\t2\n")
}

// TestAGuestOfAQEMUWithoutSeccomp runs, and its user learns of it.
func TestAGuestOfAQEMUWithoutSeccomp(t *testing.T) {
	testkit.Long(t, "TestGuestsFromATemplate, with a sandbox")
	r, _ := own(t)
	program := filepath.Join(t.TempDir(), "qemu")
	text := "#!/bin/sh\nfor a; do [ \"$a\" != -sandbox ] || exit 1; done\nexec " + strings.Join(r.o.Program, " ") + " \"$@\"\n"
	if err := core.WriteProgram(program, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	r.o.Program = []string{program}
	var reported []string
	b := boot{
		qemu: r.machine(), guest: r.o.Guest, binary: r.o.Binary, config: config("open"), disk: r.o.Disk, dial: refuse, dir: t.TempDir(),
		report: func(message string) { reported = append(reported, message) },
	}
	m, err := b.cold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Kill()
	if confined(t, m.PID()) {
		t.Error("this QEMU has a sandbox")
	}
	if !slices.ContainsFunc(reported, func(message string) bool { return strings.Contains(message, "seccomp") }) {
		t.Errorf("reported: %q", reported)
	}
}
