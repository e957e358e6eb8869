package burst

import (
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// keptFor is how long a removed node stays known: a program that has just looked up its
// name may be about to open it.
const keptFor = 10 * time.Second

// forget drops a removed node that nothing needs any more. Callers hold the lock.
func (j *journal) forget(n *meta.Node) {
	if n.Linked() || j.state.Node(n.Ino) != n {
		return
	}
	if j.removed[n.Ino].IsZero() {
		j.removed[n.Ino] = time.Now()
	}
	j.forgetOld(n, keptFor)
}

func (j *journal) forgetOld(n *meta.Node, after time.Duration) {
	if f := j.files[n.Ino]; n.Linked() || n.Pending > 0 || f != nil && f.count+f.writers > 0 || time.Since(j.removed[n.Ino]) < after {
		return
	}
	if _, err := j.change(meta.Change{Do: meta.DoForget, Ino: n.Ino}); err != nil {
		j.logger.Warn("forget file", "ino", n.Ino, "err", err)
	}
	if f := j.files[n.Ino]; f != nil && f.source != nil {
		f.source.Close()
	}
	delete(j.files, n.Ino)
	delete(j.checked, n.Ino)
	delete(j.removed, n.Ino)
}

// forgetAll drops the removed nodes of which that was so long ago. Callers hold the lock.
func (j *journal) forgetAll(after time.Duration) {
	for ino := range j.removed {
		if n := j.state.Node(ino); n != nil {
			j.forgetOld(n, after)
		} else {
			delete(j.removed, ino)
		}
	}
}
