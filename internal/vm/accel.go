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

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/vm/qemu"
	"golang.org/x/sys/unix"
)

// Accelerators.
const (
	KVM = "kvm"
	TCG = "tcg" // QEMU's software emulation
)

// kvmTimeout is how long a guest may run until its first line with KVM; where
// that works it takes a fraction of a second.
const kvmTimeout = 15 * time.Second

// verdict says which accelerator is used here. The reason is for people.
type verdict struct {
	accel, reason string
	// passing: what kept KVM from being tried may be gone the next time.
	passing bool
}

// Accel finds out which accelerator works here. A /dev/kvm that opens is no
// proof: in some virtual machines firmware runs with it, and the guest's kernel
// hangs for ever. So a guest is booted to its first line of user space. The
// verdict is kept in a directory ("" for nowhere) until the host's kernel,
// boot or QEMU changes. The reason is for people.
func Accel(ctx context.Context, program []string, guest, binary, keep string) (accel, reason string, err error) {
	if err := openKVM(); err != nil {
		return TCG, "KVM cannot be used: " + err.Error(), nil
	}
	v, err := settle(verdictFile(ctx, keep, program), func() (verdict, error) { return tryKVM(ctx, program, guest, binary) })
	return v.accel, v.reason, err
}

// KnownAccel gives the last verdict on this host that Accel has kept in a
// directory, "" where there is none yet. An error means that there is no KVM here.
func KnownAccel(keep string) (accel, reason string, err error) {
	if err := openKVM(); err != nil {
		return TCG, "", err
	}
	v := lastVerdict(keep)
	return v.accel, v.reason, nil
}

func lastVerdict(keep string) (v verdict) {
	files, _ := filepath.Glob(filepath.Join(keep, verdictPrefix()+"*"))
	var last time.Time
	for _, file := range files {
		info, err := os.Stat(file)
		if found, ok := readVerdict(file); ok && err == nil && info.ModTime().After(last) {
			v, last = found, info.ModTime()
		}
	}
	return v
}

func openKVM() error {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// settle gives the verdict that is kept in a file ("": none is), or a new one.
func settle(file string, try func() (verdict, error)) (verdict, error) {
	if v, ok := readVerdict(file); ok {
		return v, nil
	}
	v, err := try()
	if err != nil || v.passing || file == "" {
		return v, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err == nil { // a verdict that cannot be kept is found again
		core.BestEffort(fsutil.WriteFile(file, []byte(v.accel+" "+v.reason), 0o600))
	}
	return v, nil
}

func readVerdict(file string) (verdict, bool) {
	raw, err := os.ReadFile(file)
	word, why, ok := strings.Cut(string(raw), " ")
	return verdict{accel: word, reason: why}, err == nil && ok && (word == KVM || word == TCG)
}

// verdictFile is where a directory ("": none) keeps the verdict on this host and a QEMU.
func verdictFile(ctx context.Context, keep string, program []string) string {
	if keep == "" {
		return ""
	}
	return filepath.Join(keep, verdictPrefix()+hashOf(version(ctx, program)))
}

// verdictPrefix begins the names of the files of all verdicts on this host since
// it was booted; they end with what QEMU they are of.
func verdictPrefix() string {
	return prefixOf("/proc/sys/kernel/random/boot_id", "/proc/version")
}

// prefixOf is verdictPrefix, of a host that has these files.
func prefixOf(files ...string) string {
	var host []byte
	for _, name := range files {
		raw, _ := os.ReadFile(name)
		host = append(host, raw...)
	}
	return "accel-" + hashOf(host) + "-"
}

func hashOf(what []byte) string {
	sum := sha256.Sum256(what)
	return hex.EncodeToString(sum[:8])
}

func version(ctx context.Context, program []string) []byte {
	text, _ := exec.CommandContext(ctx, program[0], append(append([]string{}, program[1:]...), "--version")...).Output()
	return text
}

// tryKVM boots a guest that says one line.
func tryKVM(ctx context.Context, program []string, guest, binary string) (verdict, error) {
	dir, err := fsutil.TempDir("", "bee-kvm-")
	if err != nil {
		return verdict{}, err
	}
	defer os.RemoveAll(dir)
	m := qemu.Machine{
		Program: program, Unconfined: !qemu.HasSandbox(ctx, program), Accel: KVM, CPU: "max", Topology: qemu.Topology{Sockets: 1, Cores: 1, Threads: 1}, Memory: 256 << 20,
		Kernel: filepath.Join(guest, "vmlinux"), Initrd: filepath.Join(dir, "initrd"), Console: filepath.Join(dir, "console"),
		Append: "console=" + qemu.Machine{}.ConsoleDevice() + " quiet panic=-1 rdinit=/" + api.BinaryPath + qemu.Machine{}.ClockOptions() + " -- " + api.Command + " " + api.Probe,
	}
	if err := writeInitrd(m.Initrd, filepath.Join(dir, "none"), binary, api.Config{}); err != nil {
		return verdict{}, err
	}
	p, err := m.Start()
	if err != nil {
		return verdict{}, err
	}
	begun := time.Now()
	bounded, cancel := (&machine{Process: p}).within(ctx, kvmTimeout, errStuck)
	defer cancel()
	hung := p.Wait(bounded) != nil
	took := time.Since(begun)
	p.Kill()
	if ctx.Err() != nil {
		return verdict{}, context.Cause(ctx)
	}
	console, _ := os.ReadFile(m.Console)
	return judge(string(console), p.LastOutput(), hung, took), nil
}

// judge makes the verdict of what a guest with KVM has shown on its console and
// QEMU has reported, and whether the guest had to be ended. Of KVM itself they report if
// the guest got somewhere, or nowhere in time, or QEMU names KVM; a host that has no
// memory for a guest now, or had QEMU killed, may have another verdict later.
func judge(console, printed string, hung bool, took time.Duration) verdict {
	why := complaints(printed)
	names := func(what string) bool { return strings.Contains(strings.ToLower(why), what) }
	switch {
	case strings.Contains(console, api.Alive):
		return verdict{accel: KVM, reason: fmt.Sprintf("a guest reached user space after %v", took.Round(time.Millisecond))}
	case hung:
		return verdict{accel: TCG, reason: fmt.Sprintf("/dev/kvm opens, but a guest did not reach user space within %v in which it could run", kvmTimeout)}
	case names("kvm") && !names(unix.ENOMEM.Error()) && !names(unix.EBUSY.Error()):
		return verdict{accel: TCG, reason: "/dev/kvm opens, but QEMU cannot use it: " + why}
	}
	if printed == "" {
		printed = "QEMU ended without a word"
	}
	return verdict{accel: TCG, reason: "/dev/kvm opens, but could not be tried, which the next machine does again: " + printed, passing: true}
}

// complaints are what QEMU has reported but for mere warnings, in one line: where it gives
// up over a register, only the last of them names KVM.
func complaints(printed string) string {
	var lines []string
	for line := range strings.Lines(printed) {
		if line = strings.TrimSpace(line); line != "" && !strings.Contains(line, "warning:") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "; ")
}
