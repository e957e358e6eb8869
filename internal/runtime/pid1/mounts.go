package pid1

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
)

// mounted is a directory that a container has to have at a path.
type mounted struct {
	Path     string     `json:"path"`
	ID       hostdir.ID `json:"id"`
	ReadOnly bool       `json:"read_only,omitempty"`
}

// CheckMounts finds out, before any job runs, whether the container has those directories
// that the node has opened, and as it shall have them: its program was given their paths
// alone. Unsupported: it has not.
func (c *Client) CheckMounts(_ context.Context, mounts []driver.Mount) error {
	var r request
	for _, m := range mounts {
		if m.Dir == nil {
			continue
		}
		id, err := hostdir.IDOf(m.Dir)
		if err != nil {
			return err
		}
		r.Mounts = append(r.Mounts, mounted{Path: m.Target, ID: id, ReadOnly: m.ReadOnly})
	}
	if len(r.Mounts) == 0 {
		return nil
	}
	in, err := c.connect(r)
	if refused, is := errors.AsType[*StartError](err); is {
		return &core.Error{
			Kind: core.Unsupported, Op: "check the container's mounts", Err: errors.New(refused.Message),
			Remedy: "Choose the runtime rootless. A directory on the host with others mounted below it can also be mounted one by one.",
		}
	}
	if err != nil {
		return err
	}
	return in.c.Close()
}

// checkMounts is the answer of the container's init.
func checkMounts(mounts []mounted) error {
	for _, m := range mounts {
		if err := m.check(); err != nil {
			return fmt.Errorf("%s: %w", m.Path, err)
		}
	}
	return nil
}

func (m mounted) check() error {
	dir, err := hostdir.Reopen(m.Path, m.ID)
	if err != nil {
		return err
	}
	defer dir.Close()
	if !m.ReadOnly {
		return nil
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(dir.Fd())))
	if err != nil {
		return err
	}
	points, err := hostdir.PointsBelow(path)
	if err != nil {
		return err
	}
	if len(points) == 0 || points[0].Path != path {
		return errors.New("it is no mount of its own, and may be writable")
	}
	last := map[string]hostdir.Point{} // at each place
	for _, p := range points {
		last[p.Path] = p
	}
	for _, p := range last {
		if !p.ReadOnly {
			return fmt.Errorf("what is mounted at %s is writable", p.Path)
		}
	}
	return nil
}
