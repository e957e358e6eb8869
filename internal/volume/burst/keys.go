package burst

import (
	"path"
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// writable reports as EROFS what the remote had before, where that is protected. Callers hold the lock.
func (v *Volume) writable(n *meta.Node) error {
	if v.o.Protect && !n.Ours && n.Ino != meta.Root {
		return syscall.EROFS
	}
	return nil
}

// stays reports whether the remote never gets what is made at a name: in a directory that stays, or at
// one of the names of such directories. Callers hold the lock.
func (v *Volume) stays(dir *meta.Node, name string) bool {
	return dir.Stays || v.localName(dir, name)
}

// localName reports whether a name is that of a directory that stays. What the remote has there is not
// seen. Callers hold the lock.
func (v *Volume) localName(dir *meta.Node, name string) bool {
	return len(v.o.Local) > 0 && slices.Contains(v.o.Local, path.Join(v.state.Path(dir), name))
}
