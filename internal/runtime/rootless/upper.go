package rootless

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sys/unix"
)

// mountRoot makes the container's root: the image below, what it writes above.
func (s *setup) mountRoot() (string, error) {
	top := filepath.Join(s.StateDir, "upper")
	if err := os.MkdirAll(top, 0o700); err != nil {
		return "", err
	}
	if !s.DiskScratch && s.Upper != Copy {
		// Half of the memory, as tmpfs has it by default; what a container
		// writes there counts as its own.
		if err := unix.Mount("tmpfs", top, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=700"); err != nil {
			return "", fmt.Errorf("mount memory for the container's writes: %w", err)
		}
	}
	root := filepath.Join(top, "root")
	for _, d := range []string{"root", "write", "work"} {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			return "", err
		}
	}
	options := "lowerdir=" + escape(s.Tree) + ",upperdir=" + escape(filepath.Join(top, "write")) + ",workdir=" + escape(filepath.Join(top, "work"))
	switch s.Upper {
	case FuseOverlay:
		out, err := exec.Command("fuse-overlayfs", "-o", options, root).CombinedOutput() //nolint:noctx // who starts us kills us
		if err != nil {
			return "", fmt.Errorf("fuse-overlayfs: %w: %s", err, out)
		}
		return root, nil
	case Copy:
		if err := copyTree(s.Tree, root); err != nil {
			return "", fmt.Errorf("copy the image: %w", err)
		}
		return root, unix.Mount(root, root, "", unix.MS_BIND|unix.MS_REC, "")
	}
	// userxattr: the way for user namespaces, overlayfs.rst, Linux 5.11.
	if err := unix.Mount("overlay", root, "overlay", unix.MS_NOSUID|unix.MS_NODEV, options+",userxattr"); err != nil {
		return "", fmt.Errorf("mount overlay: %w", err)
	}
	return root, nil
}

func copyTree(from, to string) error {
	fsutil.TryRemove(to) // the copy fails, then
	return treesync.Copy(context.Background(), from, to, nil)
}

// escape keeps separators of mount options out of paths.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `:`, `\:`, `,`, `\,`).Replace(path)
}
