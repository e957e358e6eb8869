package fsutil

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Exchange gives two names in the tree what is at the other, at once. A file system that
// cannot answers with EINVAL or ENOSYS.
func (r *Root) Exchange(one, other string) error {
	return r.dir.move("exchange", one, r.dir, other, func(dir int, base string, at int, as string) error {
		return unix.Renameat2(dir, base, at, as, unix.RENAME_EXCHANGE)
	})
}

// Unlink removes a name that is no directory's.
func (r *Root) Unlink(name string) error {
	return r.dir.at("remove", name, func(dir int, base string) error { return unix.Unlinkat(dir, base, 0) })
}

// Rmdir removes an empty directory.
func (r *Root) Rmdir(name string) error {
	return r.dir.at("remove directory", name, func(dir int, base string) error { return unix.Unlinkat(dir, base, unix.AT_REMOVEDIR) })
}

// SetTime sets when a file or directory was last modified.
func (r *Root) SetTime(name string, modified time.Time) error {
	fd, err := r.dir.openat(name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(modified.UnixNano())}
	return r.dir.fail("set time of", name, unix.UtimesNanoAt(unix.AT_FDCWD, pinned+strconv.Itoa(fd), times, 0))
}
