package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	guestimage "github.com/bee-hpc/bee/internal/image/build"
	"github.com/bee-hpc/bee/internal/input"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/store"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// fakeSite is a scriptable provider: what it answers is set by each test, and
// what is asked of it is counted. It stands for no real site; the real ones
// are tried by the conformance suite and end to end.
type fakeSite struct {
	drivertest.BareProvider
	mu       sync.Mutex
	dir      string
	probe    driver.Facts
	acquire  error
	launch   error
	release  []error // one per call, then nil
	lost     bool    // leases are not found any more
	once     bool    // after one lease it is not usable any more
	hosts    int     // of its leases; 0: one
	private  bool    // each host has a directory of its own
	hostless bool    // the first attempt's lease has no hosts
	over     bool    // its hosts are gone, their files are not
	yields   bool    // it can give hosts back and keep files
	yielded  bool    // it has
	held     map[core.Owner]bool
	released int
	head     *fakeHead
	// onAcquire and ready, if set, answer in place of acquire, and for a site
	// with a queue; starts is what it forecasts, and late why not at once.
	onAcquire func() error
	ready     func() (driver.Waiting, error)
	starts    time.Time
	late      string
	// forecast, if set, is in place of both.
	forecast func() driver.Waiting
	// staged and launched are what it was given last.
	staged   driver.Transfer
	launched driver.NodeCommand
	// alone, if set, makes it a site that starts by itself what is left with it,
	// and is called with each change of the launch spec.
	alone func(what string, launchSpec []byte) error
	// fence, if set, stops its hosts.
	fence func() error
	// cut, if set, is all that its hosts answer, and silent all that it answers itself. onFetch is told what is fetched.
	cut, silent error
	// downloads, if set, fetches files of servers.
	downloads func(ctx context.Context, d driver.Download) (driver.Downloaded, error)
	onFetch   func(remote string)
	// still, if set, is why its hosts stand still.
	still string
	// deadline is when it takes its hosts back, as it said at first, and ends as it says now.
	deadline, ends time.Time
	// line, if set, is how the line to it does while something travels there or back.
	line func(remote string) error
	// tryRuntime, if set, tries a runtime on the hosts of a lease.
	tryRuntime func(name string, l driver.Lease) (string, error)
	// directories, if set, finds those of mounts.
	directories func(wanted []driver.Directory) ([]string, error)
}

// answer is its answer where it does not answer.
func (f *fakeSite) answer() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.silent
}

// hostsAnswer is the answer of its hosts where they do not answer.
func (f *fakeSite) hostsAnswer() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return cmp.Or(f.silent, f.cut)
}

func (f *fakeSite) travels(remote string) error {
	if f.line == nil {
		return nil
	}
	return f.line(remote)
}

func (f *fakeSite) stand(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still = why
}

func (f *fakeSite) silence(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.silent = err
}

// cutHosts has only its hosts not answer.
func (f *fakeSite) cutHosts(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut, f.silent = err, nil
}

func (f *fakeSite) Info() driver.Info {
	return driver.Info{Name: "fake", Summary: "a fake site", Unattended: f.alone != nil, Downloads: f.downloads != nil}
}

func (f *fakeSite) Probe(context.Context) (driver.Facts, error) {
	return f.probe, f.answer()
}

func (f *fakeSite) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acquire != nil {
		return nil, f.acquire
	}
	if f.onAcquire != nil {
		if err := f.onAcquire(); err != nil {
			return nil, err
		}
	}
	f.held[r.Owner] = true
	if f.once {
		f.probe = driver.Facts{Reason: "its time is used up"}
	}
	return f.lease(r.Owner), nil
}

func (f *fakeSite) lease(o core.Owner) driver.Lease { return &fakeLease{f: f, owner: o} }

func (f *fakeSite) Directories(_ context.Context, wanted []driver.Directory) ([]string, error) {
	if f.directories == nil {
		return nil, nil
	}
	return f.directories(wanted)
}

func (f *fakeSite) Queue() driver.SiteQueue { return f }

func (l *fakeLease) Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	return store.Matches(ctx, tree, m)
}

func (l *fakeLease) TryRuntime(_ context.Context, name string) (runtime, host string, err error) {
	if l.f.tryRuntime == nil {
		return "", "", nil
	}
	works, err := l.f.tryRuntime(name, l)
	return works, "", err
}

func (l *fakeLease) Queue() driver.LeaseQueue {
	if l.f.ready == nil {
		return nil
	}
	return l
}

func (l *fakeLease) Autostart() driver.Autostart {
	if l.f.alone == nil {
		return nil
	}
	return l
}

func (l *fakeLease) Downloads() driver.Downloader {
	if l.f.downloads == nil {
		return nil
	}
	return l
}

func (l *fakeLease) Fencer() driver.Fencer {
	if l.f.fence == nil {
		return nil
	}
	return l
}

func (l *fakeLease) Fence(context.Context) error { return l.f.fence() }

func (l *fakeLease) Download(ctx context.Context, d driver.Download) (driver.Downloaded, error) {
	return l.f.downloads(ctx, d)
}

func (l *fakeLease) VolumeReuse() driver.VolumeReuse {
	if !l.f.yields {
		return nil
	}
	return l
}

func (l *fakeLease) LendVolume(context.Context) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.yielded = true
	return nil
}

func (l *fakeLease) ReuseVolume(context.Context, string, string) error {
	return &core.Error{Kind: core.Unsupported, Err: errors.New("a fake site reuses nothing")}
}

func (l *fakeLease) Ready(context.Context) (driver.Waiting, error) { return l.f.ready() }

func (l *fakeLease) StageSpec(_ context.Context, launchSpec []byte) error {
	return l.f.alone("stage", launchSpec)
}
func (l *fakeLease) Attend(context.Context) error     { return l.f.alone("attend", nil) }
func (l *fakeLease) EnableSpec(context.Context) error { return l.f.alone("enable", nil) }

func (f *fakeSite) Forecast(context.Context, driver.Request) (driver.Waiting, error) {
	if f.forecast != nil {
		return f.forecast(), nil
	}
	return driver.Waiting{Expected: f.starts, Reason: f.late}, nil
}

func (f *fakeSite) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent != nil {
		return nil, f.silent
	}
	if f.lost || !f.held[h.Owner] {
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("gone")}
	}
	return f.lease(h.Owner), nil
}

func (f *fakeSite) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent != nil {
		return nil, f.silent
	}
	var found []core.Handle
	for o := range f.held {
		if o.Matches(q) {
			found = append(found, core.Handle{Driver: "fake", Version: 1, Owner: o})
		}
	}
	return found, nil
}

type fakeLease struct {
	drivertest.BareLease
	f     *fakeSite
	owner core.Owner
}

func (l *fakeLease) Handle() core.Handle {
	return core.Handle{Driver: "fake", Version: 1, Owner: l.owner, Data: json.RawMessage(`{}`)}
}

func (l *fakeLease) Hosts() []core.Host {
	if l.f.hostless && l.owner.Attempt == 1 {
		return nil
	}
	hosts := make([]core.Host, max(l.f.hosts, 1))
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Name: "f" + strconv.Itoa(i), Dir: l.f.dir, Cache: "same", Slots: 1}
		if l.f.private && i > 0 {
			hosts[i].Dir = filepath.Join(l.f.dir, hosts[i].Name)
		}
	}
	if l.f.alone != nil {
		if w, err := l.f.ready(); err != nil || !w.Ready {
			hosts[0].Name = ""
		}
	}
	return hosts
}
func (l *fakeLease) Deadline() time.Time { return l.f.deadline }
func (l *fakeLease) Status(context.Context) (driver.Status, error) {
	l.f.mu.Lock()
	still, ends := l.f.still, l.f.ends
	l.f.mu.Unlock()
	if l.f.over {
		return driver.Status{Reason: "its time is over"}, l.f.answer()
	}
	return driver.Status{Live: true, Reason: still, Ends: ends}, l.f.answer()
}

func (l *fakeLease) Launch(_ context.Context, c driver.NodeCommand) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.launched = c
	return l.f.launch
}

func (l *fakeLease) Dial(context.Context, int, string) (net.Conn, error) {
	if err := l.f.hostsAnswer(); err != nil {
		return nil, err
	}
	l.f.mu.Lock()
	still := l.f.still != ""
	l.f.mu.Unlock()
	if l.f.over || still {
		return nil, &core.Error{Kind: core.Transient, Err: errors.New("no way to the host")}
	}
	if l.f.head == nil {
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	}
	a, b := net.Pipe()
	b.Close()
	return &fakeConn{a, l.f}, nil
}

// fakeConn is a connection to the head of a site.
type fakeConn struct {
	net.Conn
	f *fakeSite
}

func (l *fakeLease) NodeAlive(context.Context, int) (bool, error) { return l.f.head != nil, nil }
func (l *fakeLease) Stage(_ context.Context, t driver.Transfer) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	l.f.staged = t
	if real, err := filepath.EvalSymlinks(t.Local); err == nil { // a store pins what it sends
		l.f.staged.Local = real
	}
	return l.f.travels(t.Remote)
}

func (l *fakeLease) Fetch(_ context.Context, t driver.Transfer) error {
	if l.f.onFetch != nil {
		l.f.onFetch(t.Remote)
	}
	if err := l.f.travels(t.Remote); err != nil {
		return err
	}
	if err := l.f.hostsAnswer(); err != nil {
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

func (l *fakeLease) Release(context.Context) error {
	l.f.mu.Lock()
	defer l.f.mu.Unlock()
	if l.f.silent != nil {
		return l.f.silent
	}
	l.f.released++
	if len(l.f.release) > 0 {
		err := l.f.release[0]
		l.f.release = l.f.release[1:]
		if err != nil {
			return err
		}
	}
	delete(l.f.held, l.owner)
	return nil
}

// fakeHead plays a list of events.
type fakeHead struct {
	events  []protocol.Event
	stopped chan struct{}
	broken  int // this many times the line breaks before the last event
	lasts   time.Duration
	hangs   int   // this many times it takes a connection and says nothing
	hold    error // what asking for a checkpoint to stay gives
	// extended are the ends of its slot that it was told of.
	extended []time.Time
}

func (h *fakeHead) Addresses(ctx context.Context) ([]string, error) {
	if h.hangs > 0 {
		h.hangs--
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []string{"127.0.0.1:1"}, nil
}

func (h *fakeHead) Close() error { return nil }
func (h *fakeHead) Extend(_ context.Context, ends time.Time) error {
	h.extended = append(h.extended, ends)
	return nil
}
func (h *fakeHead) Hold(context.Context, int) (func(), error) { return func() {}, h.hold }
func (h *fakeHead) Stop(context.Context, time.Duration) error { close(h.stopped); return nil }
func (h *fakeHead) Output(context.Context, int64, bool, func(tasklog.Frame) error) error {
	return nil
}

func (h *fakeHead) Input(context.Context, *input.Input) error { return nil }

func (h *fakeHead) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	for i, e := range h.events {
		if int64(i) < after {
			continue
		}
		if e.Result != nil {
			if err := core.Sleep(ctx, h.lasts); err != nil {
				return err
			}
		}
		if e.Result != nil && h.broken > 0 {
			h.broken--
			return errors.New("the line broke")
		}
		if e.Result != nil && e.Result.Kind == core.Stopped.String() {
			select {
			case <-h.stopped:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		e.Seq = int64(i + 1)
		if err := fn(e); err != nil {
			return err
		}
	}
	return nil
}

// fakeImages has every image. What a job names means next, or else one and the same.
type fakeImages struct {
	err  error
	next string
}

func (f fakeImages) Resolve(_ context.Context, job *spec.Job, _, _ string, _ func(string, int64, int64)) (core.Image, error) {
	i := core.Image{ID: cmp.Or(f.next, "sha256:x"), Config: core.ImageConfig{Cmd: []string{"true"}}}
	if job.Name == "guest" || job.Image == "guest" {
		i.Config.Env = []string{guestimage.Mark + "=1"}
	}
	if strings.HasPrefix(job.Image, "sha256:") {
		i.ID = job.Image
	}
	return i, f.err
}
func (f fakeImages) Has(string) bool                                     { return true }
func (f fakeImages) ExportFlat(context.Context, string, io.Writer) error { return nil }

// world is a controller over fake sites.
type world struct {
	*Controller
	sites map[string]*fakeSite
	names []string
	lock  *state.Lock // of the last run that was submitted
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	store, err := state.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	w := &world{sites: map[string]*fakeSite{}, names: names}
	for _, n := range names {
		w.sites[n] = &fakeSite{dir: t.TempDir(), probe: driver.Facts{Usable: true}, held: map[core.Owner]bool{}, head: succeeding()}
	}
	w.Controller = &Controller{
		Store: store, Images: fakeImages{}, Log: slog.New(slog.DiscardHandler), Report: func(protocol.Event) {}, Routes: &transfer.Routes{},
		Provider:   func(s spec.Site) (driver.Provider, error) { return w.sites[s.Name], nil },
		Secure:     proven,
		LocalStore: localStore,
	}
	w.Connect = func(c net.Conn) (Head, error) { return c.(*fakeConn).f.head, nil }
	return w
}

// localStore opens the checkpoints in a directory.
func localStore(dir string, between func()) driver.Checkpoints {
	return dirstore.Stepped{Checkpoints: dirstore.Checkpoints(dir), Between: between}
}

// proven believes every connection, as all ends of fakes are in the test.
func proven(_ context.Context, c net.Conn, _ []byte, _ int) (net.Conn, error) { return c, nil }

func events(r protocol.Result) *fakeHead {
	return &fakeHead{stopped: make(chan struct{}), events: []protocol.Event{{Phase: core.PhaseRun, Begin: true}, {Phase: core.PhaseRun, End: true}, {Result: &r}}}
}

func succeeding() *fakeHead { return exiting(0) }

func exiting(code int) *fakeHead {
	return events(protocol.Result{Exit: &core.Exit{Code: code}, Outputs: []protocol.OutputMatch{}})
}

// submit records a run over all sites.
func (w *world) submit(t *testing.T) state.Run {
	t.Helper()
	return w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
}

func (w *world) submitJob(t *testing.T, job spec.Job) state.Run {
	t.Helper()
	s := Submission{Job: job}
	for _, n := range w.names {
		s.Sites = append(s.Sites, spec.Site{Name: n, Provider: "fake"})
	}
	run, lock, err := w.Submit(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	w.lock = lock
	t.Cleanup(func() { lock.Unlock() })
	return run
}

func (w *world) drive(t *testing.T, run state.Run, stop <-chan struct{}) state.Run {
	t.Helper()
	got, err := w.Drive(t.Context(), run.ID, stop)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// nothingHeld fails the test if a lease is left on any site.
func (w *world) nothingHeld(t *testing.T) {
	t.Helper()
	for name, s := range w.sites {
		if len(s.held) > 0 {
			t.Errorf("site %s still holds %v", name, s.held)
		}
	}
}

func journal(t *testing.T, dir string, list ...protocol.Event) {
	t.Helper()
	var raw []byte
	for i, e := range list {
		e.Seq = cmp.Or(e.Seq, int64(i+1))
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), append(raw, `{"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
}
