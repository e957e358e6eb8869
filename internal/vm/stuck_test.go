package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// What a guest printed of which one processor waited for a signal that never came.
const lockedConsole = "Booting from ROM..[   28.825519] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [cryptomgr_test:53]\n" +
	"[   56.826050] watchdog: BUG: soft lockup - CPU#1 stuck for 52s! [cryptomgr_test:53]\n"

// TestTheConsoleIsReadWhileAMachineBoots: nobody has heard of its container yet.
func TestTheConsoleIsReadWhileAMachineBoots(t *testing.T) {
	dir := t.TempDir()
	b := New(Options{}).VM()
	if _, err := b.BootConsole(dir); err == nil {
		t.Error("there is a console of no machine")
	}
	if err := os.WriteFile(filepath.Join(dir, consoleName), []byte("\x1b[0mBooting from ROM..\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := b.BootConsole(dir); err != nil || !strings.Contains(text, "Booting") || strings.Contains(text, "\x1b") {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestKVMThatWasAskedForAndIsNotThere: the user learns what to do about it.
func TestKVMThatWasAskedForAndIsNotThere(t *testing.T) {
	program := filepath.Join(t.TempDir(), "qemu")
	if err := core.WriteProgram(program, []byte("#!/bin/sh\necho 'Could not access KVM kernel module: Permission denied' >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := boot{
		qemu:  qemu.Machine{Program: []string{program}, Accel: KVM, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 1, Threads: 1}, Memory: 1 << 30},
		guest: t.TempDir(), binary: program, dir: t.TempDir(), disk: 1 << 30, dial: refuse,
	}
	if _, err := b.cold(t.Context()); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "accel: auto") {
		t.Errorf("got %v, remedy %q", err, core.Remedy(err))
	}
}

// TestAGuestThatDoesNotComeUp: another one may take its place.
func TestAGuestThatDoesNotComeUp(t *testing.T) {
	program := filepath.Join(t.TempDir(), "qemu")
	if err := core.WriteProgram(program, []byte("#!/bin/sh\nfor a; do [ \"$a\" != -version ] || exit 0; done\nexec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	b := boot{
		qemu:  qemu.Machine{Program: []string{program}, Accel: TCG, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 1, Threads: 1}, Memory: 1 << 30},
		guest: t.TempDir(), binary: program, dir: t.TempDir(), disk: 1 << 30, dial: refuse, timeout: 200 * time.Millisecond,
	}
	if _, err := b.cold(t.Context()); !errors.Is(err, errNotUp) || !replaceable(err) {
		t.Errorf("got %v", err)
	}
}

func TestADiskThatIsTooLargeNamesItsKey(t *testing.T) {
	if err := sparse(filepath.Join(t.TempDir(), "disk"), 1<<62); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "`disks`") {
		t.Errorf("got %v, remedy %q", err, core.Remedy(err))
	}
}

func TestLockedUp(t *testing.T) {
	for console, want := range map[string]string{
		"": "",
		lockedConsole[:strings.LastIndex(lockedConsole, "[   56")]: "", // which may pass
		lockedConsole: "soft lockup - CPU#1 stuck for 52s",
	} {
		if got := lockedUp([]byte(console)); got != want {
			t.Errorf("%q: %q, want %q", console, got, want)
		}
	}
}

// A guest whose kernel says that it is stuck as it boots is not waited for, and
// replaced. The first machine is one that says so and does nothing else.
func TestAGuestStuckAsItBootsIsReplaced(t *testing.T) {
	testkit.Long(t, "TestLockedUp, TestTheConsoleIsReadWhileAMachineBoots and TestAStuckGuestIsReplaced")
	r, s := own(t)
	script := filepath.Join(t.TempDir(), "qemu")
	text := fmt.Sprintf(`#!/bin/sh
for a; do [ "$a" != -version ] || exit 0; done
mkdir "$0.first" 2> /dev/null || exec %s "$@"
for a; do case $a in file,id=console,path=*) printf %%s '%s' > "${a#*path=}"; esac; done
exec sleep 600
`, strings.Join(r.o.Program, " "), lockedConsole)
	if err := core.WriteProgram(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	r.o.Program = []string{script}
	var reported []string
	r.o.Report = func(message string) { reported = append(reported, message) }
	s.Only = []string{"Codes"}
	s.Run(t)
	if len(reported) < 2 || !strings.Contains(reported[0], "soft lockup") {
		t.Errorf("reported: %q", reported)
	}
}
