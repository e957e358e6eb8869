package guest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/vm/agent"
	"golang.org/x/sys/unix"
)

// Variables by which the agent tells its hand.
const (
	rootVariable  = "BEE_GUEST_ROOT"
	errorVariable = "BEE_GUEST_ERROR"
)

// QEMU's user network: the guest's address in it is always the same.
const (
	outerAddress = "10.0.2.15/24"
	outerGateway = "10.0.2.2"
	outerDNS     = "10.0.2.3"
)

const dockerSocket = "/run/docker.sock"

// runAgent sets the guest up and serves the root port until the guest ends.
func runAgent() error {
	rootTime := uptime()
	c, err := readConfig()
	if err != nil {
		return err
	}
	port, err := findPort(agent.NodePort)
	if err != nil {
		return err
	}
	if err := os.Chown(port, c.UID, c.GID); err != nil {
		return err
	}
	v := &volume{}
	failed := setUp(c, v) // of which the host shall hear
	if failed != nil {
		fmt.Fprintln(os.Stderr, "bee guest: set up:", failed)
	}
	hand := exec.Command(binary, agent.Command, handArg)
	hand.Stdout, hand.Stderr = os.Stdout, os.Stderr
	hand.Env = append(os.Environ(), rootVariable+"="+rootTime, "HOME=/", "USER="+c.User)
	if failed != nil {
		hand.Env = append(hand.Env, errorVariable+"="+failed.Error())
	}
	hand.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID), Groups: groups()}}
	if err := hand.Start(); err != nil {
		return err
	}
	go serveRoot(v)
	return hand.Wait()
}

func readConfig() (agent.Config, error) {
	var c agent.Config
	raw, err := os.ReadFile(configFile)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

// setUp brings everything up that needs root. Its parts wait for different
// things, so they go side by side.
func setUp(c agent.Config, v *volume) error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return err
	}
	if err := writeEtc(c); err != nil {
		return err
	}
	modules := []string{"modprobe", "-a", "virtio_net", "virtio_rng", "9p", "9pnet_virtio"}
	if slices.ContainsFunc(c.Shares, func(s agent.Share) bool { return s.Type == "virtiofs" }) {
		modules = append(modules, "virtiofs")
	}
	if err := command(modules...); err != nil {
		return err
	}
	online := make(chan struct{})
	parts := []func() error{
		func() error { defer close(online); return network(c) },
		func() error { return mountShares(c.Shares) },
		func() error { return mountDisks(c) },
		func() error { return v.mount(c, online) },
		func() error { return startDocker(c) },
	}
	errs := make(chan error, len(parts))
	for _, part := range parts {
		go func() { errs <- part() }()
	}
	var all error
	for range parts {
		all = errors.Join(all, <-errs)
	}
	return all
}

// command runs a program of the guest, whose words are the error.
func command(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// writeEtc writes the files that name the guest, its user and its peers.
func writeEtc(c agent.Config) error {
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	if len(c.Hosts) == 0 { // nobody else names this guest
		hosts += "127.0.1.1 " + c.Hostname + "\n"
	}
	hosts += strings.Join(c.Hosts, "\n") + "\n"
	files := map[string]string{"/etc/hostname": c.Hostname + "\n", "/etc/hosts": hosts, "/run/resolv.conf": "nameserver " + outerDNS + "\n"}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if c.UID == 0 {
		return nil
	}
	id := strconv.Itoa(c.UID)
	if err := appendLine("/etc/passwd", fmt.Sprintf("%s:x:%s:%d:BEE:/tmp:/bin/bash", c.User, id, c.GID)); err != nil {
		return err
	}
	if err := appendLine("/etc/group", fmt.Sprintf("%s:x:%d:", c.User, c.GID)); err != nil {
		return err
	}
	return joinGroup("/etc/group", dockerGroup, c.User)
}

// dockerGroup may use docker: the hand, and the user by ssh.
const dockerGroup = "docker"

// joinGroup makes a user a member of a group, where there is such a group.
func joinGroup(file, group, user string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, group+":") {
			if !strings.HasSuffix(line, ":") {
				line += ","
			}
			line += user
		}
		text.WriteString(line + "\n")
	}
	return os.WriteFile(file, []byte(text.String()), 0o644)
}

func appendLine(file, line string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// groups are those of the hand: it may use docker.
func groups() []uint32 {
	raw, _ := os.ReadFile("/etc/group")
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) > 2 && f[0] == dockerGroup {
			if gid, err := strconv.ParseUint(f[2], 10, 32); err == nil {
				return []uint32{uint32(gid)}
			}
		}
	}
	return nil
}

// network gives the interfaces their addresses: the fabric's by its MAC, any
// other that of QEMU's user network.
func network(c agent.Config) error {
	lines := []string{"link set lo up"}
	names, err := filepath.Glob("/sys/class/net/*/address")
	if err != nil {
		return err
	}
	found := c.Fabric == nil
	for _, file := range names {
		name := filepath.Base(filepath.Dir(file))
		raw, err := os.ReadFile(file)
		if err != nil || name == "lo" {
			continue
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(file), "device")); err != nil {
			continue // no hardware: a bridge of docker's
		}
		if c.Fabric != nil && strings.TrimSpace(string(raw)) == c.Fabric.MAC {
			found = true
			lines = append(lines, fmt.Sprintf("link set %s mtu %d up", name, c.Fabric.MTU), fmt.Sprintf("addr add %s dev %s", c.Fabric.Address, name))
			continue
		}
		lines = append(lines, "link set "+name+" up", "addr add "+outerAddress+" dev "+name, "route add default via "+outerGateway)
	}
	if !found {
		return fmt.Errorf("no interface has the fabric's address %s", c.Fabric.MAC)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("set the network up: %w: %s", err, out)
	}
	return nil
}

func mountShares(shares []agent.Share) error {
	for _, s := range shares {
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
		if s.ReadOnly {
			flags |= unix.MS_RDONLY
		}
		if err := (mount{s.Tag, s.Target, s.Type, flags, s.Options}).do(); err != nil {
			return err
		}
	}
	return nil
}

// mountDisks mounts the job's own disks, and makes file systems on empty ones.
func mountDisks(c agent.Config) error {
	for _, d := range c.Disks {
		disk, err := awaitDisk(d.Serial)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(d.Target, 0o755); err != nil {
			return err
		}
		if !d.Empty {
			if err := mountWhatIs(disk, d.Target); err != nil {
				return err
			}
			continue
		}
		if err := makeExt4(disk, fmt.Sprintf("root_owner=%d:%d", c.UID, c.GID)); err != nil {
			return err
		}
		if err := (mount{disk, d.Target, "ext4", unix.MS_NOATIME | unix.MS_NOSUID | unix.MS_NODEV, ""}).do(); err != nil {
			return err
		}
		os.Remove(filepath.Join(d.Target, "lost+found")) //nolint:errcheck // it only looks like a file of the job's
	}
	return nil
}

// mountWhatIs mounts a disk of the user's, of whatever file system it has, to
// be read.
func mountWhatIs(disk, target string) error {
	var all error
	for _, kind := range []string{"ext4", "xfs", "squashfs", "erofs", "iso9660"} {
		err := (mount{disk, target, kind, unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV, ""}).do()
		if err == nil {
			return nil
		}
		all = errors.Join(all, err)
	}
	return fmt.Errorf("mount the disk for %s: it has none of these file systems: %w", target, all)
}

// makeExt4 makes a file system for one boot: without a journal, and quickly.
func makeExt4(disk, extended string) error {
	return command("mkfs.ext4", "-q", "-F", "-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,"+extended, "-m", "0", disk)
}

const data = "/var/lib/docker"

// startDocker gives docker its disk and starts it; its hand waits for it.
// containerd gets ready while dockerd does, which otherwise starts it late.
func startDocker(c agent.Config) error {
	disk, err := awaitDisk(agent.ScratchDisk)
	if err != nil {
		return err
	}
	if err := makeExt4(disk, "root_owner=0:0"); err != nil {
		return err
	}
	if err := (mount{disk, data, "ext4", unix.MS_NOATIME, ""}).do(); err != nil {
		return err
	}
	if c.Holds {
		if err := makeHeld(c); err != nil {
			return fmt.Errorf("make room for the run's directory: %w", err)
		}
	}
	if c.Image != nil {
		if err := giveImage(data, *c.Image); err != nil {
			return fmt.Errorf("give docker its image: %w", err)
		}
	}
	if err := os.WriteFile(containerdConfig, []byte(containerdText), 0o644); err != nil {
		return err
	}
	if err := service(c, "containerd", "--config", containerdConfig); err != nil {
		return err
	}
	argv := []string{"dockerd", "--host=unix://" + dockerSocket, "--containerd=" + containerdSocket, "--storage-driver=overlay2", "--data-root=" + data}
	if !c.Bridge {
		// Containers use the guest's own network. The rules for docker's
		// bridge are half of its time to start.
		argv = append(argv, "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-masq=false")
	} else if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	return service(c, argv...)
}

const (
	containerdConfig = "/run/bee/containerd.toml"
	containerdSocket = "/run/containerd/containerd.sock"
	containerdText   = `version = 2
root = "/var/lib/docker/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.restart"]
[grpc]
address = "/run/containerd/containerd.sock"
`
)

// service starts a program that stays, its words in a file of its name.
func service(c agent.Config, argv ...string) error {
	log, err := os.Create("/run/" + argv[0] + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	d := exec.Command(argv[0], argv[1:]...)
	d.Env = append(append(os.Environ(), imageEnvironment()...), c.Env...)
	d.Stdout, d.Stderr = log, log
	if err := d.Start(); err != nil {
		return err
	}
	go d.Wait() //nolint:errcheck // its hand finds it silent, and tells its log
	return nil
}

// imageEnvironment is what whoever built the image says that programs need, such
// as a proxy. What the host has comes after it, and counts more.
func imageEnvironment() []string {
	raw, _ := os.ReadFile("/etc/environment")
	var env []string
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(key, "#") {
			env = append(env, key+"="+strings.Trim(value, `"`))
		}
	}
	return env
}

// awaitDocker returns when dockerd answers.
func awaitDocker(ctx context.Context) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", dockerSocket)
	}}}
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) { // nothing tells when it listens
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(r)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		if ctx.Err() != nil || time.Since(begun) > dockerTimeout {
			log, _ := os.ReadFile("/run/dockerd.log")
			return &core.Error{Kind: core.Permanent, Op: "start docker in the guest", Err: fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])}
		}
	}
}

const dockerTimeout = 3 * time.Minute
