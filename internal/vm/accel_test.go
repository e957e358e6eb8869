package vm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
)

// TestJudge: only what concerns KVM itself is kept.
func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		console, printed string
		hung             bool
		accel            string
		passing          bool
	}{
		"it works":                  {console: "SeaBIOS\n" + api.Alive + "\n", accel: KVM},
		"it works, and is ended":    {console: api.Alive, hung: true, accel: KVM},
		"the guest hangs":           {console: "SeaBIOS\n", hung: true, accel: TCG},
		"QEMU is built without":     {printed: "qemu-system-x86_64: -accel kvm: invalid accelerator kvm", accel: TCG},
		"the kernel refuses":        {printed: "qemu-system-x86_64: warning: old\nioctl(KVM_CREATE_VM) failed: 95 Operation not supported\n", accel: TCG},
		"a register is refused":     {printed: "qemu-system-x86_64: error: failed to set MSR 0x10a to 0x69\nqemu-system-x86_64: ../../target/i386/kvm/kvm.c:3183: kvm_buf_set_msrs: Assertion `ret == cpu->kvm_msr_buf->nmsrs' failed.", accel: TCG},
		"no memory":                 {printed: "qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory", accel: TCG, passing: true},
		"no memory in the kernel":   {printed: "ioctl(KVM_CREATE_VM) failed: 12 Cannot allocate memory", accel: TCG, passing: true},
		"another hypervisor has it": {printed: "ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy", accel: TCG, passing: true},
		"a warning names it":        {printed: "qemu-system-x86_64: warning: KVM lacks a feature\nqemu-system-x86_64: could not load kernel", accel: TCG, passing: true},
		"QEMU was killed":           {accel: TCG, passing: true},
	} {
		if v := judge(c.console, c.printed, c.hung, 0); v.accel != c.accel || v.passing != c.passing || v.reason == "" {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// TestTheTrialOfKVM has a script in place of QEMU.
func TestTheTrialOfKVM(t *testing.T) {
	t.Parallel() // one takes as long as a guest may
	for name, c := range map[string]struct {
		does string
		want verdict
	}{
		"a guest comes up":         {`for a; do case $a in file,id=console,path=*) echo '` + api.Alive + `' > "${a#*path=}"; esac; done`, verdict{accel: KVM}},
		"the host lacks memory":    {"echo \"$0: cannot set up guest memory 'pc.ram': Cannot allocate memory\" >&2; exit 1", verdict{accel: TCG, passing: true}},
		"the host has QEMU killed": {"kill -9 $$", verdict{accel: TCG, passing: true}},
		"the guest hangs":          {"exec sleep 1000", verdict{accel: TCG, reason: "a guest did not reach user space"}},
	} {
		script := programOf(t, c.does)
		v, err := tryKVM(t.Context(), script, "", script[0])
		if v.accel != c.want.accel || v.passing != c.want.passing || !strings.Contains(v.reason, c.want.reason) || err != nil {
			t.Errorf("%s: %+v, %v", name, v, err)
		}
	}
}

// programOf is a script in place of QEMU.
func programOf(t *testing.T, does string) []string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "qemu")
	if err := core.WriteProgram(script, []byte("#!/bin/sh\n"+does+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return []string{script}
}

// TestVerdictsAreOfOneQEMUAndBoot: another kernel, boot or QEMU is tried again.
func TestVerdictsAreOfOneQEMUAndBoot(t *testing.T) {
	keep := t.TempDir()
	for i, c := range []struct {
		version string
		tried   bool
	}{{"7.2.1", true}, {"7.2.2", true}, {"7.2.1", false}} {
		tried := false
		v, err := settle(verdictFile(t.Context(), keep, programOf(t, "echo QEMU emulator version "+c.version)), func() (verdict, error) {
			tried = true
			return verdict{accel: KVM, reason: c.version}, nil
		})
		if err != nil || v.reason != c.version || tried != c.tried {
			t.Errorf("%d: of QEMU %s: %+v, %v; it was tried: %v", i, c.version, v, err, tried)
		}
	}
	dir := t.TempDir()
	boot, kernel := filepath.Join(dir, "boot"), filepath.Join(dir, "kernel")
	seen := map[string]bool{}
	for _, host := range [][2]string{{"one", "6.1.1"}, {"two", "6.1.1"}, {"one", "6.1.2"}, {"one", "6.1.1"}} {
		if err := errors.Join(os.WriteFile(boot, []byte(host[0]), 0o600), os.WriteFile(kernel, []byte(host[1]), 0o600)); err != nil {
			t.Fatal(err)
		}
		seen[prefixOf(boot, kernel)] = true
	}
	if len(seen) != 3 {
		t.Errorf("three hosts' verdicts begin with %v", seen)
	}
}

func TestVerdictsAreKept(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "hosts", verdictPrefix()+"qemu")
	tries := 0
	for _, c := range []struct {
		found verdict
		want  string
	}{
		{verdict{TCG, "no memory", true}, "no memory"},
		{verdict{KVM, "it works", false}, "it works"},
		{verdict{TCG, "is not asked for", false}, "it works"},
	} {
		if v, err := settle(file, func() (verdict, error) { tries++; return c.found, nil }); err != nil || v.reason != c.want {
			t.Errorf("%q: got %+v, %v", c.found.reason, v, err)
		}
	}
	if tries != 2 {
		t.Errorf("tried %d times, want until there is one to keep", tries)
	}
	if _, err := settle("", func() (verdict, error) { return verdict{}, errors.New("no QEMU") }); err == nil {
		t.Error("a trial that failed is a verdict")
	}
	if v := lastVerdict(dir); v != (verdict{}) {
		t.Errorf("before any was kept there: %+v", v)
	}
	if v := lastVerdict(filepath.Dir(file)); v.accel != KVM || v.reason != "it works" {
		t.Errorf("kept is %+v", v)
	}
}
