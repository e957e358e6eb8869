package mount

import (
	"context"
	"errors"
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
	if o.Run != "" {
		if err := clearEarlier(ctx, o); err != nil {
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

// clearEarlier drains and removes volumes of the remote that earlier attempts have left on this host: the
// remote is then reset to its newest checkpoint. One that another host has superseded stays.
func clearEarlier(ctx context.Context, o Options) error {
	if o.At.Bucket == "" && o.At.Host == "" {
		real, err := directory("use remote", o.At.Dir)
		if err != nil {
			return err
		}
		o.At.Dir = real
	}
	all, err := burst.All(o.Volumes)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c.At != o.At || c.Superseded {
			continue
		}
		if c.Mount != "" {
			if err := dead(c.Mount); err != nil {
				return err
			}
		}
		if at, err := mountedAt(c); err != nil || at != "" {
			return errors.Join(err, &core.Error{Kind: core.Busy, Op: "use remote", Object: o.Remote, Err: fmt.Errorf("it is mounted at %s", at), Remedy: "Unmount it: `bee volume umount " + at + "`."})
		}
		if c.Run == o.Run { // it is not over, as it has another attempt
			if err := setOver(c, false); err != nil {
				return err
			}
		}
		a := Attempt{config: c, binary: o.Binary}
		s, err := a.drained(ctx)
		if now, lerr := burst.Load(c.Dir); lerr == nil && now.Superseded {
			continue
		}
		if err != nil {
			return undrained(c, s, err)
		}
		if _, err := Clean(ctx, c, true); err != nil {
			return err
		}
	}
	return nil
}

// undrained is the error of a wait that has ended with the attempt.
func undrained(c burst.Config, s calls.Status, err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "drain the volume to", Object: c.Remote, Err: fmt.Errorf("%d bytes in %d changes are undrained: %w", s.Undrained, s.Changes, err),
		Remedy: "They stay on the host's disk, and draining continues there: `bee volume drain " + c.Remote + "` waits for it.",
	}
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

// Checkpoint takes a checkpoint of everything that was written so far, and returns its number once the remote
// has it. It is refused, as Busy, while some of it was changed just before. also are names that belong to it, beside those that match the patterns.
func (a *Attempt) Checkpoint(ctx context.Context, also []string) (int, error) {
	number, s, err := a.barrier(ctx, calls.CheckpointRequest{Also: also, Quiet: true})
	if err == nil {
		s, err = a.until(ctx, func(s calls.Status) bool { return s.Generation >= number })
	}
	if err != nil && ctx.Err() != nil {
		err = undrained(a.config, s, err)
	}
	return number, err
}

func (a *Attempt) barrier(ctx context.Context, q calls.CheckpointRequest) (number int, s calls.Status, err error) {
	peer, err := a.config.Connect(ctx, a.binary)
	if err != nil {
		return 0, s, err
	}
	defer peer.Close()
	b, err := rpc.Call(ctx, peer, calls.Checkpoint, q)
	return b.Number, s, err
}

// Ending is what becomes of an attempt's volume.
type Ending struct {
	// Checkpoint has the last thing that the remote gets be a checkpoint, to which the names Also belong, too.
	Checkpoint bool
	Also       []string
	// Over is whether the run needs its checkpoints no more. They are removed from the remote.
	Over bool
	// Succeeded is whether that is so once the remote has everything.
	Succeeded bool
}

// End unmounts the volume, waits until it is drained, and removes what it has left on this host. When
// ctx ends before, undrained data stay in the buffer, and draining continues in the background. The
// status has the number of the newest checkpoint.
func (a *Attempt) End(ctx context.Context, e Ending) (calls.Status, error) {
	if e.Over {
		if err := setOver(a.config, true); err != nil {
			return calls.Status{}, err
		}
	}
	if err := a.unmount(ctx); err != nil {
		return calls.Status{}, err
	}
	s, err := a.settle(ctx, e)
	if err != nil && ctx.Err() != nil {
		err = undrained(a.config, s, err)
	}
	if err != nil {
		return s, err
	}
	_, err = Clean(ctx, a.config, true)
	return s, err
}

// settle waits until the remote has everything, and the checkpoint that is wanted.
func (a *Attempt) settle(ctx context.Context, e Ending) (s calls.Status, err error) {
	if e.Succeeded { // the I/O process does not end before it can know
		peer, err := a.config.Connect(ctx, a.binary)
		if err != nil {
			return s, err
		}
		defer peer.Close()
	}
	if e.Checkpoint {
		_, s, err = a.barrier(ctx, calls.CheckpointRequest{Also: e.Also})
	}
	if err == nil {
		s, err = a.drained(ctx)
	}
	if err == nil && e.Succeeded {
		err = setOver(a.config, true)
	}
	return s, err
}

// setOver records whether the run of a volume needs its checkpoints no more.
func setOver(c burst.Config, over bool) error {
	if c.Run == "" {
		return nil
	}
	now, err := burst.Load(c.Dir)
	if err != nil || now.Over == over {
		return err
	}
	now.Over = over
	return now.Save()
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
func (a *Attempt) drained(ctx context.Context) (calls.Status, error) {
	return a.until(ctx, func(s calls.Status) bool { return s.Drained })
}

// until waits until the status of the volume is as wanted. It returns the last one in any case.
func (a *Attempt) until(ctx context.Context, is func(calls.Status) bool) (last calls.Status, err error) {
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
			if last, died = s, 0; is(s) {
				break
			}
			if s.Superseded {
				peer.Close()
				return s, &core.Error{Kind: core.Busy, Op: "drain the volume to", Object: a.config.Remote, Err: errors.New("a later attempt of the run has it"), Remedy: "`bee volume export " + a.config.ID + " DIR` saves what is undrained."}
			}
			err = core.Sleep(ctx, lookAgain)
		}
		peer.Close()
		if err == nil || ctx.Err() != nil || !core.IsKind(err, core.Lost) || died >= mostDied {
			return last, err
		}
	}
}
