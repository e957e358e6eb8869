package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/vm/qemu"
)

// isReady is what the stock guest says on its console.
const isReady = "DOCKER IS READY"

// stockImage is Debian as its cloud images are: the generic initial RAM disk,
// systemd, udev, cloud-init and sshd, with Debian's docker, and a service that
// reports when docker answers.
const stockImage = `name: stock
build:
  debian: bookworm
  slim: true
  packages: [linux-image-amd64, initramfs-tools, systemd-sysv, udev, dbus, cloud-init, openssh-server, e2fsprogs, docker.io]
  run:
    - "mkdir -p /var/lib/cloud/seed/nocloud && echo 'instance-id: stock' > /var/lib/cloud/seed/nocloud/meta-data && printf '#cloud-config\\nhostname: stock\\n' > /var/lib/cloud/seed/nocloud/user-data"
    - "printf '[Unit]\nAfter=docker.service\n[Service]\nExecStart=/bin/sh -c \"until docker info > /dev/null 2>&1; do sleep 0.1; done; echo ` + isReady + ` > /dev/ttyS0\"\n[Install]\nWantedBy=multi-user.target\n' > /etc/systemd/system/ready.service && systemctl enable ready.service docker.service systemd-networkd.service"
run: ["true"]
`

// stock compares the start of a guest with that of the same Debian as it comes:
// both with the same QEMU, accelerator, processors and memory, from the start of
// QEMU until docker answers.
func (g guestBench) stock(rounds int) error {
	tree, disk, err := g.stockDisk()
	if err != nil {
		return err
	}
	var own, others []time.Duration
	for range max(rounds/10, 3) + 1 { // the first is not counted
		took, err := g.coldStart()
		if err != nil {
			return err
		}
		own = append(own, took)
		if took, err = g.stockStart(tree, disk); err != nil {
			return err
		}
		others = append(others, took)
	}
	g.b.row("start of a virtual machine until docker answers", middle(own[1:]), "Debian as it comes", middle(others[1:]))
	return nil
}

// stockDisk makes the stock guest's root file system, and its disk.
func (g guestBench) stockDisk() (tree, disk string, err error) {
	disk = filepath.Join(g.b.dir, "stock.ext4")
	if tree, err = g.stockTree(); err != nil {
		return "", "", err
	}
	mke2fs := []string{"mke2fs", "-q", "-t", "ext4", "-d", tree, disk, "6G"}
	if os.Geteuid() != 0 { // whose images' files are all his own: in the guest they are root's
		mke2fs = append([]string{"unshare", "--map-root-user"}, mke2fs...)
	}
	_, err = g.b.do(mke2fs...)
	return tree, disk, err
}

// middle is the median.
func middle[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// stockTree builds the stock guest's root file system.
func (g guestBench) stockTree() (string, error) {
	if err := g.b.write("stock.yaml", stockImage); err != nil {
		return "", err
	}
	out, err := g.b.command(g.b.bee, "image", "build", "stock.yaml").Output()
	if err != nil {
		return "", fmt.Errorf("build the stock guest: %w", err)
	}
	cache := os.Getenv("BEE_CACHE")
	if cache == "" {
		if cache, err = os.UserCacheDir(); err != nil {
			return "", err
		}
		cache = filepath.Join(cache, "bee")
	}
	_, id, _ := strings.Cut(strings.TrimSpace(string(out)), ":")
	return filepath.Join(cache, "trees", id), nil
}

// stockStart boots the stock guest.
func (g guestBench) stockStart(tree, disk string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	kernels, err := filepath.Glob(tree + "/boot/vmlinuz-*")
	if err != nil || len(kernels) != 1 {
		return 0, fmt.Errorf("the stock guest has kernels %q", kernels)
	}
	initrds, err := filepath.Glob(tree + "/boot/initrd.img-*")
	if err != nil || len(initrds) != 1 {
		return 0, fmt.Errorf("the stock guest has initial RAM disks %q", initrds)
	}
	console := filepath.Join(g.b.dir, "stock.console")
	os.Remove(console)
	m := qemu.Machine{
		Program: []string{qemu.Program()}, Name: "stock", Accel: g.b.accel, CPU: "max", Memory: 2 << 30, Topology: qemu.Topology{Sockets: 1, Cores: 2, Threads: 1},
		Kernel: kernels[0], Initrd: initrds[0], Append: "root=/dev/vda rw console=ttyS0 ds=nocloud systemd.firstboot=off", Console: console,
		Disks: []qemu.Disk{{File: disk, Serial: "root"}}, Nets: []qemu.Net{{MAC: "52:54:00:00:00:01", Restricted: true}}, Extra: []string{"-snapshot"},
	}
	argv, files := m.Command()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.ExtraFiles = files
	return untilPrinted(ctx, "stock guest", c, console, isReady)
}

// untilPrinted returns how long a guest's QEMU takes until the guest prints a text on its console, a file. It then
// ends it. what names the guest in errors.
func untilPrinted(ctx context.Context, what string, c *exec.Cmd, console, wanted string) (time.Duration, error) {
	var printed bytes.Buffer
	c.Stdout, c.Stderr = &printed, &printed
	begun := time.Now()
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer func() { c.Process.Kill(); procid.Reap(c) }() // it is ours
	for {
		text, _ := os.ReadFile(console)
		if bytes.Contains(text, []byte(wanted)) {
			return time.Since(begun), nil
		}
		if ctx.Err() != nil || c.Process.Signal(syscall.Signal(0)) != nil {
			return 0, fmt.Errorf("the %s did not come up: %s\n%s", what, &printed, text[max(len(text)-2000, 0):])
		}
		time.Sleep(20 * time.Millisecond) // a hundredth of what is measured at the most
	}
}
