package leftover

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
)

// mostWait bounds the wait for an I/O process: one that has nothing to drain ends after some seconds.
const mostWait = 20 * time.Second

// End implements driver.BurstBuffers.
func (s Site) End(ctx context.Context, b driver.BurstBuffer, reported bool) (driver.BurstBuffer, error) {
	if err := s.check(b.Dir); err != nil {
		return b, err
	}
	of := b.Owner
	if !look(ctx, &b) {
		return b, nil
	}
	if err := still(b, of); err != nil {
		return b, err
	}
	switch b.State {
	case driver.BufferRecord:
		return b, s.remove(ctx, &b)
	case driver.BufferDrained, driver.BufferUndrained, driver.BufferConflicts:
		return b, s.finish(ctx, &b, reported)
	}
	return b, nil
}

// still is a Busy error where the buffer of an owner has another one now.
func still(b driver.BurstBuffer, of core.Owner) error {
	if b.Owner == of {
		return nil
	}
	return &core.Error{Kind: core.Busy, Op: "end burst buffer", Object: b.Dir, Err: fmt.Errorf("attempt %s has it now", b.Owner), Remedy: core.RemedyShow}
}

// again loads the record of a buffer that was looked at, and is a Busy error where an attempt has begun to use that
// since.
func again(b driver.BurstBuffer) (burst.Config, error) {
	c, err := record(b.Dir)
	if err == nil {
		of := b.Owner
		b.Owner = c.Owner()
		err = still(b, of)
	}
	return c, err
}

// check refuses a directory in which a site has no record.
func (s Site) check(dir string) error {
	rel, err := filepath.Rel(s.Dir, dir)
	parts := strings.Split(rel, "/")
	if err != nil || !filepath.IsLocal(rel) || len(parts) != 3 || parts[1] != volumesDir && parts[1] != clientsDir {
		return &core.Error{Kind: core.Invalid, Op: "end burst buffer", Object: dir, Err: errors.New("no burst buffer of this site is there"), Remedy: core.RemedyVersions}
	}
	return nil
}

// remove removes a record that has no data. What it has is looked at again behind its lock, which keeps attempts from
// using it.
func (s Site) remove(ctx context.Context, b *driver.BurstBuffer) error {
	lock, err := burst.Config{Dir: b.Dir}.Lock()
	if errors.Is(err, fs.ErrNotExist) { // another sweep has
		b.State = driver.BufferRemoved
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	c, err := again(*b)
	if err == nil {
		err = empty(c)
	}
	if err == nil {
		err = cleared(ctx, c)
	}
	if err == nil {
		err = fsutil.RemoveAll(b.Dir)
	}
	if err == nil {
		b.State = driver.BufferRemoved
	}
	return err
}

// empty is a Busy error where a buffer has something that its remote lacks.
func empty(c burst.Config) error {
	there, err := fsutil.Exists(c.Place)
	if err != nil || !there {
		return err
	}
	st, err := burst.Inspect(c.Place)
	if err == nil && !st.Drained {
		err = &core.Error{Kind: core.Busy, Op: "end burst buffer", Object: c.Dir, Err: fmt.Errorf("it has %d changes by now", st.Changes), Remedy: core.RemedyShow}
	}
	return err
}

// cleared unmounts what a client has left that was killed, and removes the directory at which that was mounted.
func cleared(ctx context.Context, c burst.Config) error {
	if c.Mount == "" {
		return nil
	}
	at, err := mount.At(c.Mount)
	if err == nil && at == c.ID {
		err = mount.Unmount(ctx, c.Mount)
	}
	fsutil.TryRemove(c.Mount) // it is empty, unless it is in use
	return err
}

// finish starts the I/O process of a volume, which drains it, leaves the remote and removes it, and waits for that a
// while. One that was drained, and then superseded, has no remote to leave.
func (s Site) finish(ctx context.Context, b *driver.BurstBuffer, reported bool) error {
	c, err := again(*b)
	if err == nil {
		err = cleared(ctx, c)
	}
	switch {
	case err != nil:
		return err
	case c.ID == "": // nobody knows whose it was
		if b.State != driver.BufferDrained {
			b.Detail = "its record is lost"
			return nil
		}
		return s.remove(ctx, b)
	case c.Superseded:
		if err := mount.Forget(ctx, c, nil, false); err != nil {
			return err
		}
		b.State = driver.BufferRemoved
		return nil
	case c.Sent:
		b.Detail = "credentials for its bucket were sent, and are gone"
		return nil
	case c.Relay:
		b.Detail = "it reaches its bucket through a node of its run, and there is none"
		return nil
	}
	if !c.Alone {
		c.Alone = true // nobody else removes it
		if err := c.Save(); err != nil {
			return err
		}
	}
	most, cancel := context.WithTimeout(ctx, cmp.Or(s.wait, mostWait))
	defer cancel()
	peer, err := c.Connect(most, s.Binary)
	if err != nil && most.Err() != nil && ctx.Err() == nil {
		b.State, b.Detail = driver.BufferDraining, "it has begun, and may wait for the remote"
		return nil
	}
	if err != nil {
		return err
	}
	peer.Close()
	pause := fsutil.Backoff{First: 50 * time.Millisecond, Longest: 500 * time.Millisecond}
	for {
		there := look(most, b)
		switch {
		case !there:
			return nil
		case b.State == driver.BufferConflicts && reported:
			gone, err := mount.Clean(most, c, true)
			if gone && err == nil {
				b.State = driver.BufferRemoved
			}
			return err
		case b.State != driver.BufferDraining && b.State != driver.BufferDrained || pause.Wait(most) != nil:
			return nil
		}
	}
}
