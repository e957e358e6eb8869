package local

import (
	"context"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// Acquire makes the lease's directory, which is the record of the intent,
// then the run's directory and the emulated hosts, then the details.
func (p *provider) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := p.fits(r); err != nil {
		return nil, err
	}
	if err := p.prepare(); err != nil {
		return nil, err
	}
	l := &lease{kind: p.kind(), owner: r.Owner, ledger: p.s.Ledger, base: p.base, dir: p.kind().Dir(p.base, r.Owner), argv: p.s.NodeArgv, hasImage: p.s.HasImage, tryRuntime: p.TryRuntime}
	unlock, err := leasedir.Lock(ctx, l.dir, true)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if l.details, err = readDetails(l.dir); err == nil {
		if s, err := l.Status(ctx); err == nil && s.Live {
			return l, l.hold(true)
		} else if err != nil {
			return nil, err
		}
	} else if !core.IsKind(err, core.NotFound) {
		return nil, err
	}
	// Nothing, the half of a lease, or a dead one: begin again.
	if err := l.destroy(ctx); err != nil {
		return nil, err
	}
	l.details = details{Binary: r.Binary, Emulated: p.s.EmulatedHosts > 0}
	if err := p.reserve(l, r); err != nil {
		return nil, leasedir.Undo(ctx, err, l.dir, l.owner, l.destroy)
	}
	if err := p.make(ctx, l, r); err != nil {
		return nil, leasedir.Undo(ctx, err, l.dir, l.owner, l.destroy)
	}
	return l, nil
}

// make makes everything that a lease consists of.
func (p *provider) make(ctx context.Context, l *lease, r driver.Request) error {
	dir := leasedir.RunDir(p.base, r.Owner.Run)
	if err := leasedir.Claim(p.s.Name, l.dir, dir); err != nil {
		return err
	}
	if p.s.EmulatedHosts > 0 {
		if err := p.emulate(ctx, l, r, dir); err != nil {
			return err
		}
	} else {
		name, err := os.Hostname()
		if err != nil || name == "" {
			name = "localhost"
		}
		l.details.Hosts = []core.Host{{Name: name, Addrs: []string{"127.0.0.1"}, Slots: p.s.Slots, Arch: goruntime.GOARCH, Dir: dir, Cache: p.s.Cache}}
	}
	return writeDetails(l.dir, l.details)
}

func (p *provider) emulate(ctx context.Context, l *lease, r driver.Request, dir string) error {
	spec := emulate.Spec{Dir: l.dir, LinkRate: p.s.LinkRate, Binary: r.Binary}
	for i := range r.Nodes {
		h := core.Host{Index: i, Name: hostname(p.s.Name, i), Slots: p.s.Slots, Arch: goruntime.GOARCH, Dir: dir, Cache: p.s.Cache}
		s := emulate.HostSpec{Hostname: h.Name}
		if p.s.PrivateScratch {
			s.Hide, s.Keep = dir, filepath.Join(dir, "host"+strconv.Itoa(i))
			h.Dir, h.Cache = filepath.Join(s.Keep, "run"), filepath.Join(s.Keep, "cache")
			if err := os.MkdirAll(h.Dir, 0o700); err != nil {
				return leasedir.Unusable(h.Dir, err)
			}
		}
		l.details.Hosts = append(l.details.Hosts, h)
		spec.Hosts = append(spec.Hosts, s)
	}
	c, err := emulate.Start(ctx, spec)
	if err != nil {
		return err
	}
	for i, h := range c.Hosts() {
		l.details.Hosts[i].Addrs = []string{h.Addr}
	}
	return nil
}

// hostname makes a valid host name of a site's name and an index.
func hostname(site string, i int) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, site)
	clean = strings.Trim(clean[:min(len(clean), 50)], "-")
	if clean == "" {
		clean = "host"
	}
	return clean + "-" + strconv.Itoa(i)
}

// TryRuntime implements driver.Provider.
func (p *provider) TryRuntime(ctx context.Context, name string) (works, host string, err error) {
	if p.s.TryRuntime == nil {
		return "", "", nil
	}
	works, err = p.s.TryRuntime(ctx, name)
	return works, "", err
}

// Directories implements driver.Provider.
func (p *provider) Directories(ctx context.Context, wanted []driver.Directory) ([]string, error) {
	return leasedir.Directories(ctx, wanted, p.s.Variable)
}

// probe tries what Acquire would need, and leaves nothing.
func (p *provider) probe(ctx context.Context, f *driver.Facts) error {
	tmp, err := leasedir.Try(p.base)
	if err != nil {
		return leasedir.Unusable(p.s.Scratch, err)
	}
	defer os.RemoveAll(tmp)
	if p.s.EmulatedHosts == 0 {
		return nil
	}
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	c, err := emulate.Start(ctx, emulate.Spec{DieWithCaller: true, Dir: tmp, LinkRate: p.s.LinkRate, Hosts: []emulate.HostSpec{{Hostname: "probe"}}})
	if err != nil {
		return err
	}
	for i, n := range c.Notes() {
		f.Detail["note "+strconv.Itoa(i+1)] = n
	}
	return emulate.Destroy(ctx, tmp)
}

// Echo implements driver.Provider.
func (p *provider) Echo(_ context.Context, data []byte) ([]byte, error) {
	return leasedir.Echo(data, p.base, filepath.Join(p.s.Cache, "tmp")) // where images arrive
}

func (p *provider) kind() leasedir.Kind {
	return leasedir.Kind{Driver: "local", Version: handleVersion, Leases: leasesDir, Machine: p.s.Machine}
}

// Recover gives the lease of a handle. One that is half-made, or whose hosts
// are gone, is given too, as not live: its files can be fetched, and it has to
// be released.
func (p *provider) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	dir, base, err := p.kind().Find(h)
	if err != nil {
		return nil, err
	}
	l := &lease{kind: p.kind(), owner: h.Owner, ledger: p.s.Ledger, base: base, dir: dir, argv: p.s.NodeArgv, hasImage: p.s.HasImage, tryRuntime: p.TryRuntime}
	if l.details, err = readDetails(l.dir); err != nil && !core.IsKind(err, core.NotFound) {
		return nil, err
	}
	return l, l.hold(false)
}

// List gives every lease of the owner's, whole or not.
func (p *provider) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	return p.kind().List(q, p.bases()...)
}
