package vm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/vm/agent"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"github.com/google/renameio/v2"
)

// Accelerators.
const (
	KVM = "kvm"
	TCG = "tcg" // QEMU's software emulation
)

// kvmTimeout is how long a guest may take to its first line with KVM; where
// that works it takes a fraction of a second.
const kvmTimeout = 15 * time.Second

// Accel finds out which accelerator works here. A /dev/kvm that opens is no
// proof: in some virtual machines firmware runs with it, and the guest's kernel
// hangs for ever. So a guest is booted to its first line of user space. The
// verdict is kept in a directory ("" for nowhere) until the host's kernel,
// boot or QEMU changes. The reason is for people.
func Accel(ctx context.Context, program []string, guest, binary, keep string) (accel, reason string, err error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return TCG, "KVM cannot be used: " + err.Error(), nil
	}
	f.Close()
	file := filepath.Join(keep, "accel-"+verdictKey(ctx, program))
	if raw, err := os.ReadFile(file); keep != "" && err == nil {
		if word, why, ok := strings.Cut(string(raw), " "); ok && (word == KVM || word == TCG) {
			return word, why, nil
		}
	}
	accel, reason, err = tryKVM(ctx, program, guest, binary)
	if err != nil || keep == "" {
		return accel, reason, err
	}
	if err := os.MkdirAll(keep, 0o700); err == nil { // a verdict that cannot be kept is found again
		renameio.WriteFile(file, []byte(accel+" "+reason), 0o600) //nolint:errcheck // see above
	}
	return accel, reason, nil
}

// verdictKey names what a verdict depends on.
func verdictKey(ctx context.Context, program []string) string {
	h := sha256.New()
	for _, name := range []string{"/proc/sys/kernel/random/boot_id", "/proc/version"} {
		raw, _ := os.ReadFile(name)
		h.Write(raw)
	}
	version, _ := exec.CommandContext(ctx, program[0], append(append([]string{}, program[1:]...), "--version")...).Output()
	h.Write(version)
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// tryKVM boots a guest that says one line.
func tryKVM(ctx context.Context, program []string, guest, binary string) (accel, reason string, err error) {
	dir, err := os.MkdirTemp("", "bee-kvm-")
	if err != nil {
		return "", "", err
	}
	defer os.RemoveAll(dir)
	m := qemu.Machine{Program: program, Accel: KVM, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 1, Threads: 1}, Memory: 256 << 20,
		Kernel: filepath.Join(guest, "vmlinux"), Initrd: filepath.Join(dir, "initrd"), Console: filepath.Join(dir, "console"),
		Append: "console=" + qemu.Machine{}.ConsoleDevice() + " quiet panic=-1 rdinit=/" + agent.BinaryPath + qemu.Machine{}.ClockOptions() + " -- " + agent.Command + " " + agent.Probe}
	if err := writeInitrd(m.Initrd, filepath.Join(dir, "none"), binary, agent.Config{}); err != nil {
		return "", "", err
	}
	p, err := m.Start()
	if err != nil {
		return "", "", err
	}
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, kvmTimeout)
	defer cancel()
	waited := p.Wait(bounded)
	p.Kill()
	if ctx.Err() != nil {
		return "", "", context.Cause(ctx)
	}
	said, _ := os.ReadFile(m.Console)
	switch {
	case strings.Contains(string(said), agent.Alive):
		return KVM, fmt.Sprintf("a guest reached user space after %v", time.Since(begun).Round(time.Millisecond)), nil
	case waited != nil:
		return TCG, fmt.Sprintf("/dev/kvm opens, but a guest did not reach user space within %v", kvmTimeout), nil
	}
	return TCG, "/dev/kvm opens, but QEMU cannot use it: " + firstLine(p.Said()), nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
