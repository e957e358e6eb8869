package burst

import (
	"path"
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// rules are what a volume neither changes on the remote nor has there.
type rules struct {
	// protect and local are as in Options.
	protect bool
	local   []string
	state   *meta.State
}

// writable reports as EROFS what the remote had before, where that is protected. Callers hold the lock.
func (r *rules) writable(n *meta.Node) error {
	if r.protect && !n.Ours && n.Ino != meta.Root {
		return syscall.EROFS
	}
	return nil
}

// stays reports whether the remote never gets what is made at a name: in a directory that stays, or at
// one of the names of such directories. Callers hold the lock.
func (r *rules) stays(dir *meta.Node, name string) bool {
	return dir.Stays || r.localName(dir, name)
}

// localName reports whether a name is that of a directory that stays. What the remote has there is not
// seen. Callers hold the lock.
func (r *rules) localName(dir *meta.Node, name string) bool {
	return len(r.local) > 0 && slices.Contains(r.local, path.Join(r.state.Path(dir), name))
}
