package spec

import (
	"fmt"
	"io/fs"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Stranger returns why a file may have been written by another user, by
// its owner and by who may change it or put another one in its place; "": nobody else.
func Stranger(file string) (why string, err error) {
	path, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	for _, p := range []string{path, realPath(path)} { // who may replace a link may replace the file
		if why, err = changeable(p); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// Stranger returns why the Beefile, or the file of its array's cases, may have been written
// by another user; "": nobody else. Values of cases are part of paths on this machine.
func (t *Draft) Stranger() (why string, err error) {
	for _, file := range []string{t.report.file, t.casesFile} {
		if file == "" {
			continue
		}
		if why, err = Stranger(file); why != "" || err != nil {
			return why, err
		}
	}
	return "", nil
}

// changeable looks at a path and at the directories that it is in.
func changeable(path string) (string, error) {
	for p := path; ; p = filepath.Dir(p) {
		var st unix.Stat_t
		if err := unix.Stat(p, &st); err != nil {
			return "", &fs.PathError{Op: "look at", Path: p, Err: err}
		}
		if !fsutil.Ours(st.Uid) {
			return fmt.Sprintf("%s belongs to %s", p, userName(st.Uid)), nil
		}
		// In a sticky directory others may add files, but not replace this one. What the
		// Beefile names beside itself may be theirs.
		sticky := st.Mode&unix.S_ISVTX != 0 && p != path && p != filepath.Dir(path)
		switch {
		case sticky:
		case st.Mode&0o002 != 0:
			return fmt.Sprintf("everybody may write to %s", p), nil
		case st.Gid != 0 && fsutil.WritableByOthers(&st):
			return fmt.Sprintf("group %s may write to %s", groupName(st.Gid), p), nil
		}
		if p == filepath.Dir(p) {
			return "", nil
		}
	}
}

func userName(uid uint32) string {
	if u, err := user.LookupId(strconv.Itoa(int(uid))); err == nil {
		return u.Username
	}
	return "user " + strconv.Itoa(int(uid))
}

func groupName(gid uint32) string {
	if g, err := user.LookupGroupId(strconv.Itoa(int(gid))); err == nil {
		return g.Name
	}
	return strconv.Itoa(int(gid))
}
