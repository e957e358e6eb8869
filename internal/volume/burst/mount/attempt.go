package mount

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
)

// Attempt is the volume of an attempt of a run, which is mounted on this host.
type Attempt struct {
	config burst.Config
	binary string
}

// Begin mounts a remote for an attempt, at a directory that is made for it. A mount that an earlier
// attempt of the run has left there is removed first; its undrained data are in the same buffer.
func Begin(ctx context.Context, o Options) (*Attempt, error) {
	parent := filepath.Dir(o.Dir)
	if err := fsutil.OwnDir(parent); err != nil {
		return nil, err
	}
	parent, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return nil, err
	}
	o.Dir = filepath.Join(parent, filepath.Base(o.Dir))
	if at, err := At(o.Dir); err != nil {
		return nil, err
	} else if at != "" {
		if err := Unmount(ctx, o.Dir); err != nil {
			return nil, err
		}
	}
	if err := fsutil.OwnDir(o.Dir); err != nil {
		return nil, err
	}
	c, err := Up(ctx, o)
	if err != nil {
		fsutil.TryRemove(o.Dir) // it is empty, and no reason of the failure
		return nil, err
	}
	return &Attempt{config: c, binary: o.Binary}, nil
}

// Dir is the directory at which the volume is mounted.
func (a *Attempt) Dir() string { return a.config.Mount }

const (
	// mostBusy is how long processes of the attempt, which have been killed, may keep the volume busy.
	mostBusy = 10 * time.Second
	// lookAgain is how often draining is looked at.
	lookAgain = 200 * time.Millisecond
	// mostDied is how often in a row an I/O process is started again.
	mostDied = 10
)

// End unmounts the volume, waits until it is drained, and removes what it has left on this host. When
// ctx ends before, undrained data stay in the buffer, and draining continues in the background.
func (a *Attempt) End(ctx context.Context) (calls.Status, error) {
	if err := a.unmount(ctx); err != nil {
		return calls.Status{}, err
	}
	s, err := a.drained(ctx)
	if err != nil && ctx.Err() != nil {
		err = &core.Error{
			Kind: core.Permanent, Op: "drain the volume to", Object: a.config.Remote, Err: fmt.Errorf("%d bytes in %d changes are undrained", s.Undrained, s.Changes),
			Remedy: "They stay on the host's disk, and draining continues there: `bee volume drain " + a.config.Remote + "` waits for it.",
		}
	}
	if err != nil {
		return s, err
	}
	_, err = Clean(ctx, a.config, true)
	return s, err
}

func (a *Attempt) unmount(ctx context.Context) error {
	most, cancel := context.WithTimeout(ctx, mostBusy)
	defer cancel()
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 500 * time.Millisecond}
	for {
		err := Unmount(context.WithoutCancel(ctx), a.config.Mount)
		if err == nil {
			return os.Remove(a.config.Mount)
		}
		if pause.Wait(most) != nil {
			return err
		}
	}
}

// drained waits until the remote has everything. It returns the last status in any case.
func (a *Attempt) drained(ctx context.Context) (last calls.Status, err error) {
	for died := 0; ; died++ {
		peer, err := a.config.Connect(ctx, a.binary)
		if err != nil {
			return last, err
		}
		for err == nil {
			var s calls.Status
			if s, err = rpc.Call(ctx, peer, calls.StatusCall, rpc.None{}); err != nil {
				break
			}
			if last, died = s, 0; s.Drained {
				break
			}
			err = core.Sleep(ctx, lookAgain)
		}
		peer.Close()
		if err == nil || ctx.Err() != nil || !core.IsKind(err, core.Lost) || died >= mostDied {
			return last, err
		}
	}
}
