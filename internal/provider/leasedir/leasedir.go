// Package leasedir keeps leases as directories: one for each, whose name is that of
// the owner, locked while it is made or removed, and with proof of the run
// directory that belongs to it. So everything is found again from the file
// system alone, whatever process was killed.
package leasedir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cgroup"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/environ"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Name is the directory name of an owner.
func Name(o core.Owner) string {
	return url.QueryEscape(o.User) + "@" + url.QueryEscape(o.Run) + "@" + strconv.Itoa(o.Attempt)
}

// OwnerNamed is the inverse of Name.
func OwnerNamed(name string) (core.Owner, bool) {
	f := strings.Split(name, "@")
	if len(f) != 3 {
		return core.Owner{}, false
	}
	user, err1 := url.QueryUnescape(f[0])
	run, err2 := url.QueryUnescape(f[1])
	attempt, err3 := strconv.Atoi(f[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return core.Owner{}, false
	}
	return core.Owner{User: user, Run: run, Attempt: attempt}, true
}

// RunDir is the run's own directory in base.
func RunDir(base, run string) string { return filepath.Join(base, url.QueryEscape(run)) }

// Own makes a directory which only this user can write to, if it is missing, and refuses
// one that others can write to or replace.
func Own(dir string) error {
	if err := fsutil.OwnDir(dir); err != nil {
		return Unusable(dir, err)
	}
	return nil
}

// Unusable says that a scratch directory cannot be used.
func Unusable(dir string, err error) error {
	e := &core.Error{Kind: core.Unsupported, Op: "use scratch directory", Object: dir, Err: err, Remedy: "Set `scratch` at the site to a directory of your own, below such that nobody else can write to."}
	if fsutil.IsFull(err) {
		e.Kind, e.Remedy = core.Transient, "Free some space there, or set `scratch` at the site to another directory."
	}
	return e
}

// Lock makes a lease's directory if create is set, and locks it until
// unlock is called. NotFound where there is none.
func Lock(ctx context.Context, dir string, create bool) (unlock func(), err error) {
	for {
		if create {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, Unusable(dir, err)
			}
		}
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) && create {
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, &core.Error{Kind: core.NotFound, Op: "find lease", Object: dir, Err: err}
		}
		if err != nil {
			return nil, err
		}
		if err := fsutil.Flock(ctx, int(f.Fd()), unix.LOCK_EX); err != nil {
			_ = f.Close()
			return nil, &core.Error{Kind: core.Busy, Op: "lock lease", Object: dir, Err: err}
		}
		// It may have been released while we waited.
		mine, err1 := f.Stat()
		now, err2 := os.Lstat(dir)
		if err1 == nil && err2 == nil && os.SameFile(mine, now) {
			return func() { _ = f.Close() }, nil
		}
		_ = f.Close()
	}
}

// Kind is a driver's leases: the name and version of its handles, and the
// directory that they are in, below each base.
type Kind struct {
	Driver  string
	Version int
	Leases  string
	// Mounted is set where bases are on a file system that may be away for a while.
	Mounted bool
	// Machine names that on which bases lie, where handles may come to other machines,
	// too; else "".
	Machine string
}

// handleData is the Data of the handles of all kinds.
type handleData struct {
	Dir     string `json:"dir"`
	Machine string `json:"machine,omitempty"`
}

// Dir is an owner's lease in a base.
func (k Kind) Dir(base string, o core.Owner) string { return filepath.Join(base, k.Leases, Name(o)) }

// Handle is that of a lease's directory.
func (k Kind) Handle(dir string, o core.Owner) core.Handle {
	data, err := json.Marshal(handleData{dir, k.Machine})
	if err != nil {
		panic(err) // plain data: this cannot happen
	}
	return core.Handle{Driver: k.Driver, Version: k.Version, Owner: o, Data: data}
}

// Find gives the directory of a handle, and the base that it is in. NotFound
// when it is gone; Transient where it is another machine's: nothing is known of it here.
func (k Kind) Find(h core.Handle) (dir, base string, err error) {
	invalid := func(format string, a ...any) error {
		return &core.Error{Kind: core.Invalid, Op: "recover lease", Object: h.Owner.String(), Err: fmt.Errorf(format, a...), Remedy: "Use the bee that made the lease, or remove what is left by `bee sweep`."}
	}
	var data handleData
	if err := json.Unmarshal(h.Data, &data); err != nil || h.Driver != k.Driver || h.Version != k.Version {
		return "", "", invalid("not a handle of this version (%s %d)", h.Driver, h.Version)
	}
	owner, ok := OwnerNamed(filepath.Base(data.Dir))
	leases := filepath.Dir(data.Dir)
	if !ok || owner != h.Owner || filepath.Base(leases) != k.Leases || !filepath.IsAbs(data.Dir) {
		return "", "", invalid("%q is no lease", data.Dir)
	}
	if data.Machine != "" && k.Machine != "" && data.Machine != k.Machine {
		return "", "", &core.Error{
			Kind: core.Transient, Op: "find lease", Object: data.Dir, Err: fmt.Errorf("it is on host %s, and this is %s", data.Machine, k.Machine),
			Remedy: "Deal with the run there.",
		}
	}
	return data.Dir, filepath.Dir(leases), k.Check(data.Dir)
}

// Check reports whether a lease's directory is there. NotFound is certain: the directory of
// all leases, which stays, is there without it. Else nothing is known, and Transient.
func (k Kind) Check(dir string) error {
	_, err := os.Lstat(dir)
	if err == nil {
		return nil
	}
	e := &core.Error{Kind: core.NotFound, Op: "find lease", Object: dir, Err: err}
	certain := errors.Is(err, fs.ErrNotExist)
	if certain && k.Mounted {
		_, err = os.Lstat(filepath.Dir(dir))
		certain = err == nil
	}
	if !certain {
		e.Kind, e.Remedy = core.Transient, "Is the file system of the site's `scratch` mounted, and does it answer?"
	}
	return e
}

// List gives every lease of the owner's in some bases, whole or not.
func (k Kind) List(q core.Owner, bases ...string) ([]core.Handle, error) {
	var out []core.Handle
	for _, base := range bases {
		leases := filepath.Join(base, k.Leases)
		entries, err := os.ReadDir(leases)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, &core.Error{Op: "list leases", Object: leases, Err: err}
		}
		for _, e := range entries {
			if o, ok := OwnerNamed(e.Name()); ok && o.Matches(q) {
				out = append(out, k.Handle(filepath.Join(leases, e.Name()), o))
			}
		}
	}
	return out, nil
}

// Empty takes the run's directory away from where others see it and removes it
// with all that is in the lease's directory but that itself. The caller holds
// the lock.
func Empty(dir, base string, o core.Owner) error {
	if err := Unclaim(dir, RunDir(base, o.Run)); err != nil {
		return &core.Error{Op: "release", Object: o.String(), Err: err}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := fsutil.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return &core.Error{
				Op: "remove the files of", Object: o.String(), Err: err,
				Remedy: "Files of other users (made by a container engine with ids of its own) have to be removed as root, or with `podman unshare rm -r`.",
			}
		}
	}
	return nil
}

// Release locks a lease's directory, has destroy end and remove what the lease
// consists of, and removes the directory last: as long as anything is left,
// List finds it. What is gone is success.
func Release(ctx context.Context, dir string, o core.Owner, destroy func(context.Context) error) error {
	unlock, err := Lock(ctx, dir, false)
	if core.IsKind(err, core.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unlock()
	return Discard(ctx, dir, o, destroy)
}

// Discard is Release for who holds the lock.
func Discard(ctx context.Context, dir string, o core.Owner, destroy func(context.Context) error) error {
	if err := destroy(ctx); err != nil {
		return err
	}
	cgroup.Sweep() // those of nodes that were killed
	if err := fsutil.RemoveAll(dir); err != nil {
		return &core.Error{Op: "release", Object: o.String(), Err: err}
	}
	return nil
}

// Undo discards a lease that could not be made, and gives why, with what could
// not be removed.
func Undo(ctx context.Context, why error, dir string, o core.Owner, destroy func(context.Context) error) error {
	if err := Discard(context.WithoutCancel(ctx), dir, o, destroy); err != nil {
		return fmt.Errorf("%w (and what was made could not be removed: %w)", why, err)
	}
	return why
}

// Scratch expands the variables in a scratch directory's name, as lookup finds them.
func Scratch(name string, lookup environ.Lookup) (string, error) {
	var unset string
	dir := os.Expand(name, func(variable string) string {
		v, ok := lookup(variable)
		if !ok {
			unset = variable
		}
		return v
	})
	switch {
	case unset != "":
		return "", fmt.Errorf("scratch names the variable %s, which is not set", unset)
	case !filepath.IsAbs(dir):
		return "", fmt.Errorf("scratch %s must be an absolute path", dir)
	}
	return filepath.Clean(dir), nil
}
