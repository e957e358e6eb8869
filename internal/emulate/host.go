package emulate

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// host is one emulated host. Its namespaces are those of one thread of the
// holder, which also starts all its processes: they inherit them from it. So
// a host costs no process of its own.
type host struct {
	index int
	spec  HostSpec
	addr  netip.Addr
	work  chan func()
	netns *os.File
	inode uint64 // of the network namespace, which reports whose a process is
	port  string // the bridge's end of its link
}

// up makes all hosts, in parallel as far as the kernel lets us.
func (w *world) up() error {
	var err error
	if w.net, err = newNetwork(w.spec); err != nil {
		return err
	}
	w.hosts = make([]*host, len(w.spec.Hosts))
	errs := make([]error, len(w.hosts))
	notes := make([][]string, len(w.hosts))
	var wg sync.WaitGroup
	// Making namespaces is the kernel's work, mostly under locks: more
	// workers than processors only wait for each other.
	slots := make(chan struct{}, 2*runtime.NumCPU())
	for i, s := range w.spec.Hosts {
		h := &host{index: i, spec: s, addr: w.net.addr(i), work: make(chan func()), port: "port" + strconv.Itoa(i)}
		w.hosts[i] = h
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			go h.thread()
			notes[i], errs[i] = h.up(w.net)
		})
	}
	wg.Wait()
	if len(notes) > 0 {
		w.notes = notes[0] // the same on all
	}
	return errors.Join(errs...)
}

// thread lends the host an operating system thread for good.
func (h *host) thread() {
	runtime.LockOSThread()
	for f := range h.work {
		f()
	}
}

// do calls f on the host's thread, where everything happens on that host.
func (h *host) do(f func() error) error {
	result := make(chan error, 1)
	h.work <- func() { result <- f() }
	return <-result
}

func (h *host) up(n *network) (notes []string, err error) {
	err = h.do(func() error {
		notes, err = h.enter(n.hosts > runtime.NumCPU())
		return err
	})
	if err == nil {
		err = n.connect(h)
	}
	if err == nil {
		err = h.do(func() error { return n.configure(h) })
	}
	if err == nil {
		err = h.do(dropPrivileges)
	}
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", h.spec.Hostname, err)
	}
	return notes, nil
}

// timerSlack is how late timers may be on hosts of which there are more than
// processors. What looks around often there, as each Go program does that computes,
// takes the time of those it looks for.
const timerSlack = 2 * time.Millisecond

// enter gives the calling thread the host's namespaces and mounts, and, if the
// machine is crowded, its waits, which all that it starts inherits.
func (h *host) enter(crowded bool) (notes []string, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWNS); err != nil {
		return nil, fmt.Errorf("unshare: %w", err)
	}
	if err := unix.Sethostname([]byte(h.spec.Hostname)); err != nil {
		return nil, fmt.Errorf("set host name: %w", err)
	}
	if crowded {
		if err := unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0); err != nil {
			return nil, fmt.Errorf("set timer slack: %w", err)
		}
	}
	if h.netns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(h.netns.Fd()), &st); err != nil {
		return nil, err
	}
	h.inode = st.Ino
	if err := unix.Mount("shm", "/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777"); err != nil {
		notes = append(notes, "the hosts share one /dev/shm: "+err.Error())
	}
	if err := freshSys(); err != nil {
		notes = append(notes, "/sys shows this machine's network, not the hosts': "+err.Error())
	}
	if h.spec.Hide != "" {
		if err := hide(h.spec.Hide, h.spec.Keep); err != nil {
			return nil, fmt.Errorf("private scratch: %w", err)
		}
	}
	for _, m := range h.spec.Mounts {
		if err := unix.Mount(m.Source, m.Target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return nil, fmt.Errorf("mount %s on %s: %w", m.Source, m.Target, err)
		}
	}
	// Lets `ping` work without privileges.
	gid := strconv.Itoa(os.Getegid())
	_ = os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(gid+" "+gid), 0)
	return notes, nil
}

// freshSys mounts a /sys that shows this network namespace's interfaces, and
// keeps the control groups visible in it.
func freshSys() error {
	cgroup, cerr := unix.Open("/sys/fs/cgroup", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if cerr == nil {
		defer unix.Close(cgroup)
	}
	if err := unix.Mount("sys", "/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if cerr == nil {
		_ = unix.Mount(fdPath(cgroup), "/sys/fs/cgroup", "", unix.MS_BIND|unix.MS_REC, "")
	}
	return nil
}

// hide covers dir so that only keep, a directory in it, is left.
func hide(dir, keep string) error {
	fd, err := unix.Open(keep, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Mount("private", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700,size=64k"); err != nil {
		return err
	}
	rel, err := filepath.Rel(dir, keep)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not in %s", keep, dir)
	}
	if err := os.MkdirAll(keep, 0o700); err != nil {
		return err
	}
	return unix.Mount(fdPath(fd), keep, "", unix.MS_BIND|unix.MS_REC, "")
}

func fdPath(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

// dropPrivileges makes what the thread starts an ordinary user's processes,
// as on a real host: no capability outlives their execve. Root stays root.
func dropPrivileges() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("clear ambient capabilities: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	if err := unix.Capset(&head, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
