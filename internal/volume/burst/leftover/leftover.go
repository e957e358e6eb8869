// Package leftover finds burst buffers that attempts have left on a site, and removes those whose remote has
// everything. It knows their records, and where a site has them. It knows nothing of runs: callers know which of
// them live.
package leftover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
)

// The directories of a host, in that of the site.
const (
	volumesDir = "volumes"
	clientsDir = "clients"
)

// mostRecords bounds what is read of a site, and newRecord is how long one may be half made.
const (
	mostRecords = 1 << 14
	newRecord   = time.Hour
)

// Site implements driver.BurstBuffers for a directory that has one for each host.
type Site struct {
	Dir string
	// Binary is the bee binary, which is an I/O process, too.
	Binary string

	wait time.Duration // 0: mostWait
}

// Left implements driver.BurstBuffers.
func (s Site) Left(ctx context.Context, installation string) ([]driver.BurstBuffer, error) {
	root, err := fsutil.OpenOwn(s.Dir) // else others may have written the records
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	hosts, err := root.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var (
		list []driver.BurstBuffer
		errs []error
	)
	for _, host := range hosts {
		for _, kind := range []string{volumesDir, clientsDir} {
			names, err := root.ReadDir(filepath.Join(host, kind))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			for _, name := range names {
				if len(list) >= mostRecords || ctx.Err() != nil {
					return list, errors.Join(append(errs, context.Cause(ctx))...)
				}
				b := driver.BurstBuffer{Host: host, Dir: filepath.Join(s.Dir, host, kind, name)}
				if is := look(ctx, &b); is && (b.Owner.User == installation || b.Owner.User == "") {
					list = append(list, b)
				}
			}
		}
	}
	return list, errors.Join(errs...)
}

// record reads the record in a directory. A removal deletes it before the buffer, whose own record is as good then.
// A directory that has neither is being made, or nobody knows whose it was.
func record(dir string) (c burst.Config, err error) {
	if c, err = burst.Load(dir); !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	place := filepath.Join(dir, burst.BufferName)
	if c, err = burst.Left(place); err == nil || errors.Is(err, fs.ErrNotExist) {
		c.Dir, c.Place, err = dir, place, nil
	}
	return c, err
}

// look finds out what is in the directory of a buffer's record; false: nothing any more, or nothing yet.
func look(ctx context.Context, b *driver.BurstBuffer) bool {
	unknown := func(err error) bool {
		b.State, b.Detail = driver.BufferUnknown, core.Printable(err.Error(), 500)
		return true
	}
	root, err := fsutil.OpenRoot(b.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		b.State = driver.BufferRemoved
		return false
	}
	if err != nil {
		return unknown(err)
	}
	defer root.Close()
	info, err := root.Lstat(".")
	if err != nil {
		return unknown(err)
	}
	c, err := record(b.Dir)
	if err != nil {
		return unknown(err)
	}
	if c.ID == "" && time.Since(info.ModTime()).Abs() < newRecord {
		return false
	}
	b.Owner, b.Remote, b.Undrained, b.Changes, b.Detail = c.Owner(), c.Remote, 0, 0, ""
	alive, err := mount.ClientRuns(b.Dir)
	switch {
	case err != nil:
		return unknown(err)
	case alive:
		b.State, b.Detail = driver.BufferDraining, "a client has it mounted at "+c.Mount
		return true
	}
	lock, err := c.Lock()
	if errors.Is(err, fs.ErrNotExist) { // its I/O process has removed it meanwhile
		b.State = driver.BufferRemoved
		return false
	}
	switch client, busy := isClient(b.Dir), core.IsKind(err, core.Busy); {
	case client && busy:
		b.State, b.Detail = driver.BufferDraining, "the node of its client runs"
		return true
	case client && err == nil && c.Owner() == (core.Owner{}):
		lock.Unlock()
		return unknown(errors.New("it does not say whose it is"))
	case client && err == nil:
		lock.Unlock()
		b.State = driver.BufferRecord
		return true
	case busy:
		b.State = driver.BufferDraining
		if s, err := c.LookOnce(ctx); err == nil {
			b.Undrained, b.Changes, b.Detail = s.Undrained, s.Changes, s.Waits
		}
		return true
	}
	if err != nil {
		return unknown(err)
	}
	defer lock.Unlock()
	there, err := fsutil.Exists(c.Place)
	if err == nil && !there && filepath.Dir(c.Place) == b.Dir { // its removal was broken off
		b.State = driver.BufferRecord
		return true
	}
	var st calls.Status
	if err == nil {
		st, err = burst.Inspect(c.Place)
	}
	if err != nil {
		return unknown(err)
	}
	describe(b, c, st)
	return true
}

// describe describes a buffer that no process has open.
func describe(b *driver.BurstBuffer, c burst.Config, s calls.Status) {
	b.Undrained, b.Changes = s.Undrained, s.Changes
	switch {
	case !s.Drained && c.Superseded:
		b.State = driver.BufferSuperseded
	case !s.Drained:
		b.State = driver.BufferUndrained
		if c.Ended != nil {
			b.Detail = c.Ended.Why
		}
	case len(s.Conflicts) > 0:
		b.State, b.Detail = driver.BufferConflicts, fmt.Sprintf("others have changed %q on the remote", core.Printable(s.Conflicts[0].Path, 200))
		if more := len(s.Conflicts) - 1; more > 0 {
			b.Detail += fmt.Sprintf(", and %d more", more)
		}
	default:
		b.State = driver.BufferDrained
	}
}

// isClient reports whether a directory is that of a client whose I/O process is on another host.
func isClient(dir string) bool { return filepath.Base(filepath.Dir(dir)) == clientsDir }
