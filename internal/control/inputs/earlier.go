package inputs

import (
	"context"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Earlier is an input that an earlier run left in its volume, which its site keeps.
type Earlier struct {
	Input spec.Input
	// From is the site, with the lease that has lent the volume, and Tree where the input is
	// there, within the volume.
	From *transfer.Site
	Tree driver.Transfer
	// What is set by LookAtEarlier.
	What driver.Lent
}

// LookAtEarlier finds out what an input is. NotFound: it is not in the volume.
func (e *Earlier) LookAtEarlier(ctx context.Context) error {
	return e.From.Retry(ctx, func() (err error) {
		e.What, err = e.From.Lease.VolumeReuse().Look(ctx, e.Tree)
		return err
	})
}

// directFrom is how large an input has to be for a direct transfer from another site: a smaller
// one arrives through the submitting machine before two hosts have a connection.
const directFrom = 16 << 20

// EarlierDir is the directory in a run's with what comes through this machine of the volumes of
// earlier runs, until it is staged.
func EarlierDir(runDir string) string { return filepath.Join(runDir, "earlier") }

// StaysAway reports whether an input need not come through this machine: its tree is on the
// machine of the site that wants it, or may come from there directly.
func (s *Stager) StaysAway(job *spec.Job, e *Earlier) bool {
	if s.copies(e) {
		return true
	}
	from, to := e.From.Lease.DirectTransfer(), s.Site.Lease.DirectTransfer()
	return from != nil && to != nil && (e.What.Bytes >= directFrom || e.From.Name == s.Site.Name) && !sharesPlace(job, e.Input)
}

// copies reports whether both leases have their files on one machine.
func (s *Stager) copies(e *Earlier) bool {
	return s.Site.Lease.VolumeReuse() != nil && transfer.Machine(s.Site.Lease) == transfer.Machine(e.From.Lease)
}

// sharesPlace reports whether another input may go to the place of one, below it, or around it.
func sharesPlace(job *spec.Job, in spec.Input) bool {
	own := path.Clean(in.To)
	same := 0
	return slices.ContainsFunc(job.Inputs, func(other spec.Input) bool {
		to := path.Clean(other.To)
		_, over := Below(to, own)
		_, under := Below(own, to)
		if other == in {
			same++
			return same > 1
		}
		return over || under
	})
}

// FetchEarlier fetches an input to this machine, into a directory of its own, and returns where
// it is there.
func (s *Stager) FetchEarlier(ctx context.Context, e *Earlier, dir string) (file string, err error) {
	if err := fsutil.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	t := e.Tree
	t.Local = filepath.Join(dir, path.Base(e.Input.Earlier.Path))
	if t.Local == dir { // all of the volume
		t.Local = filepath.Join(dir, "volume")
	}
	t.Progress = s.Site.Progress(core.PhaseStage, "fetching "+e.Input.Earlier.Path, e.What.Bytes)
	err = transfer.WithinSpace(ctx, t, func(ctx context.Context, t driver.Transfer) error {
		return e.From.Retry(ctx, func() error { return e.From.Lease.Fetch(ctx, t) })
	})
	return t.Local, err
}

// BringEarlier brings an input to its place, which StaysAway has found not to come through this
// machine. Where another input has put a file, that one stays. dir is a directory here for what
// cannot come directly after all. by is one of event's Transfer… words.
func (s *Stager) BringEarlier(ctx context.Context, head core.Host, job *spec.Job, e *Earlier, dir string) (by string, err error) {
	place := Place(job, s.Binds, e.Input, Target(job, e.Input, path.Base(e.Input.Earlier.Path), false, e.What.Dir))
	remote := path.Join(head.Dir, place)
	if s.copies(e) {
		return event.TransferCopied, s.Site.Retry(ctx, func() error {
			return s.Site.Lease.VolumeReuse().CopyTree(ctx, e.Tree, path.Join(head.Dir, "earlier", DirName(place)), remote)
		})
	}
	route := transfer.Route{From: e.From.Lease.DirectTransfer(), To: s.Site.Lease.DirectTransfer(), FromName: e.From.Name, ToName: s.Site.Name}
	tree := transfer.Tree{Site: s.Site, Remote: remote, Size: e.What.Bytes}
	progress := s.Site.Progress(core.PhaseStage, "bringing "+e.Input.Earlier.Path, e.What.Bytes)
	err = s.Site.Transfer(ctx, route, tree, progress, func(t transfer.Tree) error {
		if t.Direct() != nil {
			by = event.TransferDirect
			return passTree(ctx, e, t)
		}
		by = event.TransferRelayed
		file, err := s.FetchEarlier(ctx, e, dir)
		if err == nil {
			err = s.Site.Retry(ctx, func() error {
				return s.Site.Lease.Stage(ctx, driver.Transfer{Local: file, Remote: remote, Progress: progress})
			})
		}
		return err
	})
	return by, err
}

// passTree sends an input over a direct connection.
func passTree(ctx context.Context, e *Earlier, to transfer.Tree) error {
	in, err := to.Receive(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	from := e.Tree
	from.Via, from.Progress = to.Direct().Name, to.Direct().Progress
	return e.From.Lease.DirectTransfer().Pass(ctx, from, in, to.Direct().Close)
}
