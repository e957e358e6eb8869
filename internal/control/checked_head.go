package control

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// Bounds of the small files that a head leaves, in bytes. A result of thousands of hosts
// is a long one.
const (
	maxResult  = 64 << 20
	maxJournal = 256 << 20
	maxNodeLog = 256 << 20
	maxLine    = maxResult + 1<<20 // of a journal
)

// invalidReport is the error of words that no head of ours says: whatever follows is not
// believed either, and the attempt is lost.
type invalidReport struct{ error }

func (u invalidReport) Unwrap() error { return u.error }

func (a *attempt) invalidReport(err error) error {
	if err == nil || errors.As(err, new(invalidReport)) {
		return err
	}
	return invalidReport{&core.Error{
		Kind: core.Lost, Op: "believe the head on site", Object: a.site.Name, Err: err,
		Remedy: fmt.Sprintf("Its host is damaged, or somebody else answers in its place. `bee logs --node 0 %s` shows what it wrote.", a.run.ID),
	}}
}

// askedFor is what the attempt's head was asked for.
func (a *attempt) askedFor() protocol.Asked {
	return protocol.Asked{Nodes: a.sub.Job.Nodes, Outputs: len(a.sub.Job.Outputs), Checkpoint: a.sub.Job.Checkpoint != nil}
}

// checked is a head whose words are checked where they enter.
type checked struct {
	Head
	a *attempt
}

// Watch implements Head.
func (h checked) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	err := h.Head.Watch(ctx, after, func(e protocol.Event) error {
		if err := e.Check(h.a.askedFor(), after); err != nil {
			return h.a.invalidReport(err)
		}
		after = e.Seq
		return fn(e)
	})
	if isGarbage(err) {
		return h.a.invalidReport(err)
	}
	return err
}

// isGarbage tells whether an error is of a message that is none, or of another shape. How
// often it is read, it stays so.
func isGarbage(err error) bool {
	for ; err != nil; err = errors.Unwrap(err) {
		if e, is := err.(*core.Error); is && e.Kind == core.Invalid { //nolint:errorlint // each of the chain is looked at
			return true
		}
	}
	return false
}

// fetchFile fetches a plain file of at most limit bytes, 0: any number. Nothing else
// stays at t.Local, which others read.
func fetchFile(ctx context.Context, l driver.Lease, t driver.Transfer, limit int64) error {
	tooLarge := fmt.Errorf("fetch %s: %w: more than %d bytes", t.Remote, fsutil.ErrTooLarge, limit)
	bounded, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t.Progress = func(done int64) {
		if limit > 0 && done > limit {
			cancel(tooLarge)
		}
	}
	err := transfer.WithinSpace(bounded, t, l.Fetch)
	if ctx.Err() == nil && bounded.Err() != nil {
		return invalidReport{tooLarge}
	}
	if err != nil {
		return err
	}
	root, err := fsutil.OpenRoot(filepath.Dir(t.Local))
	if err != nil {
		return err
	}
	defer root.Close()
	info, err := root.Lstat(filepath.Base(t.Local))
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		err = invalidReport{fmt.Errorf("fetch %s: it is no plain file (%s)", t.Remote, info.Mode().Type())}
	case limit > 0 && info.Size() > limit:
		err = invalidReport{tooLarge}
	default:
		return nil
	}
	return errors.Join(err, fsutil.RemoveAll(t.Local))
}

// readLast reads the last bytes of a plain file of ours, most at most.
func readLast(path string, most int64) ([]byte, error) {
	root, err := fsutil.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.Open(filepath.Base(path))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	raw := make([]byte, min(info.Size(), most))
	n, err := f.ReadAt(raw, info.Size()-int64(len(raw)))
	return raw[:n], err
}
