package rootless

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// kernelFiles are what of the host's kernel /proc lets its owner change. Files
// of processes are not among them.
var kernelFiles = []string{"sys", "sysrq-trigger", "irq", "bus", "fs"} // a table

// shield makes read-only what of the host's kernel /proc and /sys let their
// owner change: the host's root, who has lost his capabilities in a container,
// but owns those files still. Nobody else may write to them anyway.
func (s *setup) shield(root string) error {
	if !s.HostRoot {
		return nil
	}
	proc, err := inside(root, "/proc", true) // where it was mounted, whatever links the image has
	if err != nil {
		return err
	}
	var is unix.Statfs_t
	if err := unix.Statfs(proc, &is); err != nil {
		return err
	}
	if is.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("the image has /proc in the place of something else")
	}
	for _, name := range kernelFiles {
		path := filepath.Join(proc, name)
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err := unix.Mount(path, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind /proc/%s: %w", name, err)
		}
		if err := readOnly(path); err != nil {
			return fmt.Errorf("/proc/%s: %w", name, err)
		}
	}
	sys, err := inside(root, "/sys", true)
	if err != nil {
		return err
	}
	err = unix.MountSetattr(unix.AT_FDCWD, sys, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.12; what is mounted below keeps its own say
		err = readOnly(sys)
	}
	return err
}
