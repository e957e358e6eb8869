// Package controltest has the sites, heads and images with which tests of control's rooms play
// runs. It only answers what a test has set. It knows none of the rooms that use it.
package controltest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/store"
)

// Site is a scriptable provider: what it answers is set by each test, and
// what is asked of it is counted. It stands for no real site; the real ones
// are tried by the conformance suite and end to end.
type Site struct {
	drivertest.BareProvider
	Mu            sync.Mutex
	Dir           string
	Facts         driver.Facts
	LeasePrice    *driver.Price // that of the hosts that it grants
	AcquireError  error
	LaunchError   error
	ReleaseErrors []error       // one per call, then nil
	Lost          bool          // leases are not found any more
	Once          bool          // after one lease it is not usable any more
	HostCount     int           // of its leases; 0: one
	Spot          bool          // these are spot machines
	Private       bool          // each host has a directory of its own
	Hostless      bool          // the first attempt's lease has no hosts
	Over          bool          // its hosts are gone, their files are not
	HostsEnd      core.HostsEnd // why they are
	Yields        bool          // it can release hosts and keep files
	Yielded       bool          // it has
	Held          map[core.Owner]bool
	released      int
	Head          *Head
	// OnAcquire and ready, if set, answer in place of acquire, and for a site
	// with a queue; starts is what it forecasts, and late why not at once.
	OnAcquire func() error
	Ready     func() (driver.Waiting, error)
	Starts    time.Time
	Late      string
	// Forecasts, if set, is in place of both.
	Forecasts func() driver.Waiting
	// Things, if set, are what its cloud has.
	Things func() ([]driver.Rented, error)
	// Staged and launched are what it was given last.
	Staged   driver.Transfer
	Launched driver.NodeCommand
	// Alone, if set, makes it a site that starts by itself what is left with it,
	// and is called with each change of the launch spec.
	Alone func(what string, launchSpec []byte) error
	// Fence, if set, stops its hosts.
	Fence func() error
	// HostError, if set, is the error of each call to its hosts, and silent that of each call to the site. onFetch is
	// called with what is fetched.
	HostError, SiteError error
	// Downloads, if set, fetches files of servers.
	Downloads func(ctx context.Context, d driver.Download) (driver.Downloaded, error)
	OnFetch   func(remote string)
	// Still, if set, is why its hosts are halted.
	Still string
	// Deadline is when it takes its hosts back, as reported at first, and Ends as reported now.
	Deadline, Ends time.Time
	// Line, if set, is how the line to it does while something travels there or back.
	Line func(remote string) error
	// TriesRuntime, if set, tries a runtime on the hosts of a lease.
	TriesRuntime func(name string, l driver.Lease) (string, error)
	// Controllers, if set, is the site's record of who controls the run of each of its leases.
	Controllers driver.Adopters
	// Buffers, if set, has the burst buffers that are left there.
	Buffers driver.BurstBuffers
	// FindDirectories, if set, finds those of mounts.
	FindDirectories func(wanted []driver.Directory) ([]string, error)
}

// BurstBuffers implements driver.Provider.
func (f *Site) BurstBuffers() driver.BurstBuffers { return f.Buffers }

// answer is its answer where it does not answer.
func (f *Site) answer() error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.SiteError
}

// hostsAnswer is the answer of its hosts where they do not answer.
func (f *Site) hostsAnswer() error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return cmp.Or(f.SiteError, f.HostError)
}

func (f *Site) travels(remote string) error {
	if f.Line == nil {
		return nil
	}
	return f.Line(remote)
}

func (f *Site) Stand(why string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Still = why
}

func (f *Site) Silence(err error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.SiteError = err
}

// CutHosts has only its hosts not answer.
func (f *Site) CutHosts(err error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.HostError, f.SiteError = err, nil
}

func (f *Site) Info() driver.Info {
	return driver.Info{Name: "fake", Summary: "a fake site", Unattended: f.Alone != nil, Downloads: f.Downloads != nil}
}

func (f *Site) Probe(context.Context) (driver.Facts, error) {
	return f.Facts, f.answer()
}

func (f *Site) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.AcquireError != nil {
		return nil, f.AcquireError
	}
	if f.OnAcquire != nil {
		if err := f.OnAcquire(); err != nil {
			return nil, err
		}
	}
	f.Held[r.Owner] = true
	if f.Once {
		f.Facts = driver.Facts{Reason: "its time is used up"}
	}
	return f.lease(r.Owner), nil
}

func (f *Site) lease(o core.Owner) driver.Lease { return &Lease{Site: f, Owner: o} }

func (f *Site) Directories(_ context.Context, wanted []driver.Directory) ([]string, error) {
	if f.FindDirectories == nil {
		return nil, nil
	}
	return f.FindDirectories(wanted)
}

func (f *Site) Queue() driver.SiteQueue { return f }

func (f *Site) Foreign() driver.ForeignLeases {
	if f.Controllers == nil {
		return nil
	}
	return f
}

func (f *Site) Checked(ctx context.Context, h core.Handle) (core.Handle, error) {
	_, err := f.Recover(ctx, h)
	return h, err
}

func (l *Lease) Adopters() driver.Adopters { return l.Site.Controllers }

func (l *Lease) Price() *driver.Price { return l.Site.LeasePrice }

func (l *Lease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	return store.Matches(ctx, tree, m)
}

func (l *Lease) TryRuntime(_ context.Context, name string) (runtime, host string, err error) {
	if l.Site.TriesRuntime == nil {
		return "", "", nil
	}
	works, err := l.Site.TriesRuntime(name, l)
	return works, "", err
}

func (l *Lease) Queue() driver.LeaseQueue {
	if l.Site.Ready == nil {
		return nil
	}
	return l
}

func (l *Lease) Autostart() driver.Autostart {
	if l.Site.Alone == nil {
		return nil
	}
	return l
}

func (l *Lease) Downloads() driver.Downloader {
	if l.Site.Downloads == nil {
		return nil
	}
	return l
}

func (l *Lease) Fencer() driver.Fencer {
	if l.Site.Fence == nil {
		return nil
	}
	return l
}

func (l *Lease) Fence(context.Context) error { return l.Site.Fence() }

func (l *Lease) Download(ctx context.Context, d driver.Download) (driver.Downloaded, error) {
	return l.Site.Downloads(ctx, d)
}

func (l *Lease) VolumeReuse() driver.VolumeReuse {
	if !l.Site.Yields {
		return nil
	}
	return l
}

func (l *Lease) LendVolume(context.Context) error {
	l.Site.Mu.Lock()
	defer l.Site.Mu.Unlock()
	l.Site.Yielded = true
	return nil
}

func (l *Lease) ReuseVolume(context.Context, string, string) error {
	return &core.Error{Kind: core.Unsupported, Err: errors.New("a fake site reuses nothing")}
}

func (l *Lease) Look(ctx context.Context, t driver.Transfer) (driver.Lent, error) {
	return leasedir.Look(ctx, t)
}

func (l *Lease) CopyTree(ctx context.Context, t driver.Transfer, via, to string) error {
	return leasedir.CopyTree(ctx, t, via, to)
}

func (l *Lease) Ready(context.Context) (driver.Waiting, error) { return l.Site.Ready() }

func (l *Lease) StageSpec(_ context.Context, launchSpec []byte) error {
	return l.Site.Alone("stage", launchSpec)
}
func (l *Lease) Attend(context.Context) error     { return l.Site.Alone("attend", nil) }
func (l *Lease) EnableSpec(context.Context) error { return l.Site.Alone("enable", nil) }

func (f *Site) Forecast(context.Context, driver.Request) (driver.Waiting, error) {
	if f.Forecasts != nil {
		return f.Forecasts(), nil
	}
	return driver.Waiting{Expected: f.Starts, Reason: f.Late}, nil
}

func (f *Site) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.SiteError != nil {
		return nil, f.SiteError
	}
	if f.Lost || !f.Held[h.Owner] {
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("gone")}
	}
	return f.lease(h.Owner), nil
}

func (f *Site) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if f.SiteError != nil {
		return nil, f.SiteError
	}
	var found []core.Handle
	for o := range f.Held {
		if o.Matches(q) {
			found = append(found, core.Handle{Driver: "fake", Version: 1, Owner: o})
		}
	}
	return found, nil
}

// Inventory implements driver.Provider.
func (f *Site) Inventory() driver.Inventory {
	if f.Things == nil {
		return nil
	}
	return things(f.Things)
}

// things are what a cloud has.
type things func() ([]driver.Rented, error)

// Rented implements driver.Inventory.
func (t things) Rented(context.Context, core.Owner) ([]driver.Rented, error) { return t() }

// Types implements driver.Inventory: there are none.
func (things) Types(context.Context, []string) ([]driver.MachineType, error) { return nil, nil }

// Images implements driver.Inventory: there are none.
func (things) Images() driver.MachineImages { return nil }

type Lease struct {
	drivertest.BareLease
	Site  *Site
	Owner core.Owner
}

func (l *Lease) Handle() core.Handle {
	return core.Handle{Driver: "fake", Version: 1, Owner: l.Owner, Data: json.RawMessage(`{}`)}
}

func (l *Lease) Hosts() []core.Host {
	if l.Site.Hostless && l.Owner.Attempt == 1 {
		return nil
	}
	hosts := make([]core.Host, max(l.Site.HostCount, 1))
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Name: "f" + strconv.Itoa(i), Dir: l.Site.Dir, Cache: "same", Slots: 1, Spot: l.Site.Spot}
		if l.Site.Private && i > 0 {
			hosts[i].Dir = filepath.Join(l.Site.Dir, hosts[i].Name)
		}
	}
	if l.Site.Alone != nil {
		if w, err := l.Site.Ready(); err != nil || !w.Ready {
			hosts[0].Name = ""
		}
	}
	return hosts
}
func (l *Lease) Deadline() time.Time { return l.Site.Deadline }
func (l *Lease) Status(context.Context) (driver.Status, error) {
	l.Site.Mu.Lock()
	still, ends := l.Site.Still, l.Site.Ends
	l.Site.Mu.Unlock()
	if l.Site.Over {
		return driver.Status{Reason: "its time is over", End: l.Site.HostsEnd}, l.Site.answer()
	}
	return driver.Status{Live: true, Reason: still, Ends: ends}, l.Site.answer()
}

func (l *Lease) Launch(_ context.Context, c driver.NodeCommand) error {
	l.Site.Mu.Lock()
	defer l.Site.Mu.Unlock()
	l.Site.Launched = c
	return l.Site.LaunchError
}

func (l *Lease) Dial(context.Context, int, string) (net.Conn, error) {
	if err := l.Site.hostsAnswer(); err != nil {
		return nil, err
	}
	l.Site.Mu.Lock()
	still := l.Site.Still != ""
	l.Site.Mu.Unlock()
	if l.Site.Over || still {
		return nil, &core.Error{Kind: core.Transient, Err: errors.New("no way to the host")}
	}
	if l.Site.Head == nil {
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	}
	a, b := net.Pipe()
	b.Close()
	return &Conn{a, l.Site}, nil
}

// Conn is a connection to the head of a site.
type Conn struct {
	net.Conn
	Site *Site
}

func (l *Lease) NodeAlive(context.Context, int) (bool, error) { return l.Site.Head != nil, nil }
func (l *Lease) Stage(_ context.Context, t driver.Transfer) error {
	l.Site.Mu.Lock()
	defer l.Site.Mu.Unlock()
	l.Site.Staged = t
	if real, err := filepath.EvalSymlinks(t.Local); err == nil { // a store pins what it sends
		l.Site.Staged.Local = real
	}
	return l.Site.travels(t.Remote)
}

func (l *Lease) Fetch(_ context.Context, t driver.Transfer) error {
	if l.Site.OnFetch != nil {
		l.Site.OnFetch(t.Remote)
	}
	if err := l.Site.travels(t.Remote); err != nil {
		return err
	}
	if err := l.Site.hostsAnswer(); err != nil {
		return err
	}
	from, done, err := leasedir.Source(t)
	if err != nil {
		return err
	}
	defer done()
	t.Remote = from
	if info, err := os.Stat(t.Remote); err == nil && info.IsDir() {
		if t.Progress != nil {
			t.Progress(1)
		}
		return errors.Join(os.RemoveAll(t.Local), os.CopyFS(t.Local, os.DirFS(t.Remote)))
	}
	raw, err := os.ReadFile(t.Remote)
	if err != nil {
		return &core.Error{Kind: core.NotFound, Err: err}
	}
	return os.WriteFile(t.Local, raw, 0o600)
}

func (l *Lease) Release(context.Context) error {
	l.Site.Mu.Lock()
	defer l.Site.Mu.Unlock()
	if l.Site.SiteError != nil {
		return l.Site.SiteError
	}
	l.Site.released++
	if len(l.Site.ReleaseErrors) > 0 {
		err := l.Site.ReleaseErrors[0]
		l.Site.ReleaseErrors = l.Site.ReleaseErrors[1:]
		if err != nil {
			return err
		}
	}
	delete(l.Site.Held, l.Owner)
	return nil
}

// NewSite returns a site that takes every run, which succeeds there.
func NewSite(t *testing.T) *Site {
	t.Helper()
	return &Site{Dir: t.TempDir(), Facts: driver.Facts{Usable: true}, Held: map[core.Owner]bool{}, Head: Succeeding()}
}
