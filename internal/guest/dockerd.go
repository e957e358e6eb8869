package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// makeExt4 makes a file system for one boot: without a journal, and quickly.
func makeExt4(disk, extended string) error {
	return command("mkfs.ext4", "-q", "-F", "-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard,"+extended, "-m", "0", disk)
}

const data = "/var/lib/docker"

// mountScratch gives docker its disk.
func mountScratch(c api.Config) error {
	disk, err := awaitDisk(api.ScratchDisk)
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
	return nil
}

// startDocker gives docker its disk and starts it; the container agent waits for it.
// containerd gets ready while dockerd does, which otherwise starts it late.
func startDocker(c api.Config) error {
	if !c.Machine { // a machine has mounted what docker keeps before its root
		if err := mountScratch(c); err != nil {
			return err
		}
	}
	if c.Template {
		if err := errors.Join(keepLayer(data, imageLayer), keepLayer(data, userLayer), keepLayer(data, warmLayer)); err != nil {
			return fmt.Errorf("keep a place for docker's images: %w", err)
		}
	}
	if c.Image != nil {
		if err := giveImage(c); err != nil {
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
func service(c api.Config, argv ...string) error {
	log, err := os.Create("/run/" + argv[0] + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	d := exec.Command(argv[0], argv[1:]...)
	d.Env = append(os.Environ(), environment(c)...)
	d.Stdout, d.Stderr = log, log
	if err := d.Start(); err != nil {
		return err
	}
	go procid.Reap(d) // the container agent finds it silent, and reports to its log
	return nil
}

// awaitDocker returns when dockerd answers.
func awaitDocker(ctx context.Context, e Engine) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) { // nothing reports when it listens
		err := e.Ping(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || time.Since(begun) > dockerTimeout {
			log, _ := os.ReadFile("/run/dockerd.log")
			return &core.Error{Kind: core.Permanent, Op: "start docker in the guest", Err: fmt.Errorf("%w\n%s", err, log[max(0, len(log)-2000):])}
		}
	}
}

// dockerTimeout is by the guest's clock, and so beyond what its host waits for one
// that it lets run.
const dockerTimeout = 20 * time.Minute
