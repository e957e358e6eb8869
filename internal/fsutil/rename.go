package fsutil

import (
	"errors"

	"golang.org/x/sys/unix"
)

// RenameNew moves what is at a name to a name in another tree, or in the same, at which
// nothing is. Else the error wraps fs.ErrExist, and both are as before.
//
// A file system without renameat2(2), such as NFS, gives a file its new name by link(2).
// Directories there, and files where there are no links either, are renamed after a look:
// whatever appears in that moment is replaced only if rename(2) does so.
func (r *Root) RenameNew(from string, to *Root, name string) error {
	return r.dir.move("rename", from, to.dir, name, renameNew)
}

func renameNew(dir int, base string, at int, as string) error {
	err := unix.Renameat2(dir, base, at, as, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM): // EPERM: a filter of system calls
		return renameNewStepwise(dir, base, at, as)
	}
	return err
}

// renameNewStepwise does what renameat2 would.
func renameNewStepwise(dir int, base string, at int, as string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err := unix.Linkat(dir, base, at, as, 0)
		if err == nil {
			if err = unix.Unlinkat(dir, base, 0); err != nil {
				err = errors.Join(err, unix.Unlinkat(at, as, 0))
			}
			return err
		}
		if !Linkless(err) {
			return err
		}
	}
	return renameLooking(dir, base, at, as)
}

// Linkless reports whether an error of link(2) says that there are no links here.
func Linkless(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EMLINK)
}

func renameLooking(dir int, base string, at int, as string) error {
	var st unix.Stat_t
	err := unix.Fstatat(at, as, &st, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		return unix.EEXIST
	}
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	err = unix.Renameat(dir, base, at, as)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) { // it has appeared since
		return unix.EEXIST
	}
	return err
}
