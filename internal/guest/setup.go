package guest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// Variables by which the agent reports to the container agent.
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
func runAgent(e ImageEngine) error {
	rootTime := uptime()
	c, err := readConfig()
	if err != nil {
		return err
	}
	port, err := findPort(api.NodePort)
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
	containerAgent := exec.Command(binary, api.Command, containerAgentArg)
	containerAgent.Stdout, containerAgent.Stderr = os.Stdout, os.Stderr
	containerAgent.Env = append(os.Environ(), rootVariable+"="+rootTime, "HOME=/", "USER="+c.User)
	if failed != nil {
		containerAgent.Env = append(containerAgent.Env, errorVariable+"="+failed.Error())
	}
	containerAgent.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.UID), Gid: uint32(c.GID), Groups: groups()}}
	if err := containerAgent.Start(); err != nil {
		return err
	}
	go serveRoot(c, v, e)
	if c.Template {
		if failed == nil {
			failed = warmUp(context.Background(), e)
		}
		if failed != nil { // its console shows it
			return failed
		}
		fmt.Println(api.Ready)
	}
	return containerAgent.Wait()
}

func readConfig() (api.Config, error) { return parseConfig(configFile) }

func parseConfig(file string) (api.Config, error) {
	var c api.Config
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	return c, err
}

// setUp brings everything up that needs root.
func setUp(c api.Config, v *volume) error {
	if err := errors.Join(writeAccount(c), writeNames(c)); err != nil {
		return err
	}
	modules := []string{"virtio_net", "virtio_rng", "9p", "9pnet_virtio"}
	if slices.ContainsFunc(c.Shares, func(s api.Share) bool { return s.Type == "virtiofs" }) {
		modules = append(modules, "virtiofs")
	}
	if c.Emulated {
		modules = append(modules, "e1000")
	}
	if c.Template { // and what is else loaded when it is wanted
		modules = append(modules, "erofs", "veth", "bridge")
	}
	if err := command(append([]string{"modprobe", "-a"}, modules...)...); err != nil {
		return err
	}
	if c.Template {
		return startDocker(c)
	}
	return core.Together(append(personal(c, v), func() error {
		if c.Bare {
			return mountTree()
		}
		return startDocker(c)
	}))
}

// personal is what one run's guest has and others have not.
func personal(c api.Config, v *volume) []func() error {
	online := make(chan struct{})
	return []func() error{
		func() error {
			over, err := network(c)
			close(online)
			if err != nil {
				return err
			}
			return startRDMA(c, over)
		},
		func() error { return startPool(c) },
		func() error { return mountShares(c.Shares) },
		func() error { return mountDisks(c) },
		func() error { return v.mount(c, online) },
	}
}

// command runs a program of the guest, whose words are the error.
func command(argv ...string) error {
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// writeNames names the guest and its peers.
func writeNames(c api.Config) error {
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return err
	}
	for name, text := range nameFiles(c) {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// nameFiles are the files with the names of the guest and its peers. A machine's name servers are from DHCP.
func nameFiles(c api.Config) map[string]string {
	hosts := "127.0.0.1 localhost\n::1 localhost\n"
	if len(c.Hosts) == 0 { // nobody else names this guest
		hosts += "127.0.1.1 " + c.Hostname + "\n"
	}
	hosts += strings.Join(c.Hosts, "\n") + "\n"
	files := map[string]string{"/etc/hostname": c.Hostname + "\n", "/etc/hosts": hosts}
	if !c.Machine {
		files["/run/resolv.conf"] = "nameserver " + outerDNS + "\n"
	}
	if !c.Template {
		id := make([]byte, 16)
		rand.Read(id)
		files["/etc/machine-id"] = hex.EncodeToString(id) + "\n"
	}
	return files
}

// writeAccount makes the user's account, in place of one of that name that the image
// has with another number, and perhaps locked.
func writeAccount(c api.Config) error {
	if c.UID == 0 {
		return nil
	}
	if err := errors.Join(dropEntry("/etc/passwd", c.User), dropEntry("/etc/shadow", c.User)); err != nil {
		return err
	}
	home := path.Join("/home", c.User)
	if err := errors.Join(os.MkdirAll(home, 0o700), own(home, c.UID, c.GID)); err != nil {
		return fmt.Errorf("make the user's home: %w", err)
	}
	if err := appendLine("/etc/passwd", fmt.Sprintf("%s:x:%d:%d:BEE:%s:/bin/bash", c.User, c.UID, c.GID, home)); err != nil {
		return err
	}
	if err := appendLine("/etc/group", fmt.Sprintf("%s:x:%d:", c.User, c.GID)); err != nil {
		return err
	}
	return joinGroup("/etc/group", dockerGroup, c.User)
}

// dockerGroup may use docker: the container agent, and the user by ssh.
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

// dropEntry removes a name from a file as /etc/passwd is.
func dropEntry(file, name string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var text strings.Builder
	for line := range strings.Lines(string(raw)) {
		if !strings.HasPrefix(line, name+":") {
			text.WriteString(line)
		}
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

// groups are those of the container agent: it may use docker.
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

// network gives the interfaces their addresses: the fabric's, which also gets its
// name, by its MAC, any other that of QEMU's user network. The name of that which leads to
// other guests is returned; there being none, of the other.
func network(c api.Config) (over string, err error) {
	lines := []string{"link set lo up"}
	names, err := filepath.Glob("/sys/class/net/*/address")
	if err != nil {
		return "", err
	}
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
			if to := c.Fabric.Name; to != "" {
				lines = append(lines, "link set "+name+" name "+to)
				name = to
			}
			over = name
			lines = append(lines, fmt.Sprintf("link set %s mtu %d up", name, c.Fabric.MTU), fmt.Sprintf("addr add %s dev %s", c.Fabric.Address, name))
			continue
		}
		if c.Fabric == nil {
			over = name
		}
		lines = append(lines, "link set "+name+" up", "addr add "+outerAddress+" dev "+name, "route add default via "+outerGateway)
	}
	if c.Fabric != nil && over == "" {
		return "", fmt.Errorf("no interface has the fabric's address %s", c.Fabric.MAC)
	}
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("set the network up: %w: %s", err, out)
	}
	return over, nil
}

func mountShares(shares []api.Share) error {
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
func mountDisks(c api.Config) error {
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
		fsutil.TryRemove(filepath.Join(d.Target, "lost+found")) // it only looks like a file of the job's
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
