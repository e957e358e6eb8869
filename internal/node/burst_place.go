package node

import (
	"errors"
	"net/url"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
)

// withRecords returns where a burst buffer has its records on this host.
func withRecords(c plan.Config, b plan.Burst) plan.Burst {
	if b.Records == "" {
		b.Records, b.Alone = filepath.Join(filepath.Dir(c.Host.Dir), plan.SiteBursts, url.PathEscape(c.Host.Name), "volumes"), true
	}
	return b
}

// seesRemote refuses a directory as remote that is not the submitting machine's. It removes the mark by which
// that shows.
func seesRemote(b plan.Burst) error {
	if b.Mark == "" {
		return nil
	}
	mark := filepath.Join(b.Remote, filepath.Base(b.Mark))
	there, err := fsutil.Exists(mark)
	if err == nil && there {
		fsutil.TryRemove(mark) // the submitting machine does so, too
		return nil
	}
	if err == nil {
		err = errors.New("this host does not have that directory of the submitting machine")
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use remote", Object: b.Remote, Err: err,
		Remedy: "Name a directory that the submitting machine and the hosts of the site share, or one of a host that they reach by ssh, such as archive:run7.",
	}
}
