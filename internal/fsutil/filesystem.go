package fsutil

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// FileSystem describes the file system below a path, as the kernel has it mounted.
type FileSystem struct {
	Type    string   // such as "ext4" or "nfs4"; "" where the kernel does not say
	Options []string // of the mount and of the file system
}

// Reach is how far a lock on a file keeps others out.
type Reach int

const (
	// ReachUnknown is that of a file system that does not say. It counts as ReachHost.
	ReachUnknown Reach = iota
	// ReachHost keeps out processes of the same machine only.
	ReachHost
	// ReachAll keeps out processes of all machines that use the file system.
	ReachAll
)

// localTypes are file systems that no other machine has mounted.
var localTypes = []string{
	"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2",
	"tmpfs", "ramfs", "rootfs", "overlay", "vfat", "exfat", "ntfs3",
}

// Local reports whether this machine alone uses the file system, as far as is known.
func (f FileSystem) Local() bool { return slices.Contains(localTypes, f.Type) }

// Locks reports how far a lock reaches.
func (f FileSystem) Locks() Reach {
	has := func(options ...string) bool {
		return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(f.Options, o) })
	}
	switch f.Type {
	case "nfs", "nfs4":
		if has("nolock", "local_lock=all", "local_lock=flock") {
			return ReachHost
		}
		return ReachAll
	case "lustre":
		if has("flock") {
			return ReachAll
		}
		return ReachHost
	case "cifs", "smb3":
		if has("nobrl") {
			return ReachHost
		}
		return ReachAll
	case "ceph", "gfs2", "ocfs2":
		return ReachAll
	}
	if f.Local() {
		return ReachAll
	}
	return ReachUnknown
}

// FileSystemOf describes the file system that holds path, which must exist.
func FileSystemOf(path string) (FileSystem, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return FileSystem{}, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return FileSystem{}, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return FileSystem{}, err
	}
	return mounted(mountID(info), mounts), nil
}

func mountID(fdinfo []byte) string {
	lines := bufio.NewScanner(bytes.NewReader(fdinfo))
	for lines.Scan() {
		if id, is := strings.CutPrefix(lines.Text(), "mnt_id:"); is {
			return strings.TrimSpace(id)
		}
	}
	return ""
}

// mounted finds a mount by its number in the text of mountinfo (proc_pid_mountinfo(5)).
func mounted(id string, mountinfo []byte) FileSystem {
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	for lines.Scan() {
		of, device, found := strings.Cut(lines.Text(), " - ")
		mount, fields := strings.Fields(of), strings.Fields(device)
		if !found || len(mount) < 6 || mount[0] != id || len(fields) < 1 {
			continue
		}
		options := strings.Split(mount[5], ",")
		if len(fields) > 2 {
			options = append(options, strings.Split(fields[2], ",")...)
		}
		return FileSystem{Type: fields[0], Options: options}
	}
	return FileSystem{}
}
