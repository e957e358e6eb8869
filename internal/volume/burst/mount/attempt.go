package mount

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/shell"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

// Attempt is the volume of an attempt of a run, which is mounted on this host.
type Attempt struct {
	config burst.Config
	binary string
	client *client
	// keys are as in Options.
	keys func() *core.BucketKeys
	// passed are the last keys that Status has passed on.
	passed atomic.Pointer[passed]
	// earlier are the volumes that earlier attempts have left, before they were removed: End reports their
	// conflicts.
	earlier []calls.Status
}

// passed are keys that an I/O process was given.
type passed struct {
	process int
	keys    *core.BucketKeys
}

// newest are the keys that were sent last; nil: none were.
func newest(keys func() *core.BucketKeys) *core.BucketKeys {
	if keys == nil {
		return nil
	}
	return keys()
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
	var earlier []calls.Status
	if o.Run != "" {
		if earlier, err = clearEarlier(ctx, o); err != nil {
			return nil, err
		}
	}
	if err := fsutil.OwnDir(o.Dir); err != nil {
		return nil, err
	}
	c, client, err := upAgain(ctx, o)
	if err != nil {
		fsutil.TryRemove(o.Dir) // it is empty, and no reason of the failure
		return nil, err
	}
	return &Attempt{config: c, binary: o.Binary, client: client, keys: o.Keys, earlier: earlier}, nil
}

// upAgain is up, once the client of the run's attempt before has ended: that does so by itself, with its node.
func upAgain(ctx context.Context, o Options) (c burst.Config, client *client, err error) {
	most, cancel := context.WithTimeout(ctx, mostLeaving)
	defer cancel()
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 500 * time.Millisecond}
	for {
		c, client, err = up(ctx, o)
		if !errors.Is(err, errUses) || c.Of != o.Owner.Run || pause.Wait(most) != nil {
			return c, client, err
		}
	}
}

// clearEarlier drains and removes volumes of the remote that earlier attempts have left on this host: the
// remote is then reset to its newest checkpoint. One that another host has superseded stays. The last
// status of each removed volume is returned.
func clearEarlier(ctx context.Context, o Options) (removed []calls.Status, err error) {
	if o.At.Bucket == "" && o.At.Host == "" {
		real, err := directory("use remote", o.At.Dir)
		if err != nil {
			return nil, err
		}
		o.At.Dir = real
	}
	all, err := burst.All(o.Volumes)
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.At != o.At || c.Superseded {
			continue
		}
		if c.Mount != "" {
			if err := dead(c.Mount); err != nil {
				return nil, err
			}
		}
		if c.Private && c.Of != o.Owner.Run { // the run's own ends by itself, with its node
			if at, err := usedAt(ctx, c); err != nil || at != "" {
				return nil, errors.Join(err, usedByRun("use remote", c))
			}
		}
		if at, err := mountedAt(c); err != nil || at != "" {
			return nil, errors.Join(err, &core.Error{Kind: core.Busy, Op: "use remote", Object: o.Remote, Err: fmt.Errorf("it is mounted at %s", at), Remedy: "Unmount it: `bee volume umount " + at + "`."})
		}
		if c.Run == o.Run { // it is not over, as it has another attempt
			if err := setOver(c, false); err != nil {
				return nil, err
			}
		}
		a := Attempt{config: c, binary: o.Binary, keys: o.Keys} // as it is drained, the remote is the same
		s, err := a.drained(ctx)
		if now, lerr := burst.Load(c.Dir); lerr == nil && now.Superseded || isRemoved(c) {
			continue
		}
		if err != nil {
			return nil, undrained(c, s, err)
		}
		if _, err := Clean(ctx, c, true); err != nil {
			return nil, err
		}
		removed = append(removed, s)
	}
	return removed, nil
}

// undrained is the error of a wait that has ended with the attempt.
func undrained(c burst.Config, s calls.Status, err error) error {
	command := "`bee volume drain " + c.Remote + "` waits for it."
	if c.Alone {
		command = "`" + shell.Words([]string{"env", "BEE_STATE=" + filepath.Dir(filepath.Dir(c.Dir)), "bee", "volume", "drain", c.Remote}) + "` waits for it, on that host."
	}
	return &core.Error{
		Kind: core.KindOf(err), Op: "drain the volume to", Object: c.Remote, Err: fmt.Errorf("%d bytes in %d changes are undrained: %w", s.Undrained, s.Changes, err),
		Remedy: "They stay on the host's disk, and draining continues there: " + command,
	}
}

// ID is that of the volume.
func (a *Attempt) ID() string { return a.config.ID }

// Join joins a connection of another host's client with the I/O process, and returns once one of them has
// ended. ready is called before something passes. The client on this host starts the process again where
// it has died.
func (a *Attempt) Join(ctx context.Context, conn io.ReadWriteCloser, ready func() error) error {
	process, err := a.config.DialConn(ctx)
	if err != nil {
		return err
	}
	defer process.Close()
	if err := ready(); err != nil {
		return err
	}
	return wire.Splice(conn, process)
}

// UseKeys has the volume use other keys for its bucket from now on. Once it has succeeded, the function of Options gives
// these. Keys of another server, and such as the bucket refuses, are an error, and those so far stay.
func (a *Attempt) UseKeys(ctx context.Context, keys core.BucketKeys) error {
	c := a.current()
	if c.Keys != nil {
		if err := remote.SameServer(c.At, *c.Keys, keys); err != nil {
			return err
		}
		if c.Keys.Expired(time.Now()) { // a process that has to be started needs others
			c.Keys = &keys
		}
	}
	peer, err := c.Connect(ctx, a.binary)
	if err != nil {
		return err
	}
	defer peer.Close()
	c.Keys = &keys
	return c.UseKeys(ctx, peer)
}

// current is the record, with the newest keys.
func (a *Attempt) current() burst.Config {
	c := a.config
	if keys := newest(a.keys); keys != nil {
		c.Keys = keys
	}
	return c
}

// connect connects with the I/O process, which is started where it does not run.
func (a *Attempt) connect(ctx context.Context) (*rpc.Peer, error) {
	return a.current().Connect(ctx, a.binary)
}

// passKeys gives a process the newest keys, unless it has these.
func (a *Attempt) passKeys(ctx context.Context, peer *rpc.Peer, has *core.BucketKeys) (*core.BucketKeys, error) {
	c := a.current()
	if c.Keys == has {
		return has, nil
	}
	return c.Keys, c.PassKeys(ctx, peer)
}

// Abort ends the client, so that no program waits for it. What has returned to programs is with the I/O process.
func (a *Attempt) Abort() { a.client.end() }

// Dir is the directory at which the volume is mounted.
func (a *Attempt) Dir() string { return a.config.Mount }

const (
	// mostBusy is how long processes of the attempt, which have been killed, may keep the volume busy.
	mostBusy = 10 * time.Second
	// mostLeaving is how long the client of an attempt that has died may keep the volume: longer than one of
	// another host has its locks.
	mostLeaving = 20 * time.Second
	// lookAgain is how often draining is looked at.
	lookAgain = 200 * time.Millisecond
	// mostDied is how often in a row an I/O process is started again.
	mostDied = 10
)

// Checkpoint takes a checkpoint of everything that was written so far, and returns its number once the remote
// has it. It is refused, as Busy, while some of it was changed just before. also are names that belong to it, beside those that match the patterns.
func (a *Attempt) Checkpoint(ctx context.Context, also []string) (int, error) {
	var s calls.Status
	number, err := a.barrier(ctx, calls.CheckpointRequest{Also: also, Quiet: true})
	if err == nil {
		s, err = a.until(ctx, func(s calls.Status) bool { return s.Generation >= number })
	}
	if err != nil && ctx.Err() != nil {
		err = undrained(a.config, s, err)
	}
	return number, err
}

// Prefetch copies files that patterns match from the remote into the buffer.
func (a *Attempt) Prefetch(ctx context.Context, globs []string) (calls.Prefetched, error) {
	for died := 0; ; died++ {
		peer, err := a.connect(ctx)
		if err != nil {
			return calls.Prefetched{}, err
		}
		p, err := rpc.Call(ctx, peer, calls.Prefetch, calls.PrefetchRequest{Globs: globs})
		peer.Close()
		if err == nil || ctx.Err() != nil || !core.IsKind(err, core.Lost) || died >= mostDied {
			return p, err
		}
	}
}

func (a *Attempt) barrier(ctx context.Context, q calls.CheckpointRequest) (int, error) {
	peer, err := a.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer peer.Close()
	b, err := rpc.Call(ctx, peer, calls.Checkpoint, q)
	return b.Number, err
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
// status has the number of the newest checkpoint, and conflicts of earlier attempts, too.
func (a *Attempt) End(ctx context.Context, e Ending) (s calls.Status, err error) {
	defer func() {
		own := s.Conflicts
		s.Conflicts = nil
		for _, before := range a.earlier {
			s.Conflicts = append(s.Conflicts, before.Conflicts...)
		}
		s.Conflicts = append(s.Conflicts, own...)
	}()
	if e.Over {
		if err := setOver(a.config, true); err != nil {
			return s, err
		}
	}
	hold, err := a.hold(ctx)
	if err != nil {
		return s, err
	}
	defer hold()
	if err := a.unmount(ctx); err != nil {
		return s, err
	}
	s, err = a.settle(ctx, e)
	switch {
	case err != nil && !e.Checkpoint && isRemoved(a.config): // its I/O process has died meanwhile, and another one has drained it
		return s, nil
	case err != nil && ctx.Err() != nil:
		return s, undrained(a.config, s, err)
	case err != nil:
		return s, err
	}
	hold()
	_, err = Clean(ctx, a.config, true)
	return s, err
}

// hold keeps an I/O process that nobody manages from its end, which would be that of the volume, until done
// is called.
func (a *Attempt) hold(ctx context.Context) (done func(), err error) {
	if !a.config.Alone {
		return func() {}, nil
	}
	peer, err := a.connect(ctx)
	switch {
	case err != nil && isRemoved(a.config):
		return func() {}, nil
	case err != nil:
		return nil, err
	}
	return func() { peer.Close() }, nil
}

// isRemoved reports whether the I/O process has removed a volume that nobody manages, as it was drained.
func isRemoved(c burst.Config) bool {
	_, err := burst.Load(c.Dir)
	return c.Alone && errors.Is(err, fs.ErrNotExist)
}

// settle waits until the remote has everything, and the checkpoint that is wanted.
func (a *Attempt) settle(ctx context.Context, e Ending) (s calls.Status, err error) {
	if e.Succeeded { // the I/O process does not end before it can know
		peer, err := a.connect(ctx)
		if err != nil {
			return s, err
		}
		defer peer.Close()
	}
	if e.Checkpoint {
		_, err = a.barrier(ctx, calls.CheckpointRequest{Also: e.Also})
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

// unmount unmounts the volume. Its client ends then; one that hangs is killed, as the I/O process waits for its end.
func (a *Attempt) unmount(ctx context.Context) error {
	if err := unmounted(ctx, a.config.Mount); err != nil || a.client == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, goneTime)
	defer cancel()
	pause := fsutil.Backoff{First: 5 * time.Millisecond, Longest: 100 * time.Millisecond}
	for a.client.alive() && pause.Wait(ctx) == nil {
	}
	a.Abort()
	return nil
}

// unmounted unmounts a directory, and removes it.
func unmounted(ctx context.Context, dir string) error {
	most, cancel := context.WithTimeout(ctx, mostBusy)
	defer cancel()
	pause := fsutil.Backoff{First: 20 * time.Millisecond, Longest: 500 * time.Millisecond}
	for {
		err := Unmount(context.WithoutCancel(ctx), dir)
		if err == nil {
			return os.Remove(dir)
		}
		if pause.Wait(most) != nil {
			return err
		}
	}
}

// Status describes the volume, if its I/O process runs. Its client starts that again where it has died.
func (a *Attempt) Status(ctx context.Context) (calls.Status, error) {
	peer, process, err := a.config.DialProcess(ctx)
	if err != nil {
		return calls.Status{}, err
	}
	defer peer.Close()
	has := a.config.Keys // with which its client starts it
	if last := a.passed.Load(); last != nil && process != 0 && last.process == process {
		has = last.keys
	}
	keys, err := a.passKeys(ctx, peer, has)
	if err != nil {
		return calls.Status{}, err
	}
	a.passed.Store(&passed{process, keys})
	return rpc.Call(ctx, peer, calls.StatusCall, rpc.None{})
}

// drained waits until the remote has everything. It returns the last status in any case. A drain that waits
// tries again at once.
func (a *Attempt) drained(ctx context.Context) (calls.Status, error) {
	if peer, err := a.connect(ctx); err == nil {
		_, err = rpc.Call(ctx, peer, calls.Publish, rpc.None{})
		peer.Close()
		core.BestEffort(err) // the drain tries again by itself
	}
	return a.until(ctx, func(s calls.Status) bool { return s.Drained })
}

// until waits until the status of the volume is as wanted. It returns the last one in any case. A change that
// the remote has refused since then ends the wait.
func (a *Attempt) until(ctx context.Context, is func(calls.Status) bool) (last calls.Status, err error) {
	begun := time.Now()
	for died := 0; ; died++ {
		c := a.current()
		has := c.Keys
		peer, err := c.Connect(ctx, a.binary)
		if err != nil {
			return last, err
		}
		for err == nil {
			if has, err = a.passKeys(ctx, peer, has); err != nil { // others may have come meanwhile
				break
			}
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
			if s.Refused != nil && s.Refused.Final && s.Refused.Last.After(begun) {
				peer.Close()
				return s, burst.Refusal(s)
			}
			err = core.Sleep(ctx, lookAgain)
		}
		peer.Close()
		if err == nil || ctx.Err() != nil || !core.IsKind(err, core.Lost) || died >= mostDied {
			return last, err
		}
	}
}
