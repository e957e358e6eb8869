package guest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// mountMachine mounts the root of a machine that has booted a disk of ours: the root file system, and over it what the
// machine writes, which its next boot finds.
func mountMachine() error {
	root, err := awaitPartition("", api.RootPartition)
	if err != nil {
		return err
	}
	disk := filepath.Dir(root)
	if err := enlarge(deviceOf(disk), api.DataPartition); err != nil {
		fmt.Fprintln(os.Stderr, "bee: enlarge the last partition:", err) // it has room for something all the same
	}
	if root, err = awaitPartition("", api.RootPartition); err != nil { // another disk may have come meanwhile
		return err
	}
	data, err := awaitPartition(disk, api.DataPartition)
	if err != nil {
		return err
	}
	if err := (mount{deviceOf(root), "/lower", "squashfs", unix.MS_RDONLY, ""}).do(); err != nil {
		return err
	}
	if err := mountData(deviceOf(data)); err != nil {
		return err
	}
	for _, d := range []string{"/upper/data", "/upper/work", dockerData} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// dockerData is where docker stores what it has: that can be no overlay.
const dockerData = "/upper/docker"

// mountData mounts what a machine writes. At its first boot it makes the file system.
func mountData(disk string) error {
	empty, err := blank(disk)
	if err != nil {
		return err
	}
	if empty {
		if err := inLower("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,nodiscard", disk); err != nil {
			return err
		}
	}
	if err := (mount{disk, "/upper", "ext4", unix.MS_NOATIME, ""}).do(); err != nil {
		return err
	}
	if empty {
		return nil
	}
	if err := fillPartition(disk); err != nil { // it has room for something all the same
		fmt.Fprintln(os.Stderr, "bee:", err)
	}
	return nil
}

// fillPartition has the file system on /upper fill its partition: the disk may be larger than at the boot before. The
// program enlarges what is mounted where it finds it mounted only, which /upper is not below /lower.
func fillPartition(disk string) error {
	const at = "/lower/mnt"
	if err := unix.Mount("/upper", at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount /upper on %s: %w", at, err)
	}
	defer unix.Unmount(at, unix.MNT_DETACH) //nolint:errcheck // nothing needs it later
	return inLower("resize2fs", disk)
}

// blank reports whether a disk has nothing where a file system has its description.
func blank(disk string) (bool, error) {
	f, err := os.Open(disk)
	if err != nil {
		return false, err
	}
	defer f.Close()
	begin := make([]byte, 64<<10)
	if _, err := io.ReadFull(f, begin); err != nil {
		return false, err
	}
	return bytes.Equal(begin, make([]byte, len(begin))), nil
}

// inLower runs a program of the root file system before that is the root.
func inLower(argv ...string) error {
	for _, d := range []string{"/dev", "/proc"} {
		if err := unix.Mount(d, "/lower"+d, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		defer unix.Unmount("/lower"+d, unix.MNT_DETACH) //nolint:errcheck // nothing needs them later
	}
	c := exec.Command(argv[0], argv[1:]...)
	for _, dir := range []string{"/usr/sbin/", "/sbin/"} { // it is looked for before the root is another one
		if _, err := os.Stat("/lower" + dir + argv[0]); err == nil {
			c.Path, c.Err = dir+argv[0], nil
			break
		}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Chroot: "/lower"}
	c.Dir = "/"
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, core.Printable(string(out), 500))
	}
	return nil
}

// mountRoot mounts the root of a guest that its host has prepared, which forgets what it wrote.
func mountRoot() error {
	disk, err := awaitDisk(api.RootDisk)
	if err != nil {
		return err
	}
	if err := mountAll(
		mount{disk, "/lower", "squashfs", unix.MS_RDONLY, ""},
		mount{"upper", "/upper", "tmpfs", 0, ""},
	); err != nil {
		return err
	}
	return errors.Join(os.Mkdir("/upper/data", 0o755), os.Mkdir("/upper/work", 0o755))
}
