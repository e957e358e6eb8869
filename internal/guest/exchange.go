package guest

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// exchange has the files of one uid be another's, and the other way round, as a file
// system is mounted; and so with gids.
type exchange struct{ uids, gids [2]int }

// mount mounts a file system with its owners exchanged.
func (x exchange) mount(m mount) error {
	if err := m.do(); err != nil {
		return err
	}
	tree, err := unix.OpenTree(unix.AT_FDCWD, m.target, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return fmt.Errorf("open %s: %w", m.target, err)
	}
	defer unix.Close(tree)
	if err := unix.Unmount(m.target, 0); err != nil { // only one that is nowhere yet can be changed
		return fmt.Errorf("unmount %s: %w", m.target, err)
	}
	owners, err := x.namespace()
	if err != nil {
		return fmt.Errorf("make a user namespace for the image's owners: %w", err)
	}
	defer owners.Close()
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(owners.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, attr); err != nil {
		return fmt.Errorf("change the owners in %s: %w", m.target, err)
	}
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, m.target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("mount %s again: %w", m.target, err)
	}
	return nil
}

// namespace is a user namespace with the exchange as its map, which lives as long as
// the file is open.
func (x exchange) namespace() (*os.File, error) {
	holder := exec.Command("cat") // until its input ends
	in, err := holder.StdinPipe()
	if err != nil {
		return nil, err
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER, UidMappings: exchanged(x.uids), GidMappings: exchanged(x.gids)}
	if err := holder.Start(); err != nil {
		return nil, err
	}
	defer procid.Reap(holder) // what it was for is open, or an error is reported
	defer in.Close()
	return os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
}

// exchanged maps all ids to themselves, but two to each other.
func exchanged(ids [2]int) []syscall.SysProcIDMap {
	low, high := min(ids[0], ids[1]), max(ids[0], ids[1])
	const end = math.MaxUint32 // which is no id
	if low == high {
		return []syscall.SysProcIDMap{{Size: end}}
	}
	all := []syscall.SysProcIDMap{
		{Size: low},
		{ContainerID: low, HostID: high, Size: 1},
		{ContainerID: low + 1, HostID: low + 1, Size: high - low - 1},
		{ContainerID: high, HostID: low, Size: 1},
		{ContainerID: high + 1, HostID: high + 1, Size: end - high - 1},
	}
	return slices.DeleteFunc(all, func(m syscall.SysProcIDMap) bool { return m.Size == 0 })
}
