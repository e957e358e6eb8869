// Package replica keeps copies of a burst buffer's journal on several hosts: a leader sends followers what it
// writes, and answers nobody before they have it. The record of the remote names the leader, and the copies that
// are complete. It is replaced by compare-and-set alone: by the leader, before it answers without a follower,
// and by a follower, before it leads. So of two that do not see each other, one continues, and the other ends.
//
// The package knows journals, and nothing of files, clients and remotes.
package replica

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Configuration is who has the undrained data of a volume. The name of a copy is never used again.
type Configuration struct {
	// Term counts configurations.
	Term int
	// Leader answers clients, and drains.
	Leader string
	// Copies are the followers that have everything that was ever answered.
	Copies []string
}

// Store keeps the configuration on the remote.
type Store interface {
	// Read returns it with its text.
	Read() (Configuration, []byte, error)
	// Replace replaces it, if that is its text. The error is fs.ErrExist where another one is there; after any
	// other one, the replacement may have succeeded, or may still do so.
	Replace(old []byte, c Configuration) error
}

var (
	// ErrSuperseded is about a process of a volume whose remote is another volume's.
	ErrSuperseded = errors.New("another volume has the remote")
	// ErrReplaced is about a process that no longer leads.
	ErrReplaced = errors.New("another copy of the volume leads")
	// ErrExcluded is about a copy that lacks something: it cannot lead, and is begun again.
	ErrExcluded = errors.New("the copy is not one of the volume's any more")
	// ErrDrained is about a volume that is drained, and over.
	ErrDrained = errors.New("the volume is drained")
)

// Pauses between tries to reach the remote.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// settle replaces the configuration of a leader until the one that is wanted is there for sure. It also ends what
// an earlier replacement without an answer may still do: that expects an older text.
func settle(ctx context.Context, s Store, leader string, copies []string) (Configuration, error) {
	pause := fsutil.Backoff{First: firstPause, Longest: longestPause}
	first := -1
	for {
		now, raw, err := s.Read()
		if err == nil {
			if now.Leader != leader {
				return now, ErrReplaced
			}
			if first < 0 {
				first = now.Term
			}
			if now.Term > first && slices.Equal(now.Copies, copies) {
				return now, nil
			}
			next := Configuration{Term: now.Term + 1, Leader: leader, Copies: copies}
			if err = s.Replace(raw, next); err == nil {
				return next, nil
			}
			if errors.Is(err, fs.ErrExist) {
				continue
			}
		}
		if errors.Is(err, ErrSuperseded) || core.IsKind(err, core.Invalid) {
			return now, err
		}
		if werr := pause.Wait(ctx); werr != nil {
			return now, errors.Join(werr, err)
		}
	}
}

// takeover makes a copy the leader. Once it has begun to write, it returns when it is known who leads: nothing may
// be confirmed to the old leader meanwhile. begin is called before. The first error of the remote, or a missing
// record, is returned before anything was written.
func takeover(ctx context.Context, s Store, copyID string, begin func()) (Configuration, error) {
	now, raw, err := s.Read()
	if err != nil {
		return now, err
	}
	pause := fsutil.Backoff{First: firstPause, Longest: longestPause}
	for {
		switch {
		case err != nil:
		case now.Leader == copyID:
			return now, nil
		case !slices.Contains(now.Copies, copyID):
			return now, ErrExcluded
		default:
			begin()
			err = s.Replace(raw, Configuration{Term: now.Term + 1, Leader: copyID})
			if err == nil {
				return Configuration{Term: now.Term + 1, Leader: copyID}, nil
			}
		}
		if errors.Is(err, ErrSuperseded) {
			return now, err
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			if werr := pause.Wait(ctx); werr != nil {
				return now, errors.Join(werr, err)
			}
		}
		now, raw, err = s.Read()
	}
}

// Resume is called by a process that starts with a copy of an earlier process. It returns once that leads. Where
// the remote names others, too, one of them may have more than this disk, and is waited for.
func Resume(ctx context.Context, s Store, copyID string, timeout time.Duration) error {
	pause := fsutil.Backoff{First: firstPause, Longest: longestPause}
	begun := time.Now()
	for {
		now, _, err := s.Read()
		switch {
		case errors.Is(err, ErrSuperseded):
			return err
		case err != nil:
		case now.Leader == copyID && len(now.Copies) == 0:
			return nil
		case now.Leader != copyID && !slices.Contains(now.Copies, copyID):
			return ErrExcluded
		case time.Since(begun) < timeout:
		case now.Leader == copyID:
			_, err := settle(ctx, s, copyID, nil)
			return err
		default:
			_, err := takeover(ctx, s, copyID, func() {})
			if err == nil || errors.Is(err, ErrExcluded) || errors.Is(err, ErrSuperseded) {
				return err
			}
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}
