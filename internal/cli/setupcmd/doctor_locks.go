package setupcmd

import (
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// lockReach reports how far locks on files of a directory reach, or of the first directory
// above it that exists; false where that cannot be found out.
func lockReach(dir string) (f fsutil.FileSystem, known bool) {
	for {
		if there, err := fsutil.Exists(dir); err != nil {
			return f, false
		} else if there {
			f, err := fsutil.FileSystemOf(dir)
			return f, err == nil
		}
		if dir == filepath.Dir(dir) {
			return f, false
		}
		dir = filepath.Dir(dir)
	}
}

// locks is a finding about a directory that several machines may use, and whose locks keep
// out processes of one machine only; found is false where there is nothing to warn of.
func locks(name, dir string, f fsutil.FileSystem) (_ finding, found bool) {
	warning := finding{Area: "locks", Name: name, Status: risky}
	switch f.Locks() {
	case fsutil.ReachAll:
		return finding{}, false
	case fsutil.ReachHost:
		warning.Detail = dir + " is on " + f.Type + ", mounted so that locks are seen on this machine alone: two machines that use it at once damage what bee keeps there"
		warning.Remedy = "Use it from one machine at a time, or choose a local directory; or have the administrator mount it without nolock, local_lock and nobrl (NFS, SMB), or with flock (Lustre)."
	default:
		warning.Status = untried
		warning.Detail = dir + " is on " + f.Type + ", which does not say whether other machines see locks: use it from one machine at a time, or choose a local directory"
	}
	return warning, true
}
