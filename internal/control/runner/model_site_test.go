package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/state"
)

type modelSite struct {
	drivertest.BareProvider
	m      *model
	name   string
	slot   time.Duration
	queue  bool
	keeps  bool // files outlive the hosts, as on a shared scratch
	alone  bool // it starts by itself what was left with it
	strict bool // it takes its hosts back when the slot is over, as Slurm does
	sees   bool // its hosts have the store's file system
	passes bool // it keeps a checkpoint for the next attempt, and other sites reach it
	wait   time.Duration
	price  float64
	shut   time.Time // from when on it takes nothing any more
	cuts   int       // partitions that may still come
	cutTo  time.Time // until when nobody gets through to it
	// silent is what a look at its queue says until silentTo.
	silent   error
	silentTo time.Time
	dead     bool // it does not answer any more, until all is calm
	leases   map[core.Owner]*modelLease
}

// cut tells whether the line to the site is cut now. The model is locked.
func (s *modelSite) cut() bool {
	if s.m.calm {
		return false
	}
	if s.cuts > 0 && s.m.once("cut."+s.name, 150) {
		s.part()
	}
	return s.dead || time.Now().Before(s.cutTo)
}

// part cuts the line for a while.
func (s *modelSite) part() {
	s.cuts--
	s.cutTo = time.Now().Add([]time.Duration{30 * time.Second, 3 * time.Minute, time.Hour, 10 * time.Hour}[s.m.of("cut.for", 4)])
	s.m.say("the line to %s is cut until %s", s.name, s.cutTo.Format("02 15:04:05"))
}

// way fails when nothing gets through to the site, or this once. The model is
// locked.
func (s *modelSite) way(what string, n int) error {
	if s.cut() || s.m.once(what+"."+s.name, n) {
		return s.m.passing(what + " on " + s.name)
	}
	return nil
}

// writeOff is what the run's user says of a site that does not answer: it is of the
// last attempt, see HoldLost.
func (s *modelSite) writeOff() {
	m := s.m
	attempts := m.attempts()
	if len(attempts) == 0 || attempts[len(attempts)-1].Site != s.name {
		return
	}
	last := attempts[len(attempts)-1].N
	m.mu.Lock()
	if m.calm || !s.dead {
		m.mu.Unlock()
		return
	}
	m.say("its user holds %s for lost", s.name)
	for owner, l := range s.leases {
		l.written = l.written || owner.Attempt == last
	}
	m.mu.Unlock()
	if _, err := m.store.Requests().Ask(context.Background(), state.Request{Run: m.run, Attempt: last, Kind: state.RequestSiteLost}); err != nil {
		panic(err)
	}
}

func (s *modelSite) Info() driver.Info { return driver.Info{Name: "model", Summary: "a model"} }

func (s *modelSite) Probe(context.Context) (driver.Facts, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.way("probe", 12); err != nil {
		return driver.Facts{}, err
	}
	if s.m.once("closed."+s.name, 12) || !s.shut.IsZero() && time.Now().After(s.shut) {
		return driver.Facts{Reason: "closed for today", Passing: true}, nil
	}
	return s.liedFacts(driver.Facts{Usable: true}), nil
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
	if s.cut() {
		return nil, s.m.passing("acquire on " + s.name)
	}
	if l := s.leases[r.Owner]; l != nil && l.live {
		return l.lied(), nil
	}
	l := &modelLease{s: s, owner: r.Owner, live: true, dir: filepath.Join(s.m.dir, s.name, r.Owner.Run+"-"+strconv.Itoa(r.Owner.Attempt))}
	s.leases[r.Owner] = l
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		panic(err)
	}
	if s.m.once("acquire."+s.name, 15) { // with the half of it made, which has to be found
		return nil, s.m.passing("acquire on " + s.name)
	}
	l.ready = time.Now()
	if s.queue {
		l.ready = l.ready.Add(time.Duration(s.m.of("line."+s.name, 5)) * 7 * time.Minute)
		l.dropped = s.m.once("dropped."+s.name, 15)
	}
	if s.strict && s.slot > 0 {
		l.deadline = l.ready.Add(s.slot)
		time.AfterFunc(time.Until(l.deadline), func() { l.lose("its slot is over") })
	}
	if s.alone {
		time.AfterFunc(time.Until(l.ready)+15*time.Minute, l.tire)
	}
	s.m.say("%s grants attempt %d", s.name, r.Owner.Attempt)
	if s.m.once("lost."+s.name, 8) { // the site will be lost
		time.AfterFunc(time.Duration(1+s.m.of("lost.at", 200))*time.Minute, func() { l.lose("it is lost") })
	}
	return l.lied(), nil
}

func (s *modelSite) Recover(_ context.Context, h core.Handle) (driver.Lease, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	l := s.leases[h.Owner]
	if h.Owner.Run != s.m.run {
		s.m.wrong("the lease of %v is asked for", h.Owner)
	}
	if err := s.way("recover", 25); err != nil {
		return nil, err
	}
	if l == nil || !l.live && !s.keeps {
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("it is gone")}
	}
	return l.lied(), nil
}

func (s *modelSite) List(_ context.Context, q core.Owner) ([]core.Handle, error) {
	s.m.step()
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.way("list", 25); err != nil {
		if q.Attempt > 0 { // it is a release that fails
			if l := s.leases[q]; l != nil && l.stuck.IsZero() {
				l.stuck = time.Now()
			}
		}
		return nil, err
	}
	var found []core.Handle
	for o, l := range s.leases {
		if o.Matches(q) {
			found = append(found, l.Handle())
		}
	}
	return s.liedList(found, q), nil
}
