package rootless

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// ChildCommand is the argument by which the bee binary, executed again, knows
// that it is to become a container.
const ChildCommand = "container-child"

// ChildMain makes the namespaces that it was started in a container, and goes
// on as its init. Descriptor 3 gives the setup, 4 takes the outcome, and 5 leads to the
// node.
func ChildMain() int {
	config, ready, node := os.NewFile(3, "setup"), os.NewFile(4, "ready"), os.NewFile(5, "node")
	err := pid1.Fresh()
	var s setup
	if err == nil {
		err = json.NewDecoder(config).Decode(&s)
	}
	config.Close()
	if err == nil {
		err = s.enter(ready, node)
	}
	if err != nil {
		core.BestEffort(fmt.Fprint(ready, err)) // who started us has gone, then
		return 1
	}
	return 0
}

func (s *setup) enter(ready, node *os.File) error {
	if !s.Loader {
		if err := s.enterRoot(); err != nil {
			return err
		}
	}
	if s.ProbeOnly {
		core.BestEffort(ready.WriteString("ready")) // who started us has gone, then
		return nil
	}
	return s.serve(ready, node)
}

// enterRoot makes the root directory and enters it.
func (s *setup) enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	makeRoot := s.mountRoot
	if s.Native {
		makeRoot = s.skeleton
	}
	root, err := makeRoot()
	if err != nil {
		return err
	}
	if s.ProbeOnly {
		return errors.Join(mountProc(root), pivot(root))
	}
	type step struct {
		what string
		do   func(string) error
	}
	steps := []step{
		{"mount /proc", mountProc},
		{"mount /sys", mountSys},
		{"shield the kernel", s.shield},
		{"mount /dev", s.mountDev},
		{"mount /.bee", s.mountBee},
		{"write /etc", s.writeEtc},
		{"make directories", s.makeDirs},
		{"mount", s.mountAll},
		{"enter the root", pivot},
	}
	if s.Native { // the host's own in place of what a container gets
		steps = slices.Concat([]step{
			{"bind /proc", func(root string) error { return bindHost(root, "/proc") }},
			{"bind /sys", func(root string) error { return bindHost(root, "/sys") }},
			{"bind /dev", func(root string) error { return bindHost(root, "/dev") }},
		}, steps[4:])
	}
	for _, step := range steps {
		if err := step.do(root); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	if s.Hostname != "" {
		if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
			return fmt.Errorf("set hostname: %w", err)
		}
	}
	return nil
}

// serve starts processes for the node, until it goes.
func (s *setup) serve(ready, node *os.File) error {
	c, err := net.FileConn(node)
	if err != nil {
		return fmt.Errorf("take the node's connection: %w", err)
	}
	node.Close()
	hold, is := c.(*net.UnixConn)
	if !is {
		return errors.New("take the node's connection: not a unix socket")
	}
	if !s.Native {
		if err := dropPrivileges(); err != nil {
			return err
		}
	}
	if s.TimerSlack > 0 {
		if err := onAllThreads("timer slack", unix.PR_SET_TIMERSLACK, uintptr(s.TimerSlack)); err != nil {
			return err
		}
	}
	if s.Seccomp {
		if err := confine(s.Faults); err != nil {
			return err
		}
	}
	if _, err := ready.WriteString("ready"); err != nil {
		return err
	}
	ready.Close()
	return pid1.Serve(hold)
}

// pivot makes root the root, and takes the host's away.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return err
	}
	// New and old root stacked on one place need no directory in the image:
	// pivot_root(2), NOTES.
	if err := unix.PivotRoot(".", "."); errors.Is(err, unix.EINVAL) {
		return cover()
	} else if err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the host's root: %w", err)
	}
	return unix.Chdir("/")
}

// cover moves the working directory, a mount, over a root that cannot be taken
// away: that of a host which runs from its initial RAM file system, as diskless
// nodes of clusters do (pivot_root(2), NOTES). What is below is out of reach
// for anyone who may not chroot.
func cover() error {
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the image's root over the host's: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("chroot: %w", err)
	}
	return unix.Chdir("/")
}

func mountProc(root string) error {
	dir, err := inside(root, "/proc", true)
	if err != nil {
		return err
	}
	if err := unix.Mount("proc", dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err == nil {
		return nil
	}
	// Where the host's own /proc is masked (we are in a container already)
	// the kernel refuses a fresh one; the host's then has to do.
	return unix.Mount("/proc", dir, "", unix.MS_BIND|unix.MS_REC, "")
}

func mountSys(root string) error {
	dir, err := inside(root, "/sys", true)
	if err != nil {
		return err
	}
	return unix.Mount("/sys", dir, "", unix.MS_BIND|unix.MS_REC, "")
}

func (s *setup) mountDev(root string) error {
	dir, err := inside(root, "/dev", true)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_STRICTATIME, "mode=755,size=64k"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := bindFile("/dev/"+name, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, device := range s.Devices {
		if err := bindAny(device.Source, filepath.Join(dir, strings.TrimPrefix(device.Target, "/dev/"))); err != nil {
			return fmt.Errorf("%s: %w", device.Target, err)
		}
	}
	for _, d := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("devpts", filepath.Join(dir, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620"); err != nil {
		return fmt.Errorf("pts: %w", err)
	}
	// The ranks of a host meet in the host's shared memory.
	if err := unix.Mount("/dev/shm", filepath.Join(dir, "shm"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("shm: %w", err)
	}
	for link, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			return err
		}
	}
	mqueue := filepath.Join(dir, "mqueue")
	if os.Mkdir(mqueue, 0o1777) == nil { // not every kernel has it, and few programs want it
		core.BestEffort(unix.Mount("mqueue", mqueue, "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	}
	return nil
}

// mountBee puts our binary, under its names, and the run directory in place.
func (s *setup) mountBee(root string) error {
	dir, err := inside(root, "/.bee", true)
	if err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64k"); err != nil {
		return err
	}
	if err := bindFile(s.Binary, filepath.Join(dir, "bee")); err != nil {
		return err
	}
	if err := os.Symlink("bee", filepath.Join(dir, "rsh")); err != nil {
		return err
	}
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		return err
	}
	if err := unix.Mount(s.RunDir, run, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	for _, m := range s.Mounts { // the directory is read-only from now on
		if filepath.Dir(m.Target) == "/.bee" {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(m.Target)), nil, 0o600); err != nil {
				return err
			}
		}
	}
	return errors.Join(readOnly(filepath.Join(dir, "bee")), readOnly(run), readOnly(dir))
}

// makeDirs makes the directories that the image lacks.
func (s *setup) makeDirs(root string) error {
	for _, dir := range s.Dirs {
		if _, err := inside(root, dir, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *setup) mountAll(root string) error {
	for _, m := range s.Mounts {
		if err := m.mountAt(root); err != nil {
			return err
		}
	}
	return nil
}

// readOnly remounts a bind read-only. Flags that the outer mount locks must be
// repeated, or the kernel refuses: mount_namespaces(7), locked flags.
func readOnly(target string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return err
	}
	var keep uintptr
	for from, to := range map[int64]uintptr{
		unix.ST_NOSUID: unix.MS_NOSUID, unix.ST_NODEV: unix.MS_NODEV, unix.ST_NOEXEC: unix.MS_NOEXEC,
		unix.ST_NOATIME: unix.MS_NOATIME, unix.ST_NODIRATIME: unix.MS_NODIRATIME, unix.ST_RELATIME: unix.MS_RELATIME,
	} {
		if st.Flags&from != 0 {
			keep |= to
		}
	}
	return unix.Mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|keep, "")
}

// inside resolves a path in the root as a process in the container would,
// links included, and makes what is missing.
func inside(root, path string, dir bool) (string, error) {
	p, err := securejoin.SecureJoin(root, path)
	if err != nil {
		return "", err
	}
	if dir {
		return p, os.MkdirAll(p, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		return "", err
	}
	f, err := os.OpenFile(p, os.O_CREATE|os.O_RDONLY|unix.O_NONBLOCK, 0o644) // the image may have a FIFO there
	if err != nil {
		return "", err
	}
	return p, f.Close()
}

func bindFile(source, target string) error {
	f, err := os.OpenFile(target, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	f.Close()
	if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	return nil
}

func bindAny(source, target string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return bindFile(source, target)
	}
	if err := os.MkdirAll(target, 0o755); err != nil {
		return err
	}
	return unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, "")
}

// dropPrivileges takes from this process, on all its threads, and from all
// that it will start, every right that the user namespace gave it. Were it uid
// 0, programs that it starts would get them back; no_root prevents that at
// once, where emptying the bounding set takes a call for each capability, on
// every thread (capabilities(7), securebits).
func dropPrivileges() error {
	const noRoot = 1<<0 | 1<<1 // SECBIT_NOROOT, and its lock
	err := onAllThreads("no_new_privs", unix.PR_SET_NO_NEW_PRIVS, 1)
	if err == nil {
		err = onAllThreads("securebits", unix.PR_SET_SECUREBITS, noRoot)
	}
	if err == nil {
		err = capset()
	}
	return err
}

// onAllThreads sets what belongs to a thread, and to those it starts, by prctl(2).
func onAllThreads(what string, option, to uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, to, 0, 0, 0, 0); errno != 0 {
		if errno == unix.ENOTSUP { // Go's answer where a C library may have threads of its own
			return fmt.Errorf("set %s: this bee was not built statically: build it with CGO_ENABLED=0, as `make build` does", what)
		}
		return fmt.Errorf("set %s: %w", what, errno)
	}
	return nil
}
