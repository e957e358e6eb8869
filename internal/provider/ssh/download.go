package ssh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// downloadStalled is for how long no more may come of a file.
const downloadStalled = 5 * time.Minute

// downloads has the first host of a lease fetch files.
type downloads struct{ l *lease }

// Download implements driver.Downloader.
func (f downloads) Download(ctx context.Context, d driver.Download) (driver.Downloaded, error) {
	lost := func(err error) error {
		return sshlink.Transient(&core.Error{Kind: core.Lost, Op: "have a file fetched by", Object: f.l.hosts[0].Name, Err: err})
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(downloadStalled, func() {
		cancel(driver.DownloadError{Err: &core.Error{Kind: core.Transient, Op: "fetch", Object: d.Name, Err: fmt.Errorf("no more has come for %s", downloadStalled), Remedy: core.RemedyAgain}})
	})
	defer watch.Stop()
	s, err := f.l.open(ctx, ctx, 0, hostcall.CallDownload, func(c *hostcall.Call) { c.Download = &d })
	if core.IsKind(err, core.Unsupported) {
		return driver.Downloaded{}, driver.DownloadError{Err: err}
	}
	if err != nil {
		return driver.Downloaded{}, stalledOr(ctx, err)
	}
	defer s.Close()
	for most := int64(0); ; {
		is, err := rpc.Receive[hostcall.Download](s, rpc.DefaultSize)
		switch {
		case err != nil:
			return driver.Downloaded{}, stalledOr(ctx, lost(err))
		case !is.Over:
			if is.Done > most {
				most = is.Done
				watch.Reset(downloadStalled)
			}
			if d.Progress != nil {
				d.Progress(is.Done)
			}
			continue
		}
		if err := is.Failure.Err(); err != nil {
			return driver.Downloaded{}, driver.DownloadError{Err: err}
		}
		return is.Got, nil
	}
}

// stalledOr is the reason for which a call was ended here, or else its error.
func stalledOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); errors.As(cause, new(driver.DownloadError)) {
		return cause
	}
	return err
}
