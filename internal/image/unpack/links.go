package unpack

import (
	"errors"
	"fmt"
	"io"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// linkCopy stands in for a hard link that the file system refuses, as the file has as
// many as fit: ext4 takes 65,000. The file is copied once, and later links are to the
// copy, for as long as that takes more.
func (u *Unpacker) linkCopy(source string, dir int, from string, fd int, base, own string) error {
	if last, ok := u.copies[source]; ok {
		above, name := path.Split(last)
		if _, at, err := u.dirs.walk(above, nil); err == nil && unix.Linkat(at, name, fd, base, 0) == nil {
			delete(u.unusual, own)
			return nil
		}
	}
	if err := u.copyFile(dir, from, fd, base); err != nil {
		return fmt.Errorf("copy what takes no further link: %w", err)
	}
	if u.copies == nil {
		u.copies = map[string]string{}
	}
	u.copies[source] = own
	if o, ok := u.unusual[source]; ok {
		u.unusual[own] = o
	} else {
		delete(u.unusual, own)
	}
	return nil
}

func (u *Unpacker) copyFile(dir int, from string, fd int, base string) (err error) {
	in, err := unix.Openat(dir, from, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(in)
	var st unix.Stat_t
	if err := unix.Fstat(in, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return unix.EMLINK
	}
	if err := u.takesSpace(st.Size); err != nil {
		return err
	}
	out, err := unix.Openat(fd, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Close(out)) }() // which may be what finds the disk full
	for left := st.Size; left > 0; {
		n, err := unix.Read(in, u.buf[:min(left, int64(len(u.buf)))])
		if err == unix.EINTR {
			continue
		}
		if err == nil && n == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if err := writeAt(out, u.buf[:n], st.Size-left); err != nil {
			return err
		}
		left -= int64(n)
	}
	if err := unix.Fchmod(out, st.Mode&0o7777); err != nil {
		return err
	}
	return futimens(out, time.Unix(st.Mtim.Unix()))
}
