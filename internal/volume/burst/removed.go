package burst

import (
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// keptFor is how long a removed node stays known: a program that has just looked up its
// name may be about to open it.
const keptFor = 10 * time.Second

// forget drops a removed node that nothing needs any more. Callers hold the lock.
func (v *Volume) forget(n *meta.Node) {
	if n.Linked() || v.state.Node(n.Ino) != n {
		return
	}
	if v.removed[n.Ino].IsZero() {
		v.removed[n.Ino] = time.Now()
	}
	v.forgetOld(n, keptFor)
}

func (v *Volume) forgetOld(n *meta.Node, after time.Duration) {
	if f := v.files[n.Ino]; n.Linked() || n.Pending > 0 || f != nil && f.count+f.writers > 0 || time.Since(v.removed[n.Ino]) < after {
		return
	}
	if _, err := v.change(meta.Change{Do: meta.DoForget, Ino: n.Ino}); err != nil {
		v.o.Log.Warn("forget file", "ino", n.Ino, "err", err)
	}
	if f := v.files[n.Ino]; f != nil && f.source != nil {
		f.source.Close()
	}
	delete(v.files, n.Ino)
	delete(v.checked, n.Ino)
	delete(v.removed, n.Ino)
}

// forgetAll drops the removed nodes of which that was so long ago. Callers hold the lock.
func (v *Volume) forgetAll(after time.Duration) {
	for ino := range v.removed {
		if n := v.state.Node(ino); n != nil {
			v.forgetOld(n, after)
		} else {
			delete(v.removed, ino)
		}
	}
}
