package node

import (
	"context"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// Tools returns e2fsprogs, the host's or the guest image's.
func (n *node) Tools(ctx context.Context) (t dataimage.Tools, release func(), err error) {
	tree, release, err := n.images.Tree(ctx, n.known.job().VM.Guest.ID)
	return dataimage.Tools{Bundle: filepath.Join(tree, "qemu")}, release, err
}

// leastRoom, in bytes, is less than what a virtual machine's disk grows by at a time.
const leastRoom = 64 << 10

// full reports whether nothing more can be written below a directory.
func full(dir string) bool {
	free, err := fsutil.Space(dir)
	return err == nil && free < leastRoom
}
