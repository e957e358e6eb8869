package local

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
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// leasesDir holds one directory for each lease, in <scratch>/bee.
const leasesDir = ".leases"

// detailsName is the file in a lease's directory that is written last: with
// it, the lease is whole.
const detailsName = "lease.json"

// details are what is known of a whole lease.
type details struct {
	Hosts    []core.Host `json:"hosts"`
	Emulated bool        `json:"emulated,omitempty"`
	Binary   string      `json:"binary,omitempty"`
}

// leaseName is the directory name that tells an owner.
func leaseName(o core.Owner) string {
	return url.QueryEscape(o.User) + "@" + url.QueryEscape(o.Run) + "@" + strconv.Itoa(o.Attempt)
}

// ownerNamed is the inverse of leaseName.
func ownerNamed(name string) (core.Owner, bool) {
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

// runDir is the run's own directory in base.
func runDir(base, run string) string { return filepath.Join(base, url.QueryEscape(run)) }

// ownDir makes sure that dir is a directory which only we can write to.
func ownDir(dir string) error {
	for range 2 {
		var st unix.Stat_t
		err := unix.Lstat(dir, &st)
		if errors.Is(err, unix.ENOENT) {
			// MkdirAll, not Mkdir: two processes may make it at once.
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return scratchError(dir, err)
			}
			continue
		}
		switch {
		case err != nil:
			return scratchError(dir, err)
		case st.Mode&unix.S_IFMT != unix.S_IFDIR:
			return scratchError(dir, errors.New("it is not a directory"))
		case int(st.Uid) != os.Geteuid():
			return scratchError(dir, fmt.Errorf("it belongs to user %d", st.Uid))
		case st.Mode&0o022 != 0:
			return scratchError(dir, errors.New("others can write to it"))
		}
		return nil
	}
	return scratchError(dir, unix.ENOENT)
}

func scratchError(dir string, err error) error {
	return &core.Error{Op: "use scratch directory", Object: dir, Err: err, Remedy: "Set `scratch` at the site to a directory of your own."}
}

// prepare makes the directories that all leases of the site lie in.
func (p *provider) prepare() error {
	leases := filepath.Join(p.base, leasesDir)
	if err := ownDir(leases); err != nil {
		return err
	}
	if err := ownDir(p.base); err != nil {
		return err
	}
	if p.s.Scratch == DefaultScratch() {
		// In a directory where everybody may make files.
		if err := ownDir(p.s.Scratch); err != nil {
			return err
		}
	}
	return p.noteBase()
}

// basesName is the file in Settings.StateDir with one base on each line.
const basesName = "local-scratch"

// bases gives every base that was ever used, this site's first.
func (p *provider) bases() []string {
	out := []string{p.base}
	if p.s.StateDir == "" {
		return out
	}
	b, _ := os.ReadFile(filepath.Join(p.s.StateDir, basesName))
	for line := range strings.Lines(string(b)) {
		if line = strings.TrimSuffix(line, "\n"); line != p.base && filepath.IsAbs(line) {
			out = append(out, line)
		}
	}
	return out
}

func (p *provider) noteBase() error {
	if p.s.StateDir == "" {
		return nil
	}
	path := filepath.Join(p.s.StateDir, basesName)
	b, err := os.ReadFile(path)
	if err == nil && strings.Contains("\n"+string(b), "\n"+p.base+"\n") {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	// One write of one line: appends of several processes do not mix.
	_, err = f.WriteString(p.base + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// lockLease makes a lease's directory if create is set, and locks it until
// unlock is called. NotFound where there is none.
func lockLease(ctx context.Context, dir string, create bool) (unlock func(), err error) {
	for {
		if create {
			if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
				return nil, err
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
		if err := flock(ctx, f); err != nil {
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

func flock(ctx context.Context, f *os.File) error {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil || !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// readDetails gives the details of a whole lease; NotFound for a half-made one.
func readDetails(dir string) (details, error) {
	var d details
	b, err := os.ReadFile(filepath.Join(dir, detailsName))
	if err == nil {
		err = json.Unmarshal(b, &d)
	}
	if err != nil {
		return d, &core.Error{Kind: core.NotFound, Op: "read lease", Object: dir, Err: err}
	}
	return d, nil
}

// writeDetails needs no fsync: what it tells of does not outlive a crash of
// the machine either, and a torn file reads as a half-made lease.
func writeDetails(dir string, d details) error {
	b, err := json.Marshal(d)
	if err != nil {
		return err
	}
	tmp := filepath.Join(dir, detailsName+".new")
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(dir, detailsName))
}
