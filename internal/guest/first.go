// Package guest is BEE inside a virtual machine, in three processes of one
// binary: the first process, which finds the root file system and reaps
// orphans; the agent, root, which sets the guest up and starts dockerd; and
// the container agent, which runs the container as the user whose files it uses.
// It knows no hypervisor and nothing of other guests.
package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// Where BEE's own files are in a running guest.
const (
	dir        = "/run/bee"
	binary     = api.GuestBinary
	configFile = dir + "/config.json"
)

// The processes after the first.
const (
	agentArg          = "agent"
	containerAgentArg = "hand"
	machineArg        = "machine"
)

// Main is `bee guest`, with the engines that a guest may have.
func Main(args []string, newEngine NewEngine, newBare NewBare) int {
	debug.SetGCPercent(50) // the memory is the job's
	var err error
	switch {
	case len(args) == 0 && os.Getpid() == 1:
		err = first()
		fmt.Fprintln(os.Stderr, "bee: the guest ends:", err)
		unix.Sync()
		core.BestEffort(unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)) // there is nothing left to do
	case len(args) == 1 && args[0] == api.Probe && os.Getpid() == 1:
		err = alive()
	case len(args) == 1 && args[0] == agentArg:
		err = runAgent(newEngine(binary, dockerSocket))
	case len(args) == 1 && args[0] == machineArg:
		err = runMachine(newEngine(binary, dockerSocket))
	case len(args) == 1 && args[0] == containerAgentArg:
		var c api.Config
		if c, err = readConfig(); err == nil && c.Bare {
			err = runContainerAgent(newBare(binary))
		} else if err == nil {
			err = runContainerAgent(newEngine(binary, dockerSocket))
		}
	case len(args) == 1 && args[0] == api.SSHD:
		err = runSSHD()
	default:
		err = errors.New("this is the first process of BEE's virtual machines, and nothing to start by hand")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bee guest:", err)
		return 1
	}
	return 0
}

// alive says that user space was reached, and ends the guest.
func alive() error {
	if err := (mount{"devtmpfs", "/dev", "devtmpfs", 0, ""}).do(); err != nil {
		return err
	}
	if err := useConsole(); err != nil {
		return err
	}
	fmt.Println(api.Alive)
	return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

// mount is one mount of the guest's.
type mount struct {
	source, target, kind string
	flags                uintptr
	data                 string
}

func (m mount) do() error {
	if err := os.MkdirAll(m.target, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
		return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
	}
	return nil
}

func mountAll(list ...mount) error {
	for _, m := range list {
		if err := m.do(); err != nil {
			return err
		}
	}
	return nil
}

// first is the guest's first process. It returns only when the guest shall
// end.
func first() error {
	if err := mountAll(
		mount{"devtmpfs", "/dev", "devtmpfs", unix.MS_NOSUID, ""},
		mount{"proc", "/proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		mount{"sysfs", "/sys", "sysfs", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	); err != nil {
		return err
	}
	if err := useConsole(); err != nil {
		return err
	}
	started := uptime()
	if err := loadModules("/" + api.ModulesPath); err != nil {
		return err
	}
	c, err := parseConfig("/" + api.ConfigPath)
	if err != nil {
		return err
	}
	mountIt := mountRoot
	if c.Machine {
		mountIt = mountMachine
	}
	if err := mountIt(); err != nil {
		return err
	}
	if err := mountAll(
		mount{"root", "/root", "overlay", 0, "lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work"},
		mount{"run", "/root/run", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=755"},
	); err != nil {
		return err
	}
	if c.Machine {
		if err := (mount{dockerData, "/root" + data, "", unix.MS_BIND, ""}).do(); err != nil {
			return err
		}
	}
	if err := bringFiles("/root"); err != nil {
		return err
	}
	if err := changeRoot("/root"); err != nil {
		return err
	}
	if err := mountAll(
		mount{"tmp", "/tmp", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		mount{"shm", "/dev/shm", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
		mount{"devpts", "/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "ptmxmode=666,mode=620,gid=5"},
		mount{"mqueue", "/dev/mqueue", "mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		mount{"cgroup2", "/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	); err != nil {
		return err
	}
	return reapUntilAgentEnds(started, c.Machine)
}

// useConsole makes the serial console the standard streams: the kernel had no
// device file for it yet.
func useConsole() error {
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	for i := range 3 {
		if err := unix.Dup3(fd, i, 0); err != nil && fd != i {
			return err
		}
	}
	return nil
}

// loadModules loads what reaches the root file system, in order of names. The
// kernel may have some of it built in.
func loadModules(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.ko")) // sorted
	if err != nil {
		return err
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(f.Fd()), "", 0)
		f.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load %s: %w", filepath.Base(name), err)
		}
	}
	return nil
}

// diskTimeout is long for a guest on a busy host.
const diskTimeout = 5 * time.Minute

// awaitDisk finds the disk of a serial number.
func awaitDisk(serial string) (string, error) {
	for begun := time.Now(); time.Since(begun) < diskTimeout; time.Sleep(2 * time.Millisecond) { // its driver probes it beside us
		if d := findDisk(serial); d != "" {
			return d, nil
		}
	}
	return "", fmt.Errorf("there is no disk %s", serial)
}

func findDisk(serial string) string {
	names, _ := filepath.Glob("/sys/block/*")
	for _, name := range names {
		if serialOf(name) == serial {
			return "/dev/" + filepath.Base(name)
		}
	}
	return ""
}

// serialOf is the serial number of a disk by its directory in /sys/block: of virtio, or
// of an emulated one by its page 0x80 (SPC-4, 7.8.15), whose text follows 4 bytes.
func serialOf(disk string) string {
	if raw, err := os.ReadFile(filepath.Join(disk, "serial")); err == nil {
		return strings.TrimSpace(string(raw))
	}
	if raw, err := os.ReadFile(filepath.Join(disk, "device", "vpd_pg80")); err == nil && len(raw) > 4 {
		return strings.Trim(string(raw[4:]), " \x00")
	}
	return ""
}

// bringFiles puts BEE's files where the new root has them as well.
func bringFiles(root string) error {
	if err := os.Mkdir(root+dir, 0o755); err != nil {
		return err
	}
	raw, err := os.ReadFile("/" + api.ConfigPath)
	if err != nil {
		return err
	}
	if err := os.WriteFile(root+configFile, raw, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(root+binary, nil, 0o755); err != nil {
		return err
	}
	return unix.Mount("/"+api.BinaryPath, root+binary, "", unix.MS_BIND, "")
}

// changeRoot makes a mounted directory the root, as switch_root(8) does.
func changeRoot(root string) error {
	for _, d := range []string{"/dev", "/proc", "/sys"} {
		if err := unix.Mount(d, root+d, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", d, err)
		}
	}
	if err := unix.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	// Docker's mounts shall not come back to us.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// reapUntilAgentEnds starts the agent and collects orphans as long as it lives.
func reapUntilAgentEnds(started string, machine bool) error {
	for resource, limit := range map[int]unix.Rlimit{
		unix.RLIMIT_NOFILE:  {Cur: 1 << 20, Max: 1 << 20},
		unix.RLIMIT_MEMLOCK: {Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}, // RDMA registers memory
		unix.RLIMIT_NPROC:   {Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY},
	} {
		if err := unix.Setrlimit(resource, &limit); err != nil {
			return err
		}
	}
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + rootHome, "LANG=C.UTF-8", initVariable + "=" + started}
	arg, end := agentArg, (*ending)(nil)
	if machine {
		arg, end = machineArg, newEnding()
	}
	p, err := os.StartProcess(binary, []string{"bee", api.Command, arg}, &os.ProcAttr{Env: env, Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return err
	}
	return reap(p.Pid, end)
}

// initVariable reports to later processes when the first one ran.
const initVariable = "BEE_GUEST_INIT"

// uptime is the time since the kernel's start, in seconds, as text.
func uptime() string {
	raw, _ := os.ReadFile("/proc/uptime")
	seconds, _, _ := strings.Cut(string(raw), " ")
	return seconds
}
