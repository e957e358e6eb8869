package leasedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sys/unix"
)

// ClaimName is the file in a lease's directory that holds the inode of the
// run's directory, as proof that it is this lease's and not another attempt's.
const ClaimName = "claim"

// mostClaim bounds a claim, in bytes.
const mostClaim = 100

// MadeName is the run's directory while it is in the lease's: before it is
// put in its place, and after it is taken away. So at each moment it is found,
// by one of the two names, and no one else's is ever taken for it.
const MadeName = "run"

// Claim makes the run's directory dir on a site. Busy: there is one.
func Claim(site, leaseDir, dir string) error {
	err := claim(leaseDir, dir)
	if errors.Is(err, fs.ErrExist) {
		return &core.Error{
			Kind: core.Busy, Op: "use site", Object: site, Err: fmt.Errorf("directory %s is in use", dir),
			Remedy: "Another attempt of the run may still hold it: `bee sweep` removes what no live run owns.",
		}
	}
	if err != nil {
		return Unusable(dir, err)
	}
	return nil
}

func claim(leaseDir, dir string) error {
	made := filepath.Join(leaseDir, MadeName)
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	proof, err := inodeOf(made)
	if err != nil {
		return err
	}
	if err := fsutil.WriteFile(filepath.Join(leaseDir, ClaimName), []byte(proof), 0o600); err != nil {
		return err
	}
	err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, dir, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) { // a file system that cannot, such as NFS
		if _, err := os.Lstat(dir); err == nil {
			return os.ErrExist
		}
		err = os.Rename(made, dir)
	}
	return err
}

// Unclaim takes the run's directory back into the lease's, if it is there.
func Unclaim(leaseDir, dir string) error {
	proof, err := fsutil.ReadFile(leaseDir, ClaimName, mostClaim)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // never claimed, or taken back already
	}
	if err != nil {
		return err
	}
	now, err := inodeOf(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // it may be there
	}
	if err == nil && now == string(proof) {
		// Moving a directory takes the right to write to it.
		if err := os.Chmod(dir, 0o700); err != nil {
			return err
		}
		if err := os.Rename(dir, filepath.Join(leaseDir, MadeName)); err != nil {
			return err
		}
	}
	// The inode may now come to mean another directory.
	return os.Remove(filepath.Join(leaseDir, ClaimName))
}

// Aside takes the run's directory out of the way of the run's next lease, and
// gives the path that it has until this one is released.
func Aside(dir, base string, o core.Owner) (string, error) {
	if err := Unclaim(dir, RunDir(base, o.Run)); err != nil {
		return "", &core.Error{Op: "put aside the files of", Object: o.String(), Err: err}
	}
	return filepath.Join(dir, MadeName), nil
}

// ReuseVolume moves a tree from the directory of one lease to that of another. One that
// has been moved already, and nobody heard of it, is not missed.
func ReuseVolume(from, to string) error {
	err := os.MkdirAll(filepath.Dir(to), 0o700)
	if err == nil {
		err = treesync.Move(from, to)
	}
	if err == nil {
		return nil
	}
	e := &core.Error{Kind: core.KindOf(err), Op: "take over", Object: from, Err: err}
	if errors.Is(err, fs.ErrNotExist) {
		if _, there := os.Lstat(to); there == nil {
			return nil
		}
		e.Kind = core.NotFound
	}
	return e
}

func inodeOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}
