package fsutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// mostLinks is how many links a path may lead over, as for the kernel.
const mostLinks = 40

// CheckParents reports whether other users can put something else in the place of path,
// which may be missing. The rules are those of sshd's StrictModes, for all directories
// that lead to path, and those that links on the way lead over: each belongs to this user
// or root, and nobody else can write to it. In a directory with the sticky bit others may
// write, as long as what follows belongs to this user or root. A group of which the owner
// is the only member counts as the owner.
func CheckParents(path string) error { return checkPath(path, false) }

// OwnDir makes a directory for this user alone, if it is missing, and reports whether
// others can write to it, or put something else in its place: see CheckParents.
func OwnDir(path string) error {
	if err := checkPath(path, true); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// MkdirAll, not Mkdir: two processes may make it at once.
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	return checkPath(path, true)
}

// OpenOwn opens a directory in a place where others may be first, such as /tmp. It is an
// error if the name is a link, or if the directory belongs to someone else or others can
// write to it.
func OpenOwn(dir string) (*Root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	r := &Root{dir: directory{os.NewFile(uintptr(fd), dir)}}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	switch {
	case err != nil:
		err = &fs.PathError{Op: "stat", Path: dir, Err: err}
	case int(st.Uid) != os.Geteuid():
		err = untrusted(dir, dir, fmt.Errorf("it belongs to user %d", st.Uid))
	case st.Mode&0o022 != 0:
		err = untrusted(dir, dir, fmt.Errorf("others can write to it (mode %#o)", st.Mode&0o7777))
	default:
		return r, nil
	}
	r.Close()
	return nil, err
}

func checkPath(path string, own bool) error {
	if !filepath.IsAbs(path) {
		return &core.Error{Kind: core.Invalid, Op: "use", Object: path, Err: errors.New("it is not an absolute path"), Remedy: "Give a path that begins with /."}
	}
	var accounts accounts
	at, rest := "/", split(path)
	dir, err := lstat(at)
	if err != nil {
		return err
	}
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			if dir, err = lstat(at); err != nil {
				return err
			}
			continue
		}
		next := filepath.Join(at, name)
		is, err := lstat(next)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if why := accounts.shared(dir, is); why != nil {
			return untrusted(path, at, why)
		}
		switch {
		case err != nil && own:
			return err
		case err != nil:
			return nil
		case is.Mode&unix.S_IFMT == unix.S_IFLNK:
			if links++; links > mostLinks {
				return &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
			}
			target, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(target) {
				at = "/"
				if dir, err = lstat(at); err != nil {
					return err
				}
			}
			rest = append(split(target), rest...)
		case is.Mode&unix.S_IFMT != unix.S_IFDIR && (own || len(rest) > 0):
			return &os.PathError{Op: "open", Path: next, Err: unix.ENOTDIR}
		default:
			at, dir = next, is
		}
	}
	if !own {
		return nil
	}
	if int(dir.Uid) != os.Geteuid() {
		return untrusted(path, at, fmt.Errorf("it belongs to user %d", dir.Uid))
	}
	if accounts.writable(dir) {
		return untrusted(path, at, fmt.Errorf("others can write to it (mode %#o)", dir.Mode&0o7777))
	}
	return nil
}

// split gives the elements of a path. Those of a link may be "..".
func split(path string) (elements []string) {
	for element := range strings.SplitSeq(path, "/") {
		if element != "" && element != "." {
			elements = append(elements, element)
		}
	}
	return elements
}

func lstat(path string) (*unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	for errors.Is(err, unix.EINTR) {
		err = unix.Lstat(path, &st)
	}
	if err != nil {
		return nil, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return &st, nil
}

func untrusted(path, at string, why error) error {
	e := &core.Error{Kind: core.Unsupported, Op: "use directory", Object: path, Err: why, Remedy: "Choose a directory in your home, or have its mode set to 755 (chmod go-w)."}
	if filepath.Clean(path) != at {
		e.Err = fmt.Errorf("%s leads to it, and %w", at, why)
	}
	return e
}
