package control

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
)

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
	config.Plan.Begin(time.Now())
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
