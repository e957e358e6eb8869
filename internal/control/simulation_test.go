package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// This is a model of sites, hosts and a job under which controllers live and
// die in virtual time. Whatever may go one way or another is decided by a list
// of choices, so that a history can be played again, and made shorter.
//
// The job counts minutes. Its volume holds the count, as a checkpoint would,
// and a save writes it there. What the controller does is its real code, with
// its real records and real files.

// choices is a history's decisions: 0 always means that nothing goes wrong.
type choices struct {
	given []int
	next  int
	draw  func(n int) int // beyond the given ones; nil: 0
}

// of decides between n ways.
func (c *choices) of(n int) int {
	if c.next == len(c.given) {
		v := 0
		if c.draw != nil {
			v = c.draw(n)
		}
		c.given = append(c.given, v)
	}
	v := c.given[c.next] % n
	c.next++
	return v
}

// model is the world of one history.
type model struct {
	mu      sync.Mutex
	choose  *choices
	dir     string
	sites   []*modelSite
	target  int  // what the job counts to
	reached int  // the highest count of any checkpoint that was good when its site let go of it
	calm    bool // from now on sites let go of what they are told to
	faults  []string
	log     []string

	life *life // the controller's
}

// life is one controller's, which dies at a step.
type life struct {
	dead   bool
	deadAt int // steps from now; 0: it does not
	cancel context.CancelFunc
	store  *state.Store
}

// wrong notes a broken promise.
func (m *model) wrong(format string, a ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, a...))
}

func (m *model) say(format string, a ...any) {
	m.log = append(m.log, time.Now().Format("15:04:05 ")+fmt.Sprintf(format, a...))
}

// step is where a controller may die: before and after whatever it asks of the
// world. From then on it does nothing any more. It is called unlocked.
func (m *model) step() {
	m.mu.Lock()
	l := m.life
	if !l.dead && l.deadAt > 0 {
		if l.deadAt--; l.deadAt == 0 {
			m.say("the controller dies")
			l.dead = true
			l.store.Close()
			l.cancel()
		}
	}
	dead := l.dead
	m.mu.Unlock()
	if dead {
		goruntime.Goexit()
	}
}

// passing is a fault that may go by.
func (m *model) passing(what string) error {
	m.say("%s fails", what)
	return &core.Error{Kind: core.Transient, Op: what, Err: errors.New("the line broke")}
}

type modelSite struct {
	m      *model
	name   string
	slot   time.Duration
	queue  bool
	keeps  bool // files outlive the hosts, as on a shared scratch
	leases map[core.Owner]*modelLease
}

func (s *modelSite) Info() driver.Info { return driver.Info{Name: "model", Summary: "a model"} }

func (s *modelSite) Probe(context.Context) (driver.Facts, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	switch s.m.choose.of(12) {
	case 1:
		return driver.Facts{Reason: "closed for today", Passing: true}, nil
	case 2:
		return driver.Facts{}, s.m.passing("probe of " + s.name)
	}
	return driver.Facts{Usable: true}, nil
}

func (s *modelSite) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	s.m.step()
	l, err := s.acquire(r)
	s.m.step()
	return l, err
}

func (s *modelSite) acquire(r driver.Request) (driver.Lease, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if l := s.leases[r.Owner]; l != nil && l.live {
		return l.form(), nil
	}
	l := &modelLease{s: s, owner: r.Owner, live: true, dir: filepath.Join(s.m.dir, s.name, r.Owner.Run+"-"+strconv.Itoa(r.Owner.Attempt))}
	s.leases[r.Owner] = l
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		panic(err)
	}
	if s.m.choose.of(15) == 1 { // with the half of it made, which has to be found
		return nil, s.m.passing("acquire on " + s.name)
	}
	l.ready = time.Now()
	if s.queue {
		l.ready = l.ready.Add(time.Duration(s.m.choose.of(6)) * time.Hour)
		l.dropped = s.m.choose.of(15) == 1
	}
	s.m.say("%s grants attempt %d", s.name, r.Owner.Attempt)
	if n := s.m.choose.of(8); n == 1 { // the site will be lost
		time.AfterFunc(time.Duration(1+s.m.choose.of(200))*time.Minute, l.lose)
	}
	return l.form(), nil
}

func (s *modelSite) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	l := s.leases[h.Owner]
	switch {
	case s.m.choose.of(25) == 1:
		return nil, s.m.passing("recover on " + s.name)
	case l == nil || !l.live && !s.keeps:
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("it is gone")}
	}
	return l.form(), nil
}

func (s *modelSite) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if s.m.choose.of(25) == 1 {
		return nil, s.m.passing("list on " + s.name)
	}
	var found []core.Handle
	for o, l := range s.leases {
		if o.Matches(q) {
			found = append(found, l.Handle())
		}
	}
	return found, nil
}

type modelLease struct {
	s       *modelSite
	owner   core.Owner
	dir     string
	live    bool
	ready   time.Time
	dropped bool
	stuck   int // releases that failed, of so many that do
	sticks  int
	head    *modelHead
}

// form gives the lease with the interfaces of its kind of site.
func (l *modelLease) form() driver.Lease {
	if l.s.queue {
		return &modelQueued{l}
	}
	return l
}

type modelQueued struct{ *modelLease }

func (l *modelQueued) Ready(context.Context) (driver.Waiting, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	switch {
	case !l.live:
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job is gone")}
	case time.Now().Before(l.ready):
		return driver.Waiting{Reason: "others are before us", Expected: l.ready}, nil
	case l.dropped:
		l.gone()
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job was cancelled")}
	case l.s.m.choose.of(15) == 1:
		return driver.Waiting{}, l.s.m.passing("a look at the queue")
	}
	return driver.Waiting{Ready: true}, nil
}

func (l *modelLease) Handle() core.Handle {
	return core.Handle{Driver: "model", Version: 1, Owner: l.owner, Data: json.RawMessage(`{}`)}
}

func (l *modelLease) Hosts() []core.Host {
	return []core.Host{{Name: l.s.name + "-0", Dir: l.dir, Cache: "same", Slots: 1}}
}

func (l *modelLease) Deadline() time.Time { return time.Time{} }

func (l *modelLease) Status(context.Context) (driver.Status, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	return driver.Status{Live: l.live, Reason: "its hosts are gone"}, nil
}

func (l *modelLease) NodeAlive(context.Context, int) (bool, error) {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	return l.live && l.head != nil && !l.head.ended, nil
}

// lose takes the hosts away, with everything on them.
func (l *modelLease) lose() {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if !l.live {
		return
	}
	l.s.m.say("%s is lost", l.s.name)
	if l.head != nil {
		l.head.end()
	}
	l.gone()
}

// gone is what a site does that has taken its hosts back. The model is locked.
func (l *modelLease) gone() {
	l.live = false
	if !l.s.keeps {
		os.RemoveAll(l.dir)
		delete(l.s.leases, l.owner)
	}
}

// reach fails when there is no way to the hosts' files.
func (l *modelLease) reach(what string) error {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	switch {
	case !l.live && !l.s.keeps:
		return &core.Error{Kind: core.Lost, Op: what, Err: errors.New("its hosts are gone")}
	case l.s.m.choose.of(25) == 1:
		return l.s.m.passing(what)
	}
	return nil
}

func (l *modelLease) Stage(_ context.Context, t driver.Transfer) error {
	l.s.m.step()
	err := l.reach("stage to " + l.s.name)
	if err == nil {
		err = errors.Join(os.RemoveAll(t.Remote), copyTree(t.Local, t.Remote))
	}
	l.s.m.step()
	return err
}

func (l *modelLease) Fetch(_ context.Context, t driver.Transfer) error {
	l.s.m.step()
	err := l.reach("fetch from " + l.s.name)
	if err == nil {
		if _, serr := os.Stat(t.Remote); serr != nil {
			return &core.Error{Kind: core.NotFound, Err: serr}
		}
		if l.s.m.full() {
			return &core.Error{Kind: core.Permanent, Err: errors.New("no space left on device")}
		}
		err = errors.Join(os.RemoveAll(t.Local), copyTree(t.Remote, t.Local))
	}
	l.s.m.step()
	return err
}

// full tells whether the disk at home is full just now.
func (m *model) full() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.choose.of(40) == 1
}

func copyTree(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, raw, 0o600))
}

func (l *modelLease) Dial(context.Context, int, string) (net.Conn, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	switch {
	case !l.live:
		return nil, &core.Error{Kind: core.Transient, Err: errors.New("no way to the host")}
	case l.head == nil || l.head.ended:
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	case l.s.m.choose.of(25) == 1:
		return nil, l.s.m.passing("dial " + l.s.name)
	}
	return &modelConn{head: l.head}, nil
}

type modelConn struct {
	net.Conn
	head *modelHead
}

func (l *modelLease) Launch(_ context.Context, c driver.NodeCommand) error {
	l.s.m.step()
	err := l.launch(c)
	l.s.m.step()
	return err
}

func (l *modelLease) launch(c driver.NodeCommand) error {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.live {
		return m.passing("launch")
	}
	var config protocol.Config
	if err := json.Unmarshal(c.Config, &config); err != nil {
		panic(err)
	}
	for _, s := range m.sites {
		for _, other := range s.leases {
			if other.head != nil && !other.head.ended && other.stuck < 10 {
				m.wrong("two heads at once, on %s and %s", s.name, l.s.name)
			}
		}
	}
	h := &modelHead{l: l, plan: config.Plan, count: readCount(protocol.VolumeDir(l.dir)), over: make(chan struct{}), stopped: make(chan struct{})}
	if h.count < m.reached {
		m.wrong("attempt %d begins at %d, after a checkpoint at %d", l.owner.Attempt, h.count, m.reached)
	}
	if err := os.MkdirAll(protocol.VolumeDir(l.dir), 0o700); err != nil { // as a node does
		panic(err)
	}
	m.say("attempt %d begins at %d on %s", l.owner.Attempt, h.count, l.s.name)
	l.head = h
	h.journal(protocol.Event{Phase: protocol.PhaseRun, Begin: true})
	h.live()
	if m.choose.of(15) == 1 {
		return m.passing("launch, which has worked,")
	}
	return nil
}

func (l *modelLease) Release(context.Context) error {
	l.s.m.step()
	err := l.release()
	l.s.m.step()
	return err
}

func (l *modelLease) release() error {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.calm && (l.stuck > 0 && l.stuck < l.sticks || m.choose.of(10) == 1) {
		if l.stuck == 0 { // for a moment, or for good as far as this attempt goes
			l.sticks = []int{1, 3, 68}[m.choose.of(3)]
		}
		l.stuck++
		return m.passing("release of " + l.s.name)
	}
	if l.head != nil {
		l.head.end()
	}
	l.live = false
	delete(l.s.leases, l.owner)
	os.RemoveAll(l.dir)
	m.say("%s is released", l.s.name)
	return nil
}

func readCount(volume string) int {
	raw, err := os.ReadFile(filepath.Join(volume, "count"))
	if err != nil {
		return 0
	}
	n, err := strconv.Atoi(string(raw))
	if err != nil {
		return -1 // torn
	}
	return n
}

// modelHead is a head with its job.
type modelHead struct {
	l       *modelLease
	plan    *protocol.Plan
	count   int
	begun   time.Time
	events  []protocol.Event
	over    chan struct{} // closed at its end, however it comes
	stopped chan struct{} // closed when a stop is asked for
	ended   bool
}

func (h *modelHead) journal(e protocol.Event) {
	e.Seq = int64(len(h.events) + 1)
	h.events = append(h.events, e)
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(protocol.EventsPath(h.l.dir), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

// end ends the head without a result. The model is locked.
func (h *modelHead) end() {
	if !h.ended {
		h.ended = true
		close(h.over)
	}
}

// live is what becomes of the head, in its own time.
func (h *modelHead) live() {
	m := h.l.s.m
	h.begun = time.Now()
	left := time.Duration(m.target-h.count) * time.Minute
	fate := m.choose.of(14)
	when := time.Duration(1+m.choose.of(90)) * time.Minute
	saves := m.choose.of(8)
	go func() {
		var slot <-chan time.Time
		if !h.plan.Deadline.IsZero() {
			slot = time.After(time.Until(h.plan.Deadline) - h.plan.Checkpoint.Grace - h.plan.Grace)
		}
		var fault <-chan time.Time
		if fate == 1 || fate == 2 {
			fault = time.After(when)
		}
		select {
		case <-h.over:
		case <-h.stopped:
			h.result(&protocol.Result{Kind: core.Stopped.String(), Message: "stopped"})
		case <-time.After(max(0, left)):
			h.save(m.target)
			h.result(&protocol.Result{Exit: &core.Exit{}, Outputs: []protocol.OutputMatch{{Index: 0, Path: "volume/count"}}})
		case <-slot:
			h.atSlotEnd(saves)
		case <-fault:
			if fate == 1 {
				m.mu.Lock()
				m.say("the head is killed")
				h.end()
				m.mu.Unlock()
				return
			}
			h.result(&protocol.Result{Kind: core.Lost.String(), Message: "a host was lost"})
		}
	}()
}

// atSlotEnd has the job save itself, which may go wrong.
func (h *modelHead) atSlotEnd(saves int) {
	switch saves {
	case 1: // it is killed as its grace is over
		h.result(&protocol.Result{Kind: core.Lost.String(), Message: "the time slot has ended"})
		return
	case 2: // it ends without having written anything
	default:
		h.save(h.count + int(time.Since(h.begun)/time.Minute))
	}
	h.result(&protocol.Result{Continue: true, Kind: core.Lost.String(), Message: "the time slot has ended"})
}

func (h *modelHead) save(count int) {
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	volume := protocol.VolumeDir(h.l.dir)
	if err := errors.Join(os.MkdirAll(volume, 0o700), os.WriteFile(filepath.Join(volume, "count"), []byte(strconv.Itoa(count)), 0o600)); err != nil {
		panic(err)
	}
}

// result leaves the head's result, and ends it.
func (h *modelHead) result(r *protocol.Result) {
	m := h.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.ended {
		return
	}
	raw, err := json.Marshal(r)
	if err == nil {
		err = os.WriteFile(protocol.ResultPath(h.l.dir), raw, 0o600)
	}
	if err != nil {
		panic(err)
	}
	h.journal(protocol.Event{Phase: protocol.PhaseRun, End: true})
	h.journal(protocol.Event{Result: r})
	m.say("attempt %d on %s ends: %s %v", h.l.owner.Attempt, h.l.s.name, r.Message, r.Exit)
	h.end()
}

// modelLine is a controller's connection to a head.
type modelLine struct{ *modelHead }

func (h modelLine) Addresses(context.Context) ([]string, error) { return []string{"127.0.0.1:1"}, nil }
func (h modelLine) Close() error                                { return nil }
func (h modelLine) Output(context.Context, int64, bool, func(tasklog.Frame) error) error {
	return nil
}

func (h modelLine) Stop(context.Context, time.Duration) error {
	h.l.s.m.mu.Lock()
	defer h.l.s.m.mu.Unlock()
	select {
	case <-h.stopped:
	default:
		close(h.stopped)
	}
	return nil
}

func (h modelLine) Watch(ctx context.Context, after int64, fn func(protocol.Event) error) error {
	m := h.l.s.m
	for {
		m.step()
		m.mu.Lock()
		events, ended := h.events, h.ended
		breaks := m.choose.of(20) == 1
		m.mu.Unlock()
		for _, e := range events[min(int(after), len(events)):] {
			if err := fn(e); err != nil {
				return err
			}
			after = e.Seq
			if e.Result != nil {
				return nil
			}
		}
		if ended || breaks {
			return errors.New("the line broke")
		}
		select {
		case <-h.over:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// newModel draws sites and a job.
func newModel(c *choices, dir string) *model {
	m := &model{choose: c, dir: dir, target: 60 + 60*c.of(6)}
	for i := range 1 + c.of(3) {
		s := &modelSite{m: m, name: string(rune('a' + i)), leases: map[core.Owner]*modelLease{}}
		if n := c.of(4); n > 0 {
			s.slot = time.Duration(n*40) * time.Minute
		}
		s.queue, s.keeps = c.of(3) == 1, c.of(3) == 1
		m.sites = append(m.sites, s)
	}
	return m
}

func (m *model) submission() Submission {
	s := Submission{Job: spec.Job{Name: "count", Nodes: 1, Volume: "/work", Run: &spec.Command{Shell: "count"}, Wait: 48 * time.Hour,
		Checkpoint: &spec.Checkpoint{Grace: time.Minute}, Outputs: []spec.Copy{{From: "/work/count", To: filepath.Join(m.dir, "results")}}}}
	for _, site := range m.sites {
		s.Sites = append(s.Sites, spec.Site{Name: site.name, Provider: "model", Slot: site.slot})
	}
	return s
}

// controller is one, alive until it dies.
func (m *model) controller(ctx context.Context) (*Controller, context.Context, error) {
	store, err := state.Open(ctx, filepath.Join(m.dir, "home"))
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	l := &life{cancel: cancel, store: store}
	if m.choose.of(3) == 1 {
		l.deadAt = 1 + m.choose.of(60)
	}
	m.mu.Lock()
	m.life = l
	m.mu.Unlock()
	return &Controller{Store: store, Images: fakeImages{}, Log: slog.New(slog.DiscardHandler), Report: func(protocol.Event) {},
		Provider: func(s spec.Site) (driver.Provider, error) {
			for _, site := range m.sites {
				if site.name == s.Name {
					return site, nil
				}
			}
			return nil, fs.ErrNotExist
		},
		Connect: func(c net.Conn) (Head, error) { return modelLine{c.(*modelConn).head}, nil }}, ctx, nil
}

func (m *model) kept(run string) []checkpoint.Kept {
	list, _ := checkpoint.List(filepath.Join(m.dir, "home", "runs", run, checkpointsDir)) // none at all is found by its lack
	return list
}

// good is the count of the newest undamaged checkpoint at home.
func (m *model) good(run string) int {
	best := 0
	for _, k := range m.kept(run) {
		if k.Undamaged() {
			best = max(best, readCount(k.Volume()))
		}
	}
	return best
}

// rot damages the newest checkpoint at home, between two controllers.
func (m *model) rot(run string) {
	list := m.kept(run)
	if len(list) == 0 {
		return
	}
	if os.WriteFile(filepath.Join(list[len(list)-1].Volume(), "count"), []byte("rotten"), 0o600) == nil {
		m.say("the newest checkpoint rots")
		m.reached = m.good(run)
	}
}

// maxLives bounds how many controllers a history may wear out.
const maxLives = 60

// play plays a history to its end, and gives what went wrong.
func (m *model) play(ctx context.Context) {
	var id string
	for lives := 0; ; lives++ {
		if lives == maxLives {
			m.wrong("no end after %d controllers", lives)
			return
		}
		if id != "" {
			m.mu.Lock()
			m.reached = max(m.reached, m.good(id))
			if m.choose.of(12) == 1 {
				m.rot(id)
			}
			m.mu.Unlock()
		}
		c, alive, err := m.controller(ctx)
		if err != nil {
			m.wrong("open the state: %v", err)
			return
		}
		if id == "" {
			run, lock, err := c.Submit(ctx, m.submission())
			if err != nil {
				m.wrong("submit: %v", err)
				return
			}
			lock.Unlock()
			id = run.ID
		}
		run, err := m.drive(alive, c, id)
		m.life.cancel()
		c.Store.Close()
		if err == nil && run.State != "" {
			m.judge(ctx, run)
			return
		}
		time.Sleep(time.Duration(m.choose.of(100)) * time.Minute) // until a bee command starts another
	}
}

// drive has a controller work until it dies or is done.
func (m *model) drive(ctx context.Context, c *Controller, id string) (run state.Run, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errors.New("it died")
		r, derr := c.Drive(ctx, id, nil)
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.life.dead {
			run, err = r, derr
			if derr != nil {
				m.say("the controller gives up: %v", derr)
			}
		}
	}()
	<-done
	return run, err
}

// judge holds the end of a history against what is promised.
func (m *model) judge(ctx context.Context, run state.Run) {
	m.say("the run ends as %s: %s", run.State, run.Message)
	switch run.State {
	case state.Succeeded:
		raw, err := os.ReadFile(filepath.Join(m.dir, "results", "count"))
		if err != nil || string(raw) != strconv.Itoa(m.target) {
			m.wrong("it succeeded, and its results hold %q (%v), not %d", raw, err, m.target)
		}
	case state.Failed:
		if run.Message == "" {
			m.wrong("it failed without a reason")
		}
	case state.Suspended:
		if m.good(run.ID) == 0 && m.reached > 0 {
			m.wrong("it is suspended, and its checkpoint is gone")
		}
	default:
		m.wrong("it ended as %s", run.State)
	}
	// What could not be released at once is released by later commands, once
	// the sites can be reached again.
	m.calm = true
	for try := 0; try < 10 && m.held() > 0; try++ {
		time.Sleep(2 * retryRelease)
		c, alive, err := m.controller(ctx)
		if err != nil {
			m.wrong("open the state: %v", err)
			return
		}
		m.life.deadAt = 0
		m.drive(alive, c, run.ID) //nolint:errcheck // what is left is counted
		m.life.cancel()
		c.Store.Close()
	}
	for _, s := range m.sites {
		for o, l := range s.leases {
			m.wrong("left on %s: attempt %d (live %v)", s.name, o.Attempt, l.live)
		}
	}
}

// held is the number of leases on all sites.
func (m *model) held() int {
	n := 0
	for _, s := range m.sites {
		n += len(s.leases)
	}
	return n
}

func (m *model) String() string {
	return strings.Join(m.faults, "\n") + "\n\t" + strings.Join(m.log, "\n\t") + fmt.Sprintf("\nchoices: %v", m.choose.given[:min(m.choose.next, len(m.choose.given))])
}
