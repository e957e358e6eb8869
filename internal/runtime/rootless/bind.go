package rootless

import (
	"fmt"
	"os"
	"strconv"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
	"golang.org/x/sys/unix"
)

// bind is a mount as the child makes it.
type bind struct {
	driver.Mount
	// ID is that of the directory which the node has opened, where it has.
	ID *hostdir.ID `json:"id,omitempty"`
}

// openedMount is a mount of a directory that the node has opened. A descriptor of another
// mount namespace cannot be bound, so the child opens the directory once more.
func openedMount(m driver.Mount) (bind, error) {
	id, err := hostdir.IDOf(m.Dir)
	if err != nil {
		return bind{}, err
	}
	if m.Source, err = hostdir.Real(m.Dir); err != nil {
		return bind{}, err
	}
	m.Dir = nil
	return bind{Mount: m, ID: &id}, nil
}

// mountAt makes the mount in the root.
func (b bind) mountAt(root string) error {
	source, dir := b.Source, true
	if b.ID != nil {
		f, err := hostdir.Reopen(b.Source, *b.ID)
		if err != nil {
			return err
		}
		defer f.Close()
		source = "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))
	} else {
		info, err := os.Stat(b.Source)
		if err != nil {
			return err
		}
		dir = info.IsDir()
	}
	target, err := inside(root, b.Target, dir)
	if err != nil {
		return err
	}
	if err := unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("%s: %w", b.Target, err)
	}
	if !b.ReadOnly {
		return nil
	}
	if b.ID == nil {
		err = readOnly(target)
	} else {
		err = readOnlyBelow(target)
	}
	if err != nil {
		return fmt.Errorf("%s: make read-only: %w", b.Target, err)
	}
	return nil
}

// readOnlyBelow makes a mount read-only, and all that came with it from the host.
func readOnlyBelow(target string) error {
	points, err := hostdir.PointsBelow(target)
	if err != nil {
		return err
	}
	if len(points) == 0 {
		return fmt.Errorf("no mount is at %s", target)
	}
	for _, point := range points {
		if err := readOnly(point.Path); err != nil {
			return fmt.Errorf("%s: %w", point.Path, err)
		}
	}
	return nil
}
