package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// lookForNotice is how often a rented machine is asked whether it is taken back.
const lookForNotice = 500 * time.Millisecond

// noticeFiles are what the cloud announces, by kind.
var noticeFiles = map[peercall.NoticeKind]string{
	peercall.Reclaim: core.NoticeFile, peercall.Maintenance: core.MaintenanceFile, peercall.Rebalance: core.RebalanceFile,
}

// watchNotice reports to the head what the cloud announces of this machine, if it is a rented one.
func (n *node) watchNotice(ctx context.Context) {
	if rented, err := fsutil.Exists(core.RentedDir); err != nil || !rented {
		return
	}
	watchFiles(ctx, noticeFiles, func(notice peercall.Notice) error { return n.announce(ctx, notice) }, func(err error) {
		n.Log.Warn("read what the cloud announces of the machine", "err", err)
	})
}

// watchFiles announces what files have, once for each content, until the machine is taken back.
func watchFiles(ctx context.Context, files map[peercall.NoticeKind]string, announce func(peercall.Notice) error, unreadable func(error)) {
	announced := map[peercall.NoticeKind]time.Time{}
	for {
		for kind, file := range files {
			at, err := readNotice(file)
			switch {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				unreadable(err)
			case at.Equal(announced[kind]):
			case announce(peercall.Notice{Kind: kind, Seconds: max(0, time.Until(at)).Seconds()}) == nil:
				if announced[kind] = at; kind == peercall.Reclaim {
					return
				}
			}
		}
		if core.Sleep(ctx, lookForNotice) != nil {
			return
		}
	}
}

// announce reports to the head what the cloud announces of this machine.
func (n *node) announce(ctx context.Context, notice peercall.Notice) error {
	if n.head != nil {
		n.head.Notice(n.config.Rank, notice)
		return nil
	}
	_, err := rpc.Call(ctx, n.pool.headConn(), peercall.CallNotice, notice)
	return err
}

// mostNotice bounds a notice, in bytes.
const mostNotice = 64

// readNotice returns when the cloud takes the machine back.
func readNotice(file string) (time.Time, error) {
	raw, err := fsutil.ReadFile(filepath.Dir(file), filepath.Base(file), mostNotice)
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(seconds, 0), nil
}
