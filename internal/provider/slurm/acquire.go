package slurm

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"golang.org/x/sys/unix"
)

// leasesDir holds one directory for each lease, in <scratch>/bee, and cacheDir images.
const (
	leasesDir = ".slurm"
	cacheDir  = "cache"
)

func kind() leasedir.Kind {
	return leasedir.Kind{Driver: "slurm", Version: 1, Leases: leasesDir, Mounted: true}
}

// Acquire makes the lease's directory, which is the record of the intent, then
// the run's directory, then submits the job, then writes its number.
func (p *provider) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	leave, err := p.s.Queue.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := p.fits(ctx, r); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil { // what was to be known may have been known before
		return nil, err
	}
	for _, dir := range []string{filepath.Join(p.base, leasesDir), p.base} {
		if err := leasedir.Own(dir); err != nil {
			return nil, err
		}
	}
	l := &lease{p: p, owner: r.Owner, base: p.base, dir: kind().Dir(p.base, r.Owner)}
	unlock, err := leasedir.Lock(ctx, l.dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := l.read(); err != nil {
		return nil, err
	}
	if l.details.Job != "" {
		if j, err := jobNumbered(ctx, l.details.Job); err != nil {
			return nil, err
		} else if j != nil && !j.over() {
			return l, nil
		}
	}
	// Nothing, the half of a lease, or a dead one: begin again.
	if err := l.destroy(ctx); err != nil {
		return nil, err
	}
	if err := p.make(ctx, l, r); err != nil {
		return nil, leasedir.Undo(ctx, err, l.dir, l.owner, l.destroy)
	}
	return l, nil
}

// make makes everything that a lease consists of, and submits the job last.
func (p *provider) make(ctx context.Context, l *lease, r driver.Request) error {
	run := leasedir.RunDir(l.base, r.Owner.Run)
	if err := leasedir.Claim(p.s.Name, l.dir, run); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(l.dir, hostsDir), 0o700); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	if err := writeKeys(l.dir); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	argv := p.s.HostArgv
	if len(argv) == 0 {
		binary := filepath.Join(l.dir, binaryName)
		if err := place(r.Binary, binary); err != nil {
			return leasedir.Unusable(l.dir, err)
		}
		argv = []string{binary, HostArg}
	}
	step := stepCommand(r.Nodes, append(argv, l.dir))
	l.details = details{Nodes: r.Nodes, Dir: run, Own: p.s.Job == ""}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var err error
	if l.details.Own {
		l.details.Job, err = p.submit(ctx, l.dir, step, r)
	} else if l.details.Restarts, err = restarts(ctx, p.s.Job); err == nil {
		l.details.Job, err = p.s.Job, startStep(l.dir, p.s.Job, l.details.Restarts, step)
	}
	if err != nil {
		return err
	}
	if err := writeJSON(filepath.Join(l.dir, detailsName), l.details); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return context.Cause(ctx)
}

// place copies the binary to the lease's directory, where the nodes see it. It shares
// blocks with the installed one where the file system can, and never the file itself: who
// can write to it in the lease must not change the user's program.
func place(binary, at string) (err error) {
	from, err := os.Open(binary)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o500)
	if err != nil {
		return err
	}
	if err = unix.IoctlFileClone(int(to.Fd()), int(from.Fd())); err != nil {
		_, err = io.Copy(to, from)
	}
	return errors.Join(err, to.Close())
}

// Recover gives the lease of a handle. One that is half-made, or whose job is
// over, is given too, as not live: its files can be fetched, and it has to be
// released.
func (p *provider) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	dir, base, err := kind().Find(h)
	if err != nil {
		return nil, err
	}
	l := &lease{p: p, owner: h.Owner, base: base, dir: dir}
	if err := l.read(); err != nil {
		return nil, err
	}
	return l, nil
}

// List gives every lease of the owner's, whole or not.
func (p *provider) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	return kind().List(q, p.base)
}

// provisional are the hosts before they are granted: as much as it takes to
// bring files there.
func (l *lease) provisional() []core.Host {
	hosts := make([]core.Host, l.details.Nodes)
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Dir: l.details.Dir, Cache: filepath.Join(l.base, cacheDir), Arch: goruntime.GOARCH}
	}
	return hosts
}
