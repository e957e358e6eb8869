package runner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/control/launch"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Leases of sites with a queue, and of those that start by themselves what was left
// with them.

// modelAutostart starts by itself what was left with a lease.
type modelAutostart struct{ l *modelLease }

func (a modelAutostart) StageSpec(_ context.Context, launchSpec []byte) error {
	a.l.s.m.step()
	err := a.l.reach("leave a launch spec")
	a.l.s.m.mu.Lock()
	if a.l.launchSpec != nil {
		a.l.s.m.wrong("attempt %d on %s gets a launch spec again, with another enabled", a.l.owner.Attempt, a.l.s.name)
	}
	if err == nil {
		a.l.draft = launchSpec
	}
	a.l.s.m.mu.Unlock()
	a.l.s.m.step()
	return err
}

// Attend is not asked of it: no run here has secrets.
func (modelAutostart) Attend(context.Context) error {
	return &core.Error{Kind: core.Unsupported, Err: errors.New("the model has no secrets")}
}

func (a modelAutostart) EnableSpec(context.Context) error {
	a.l.s.m.step()
	err := a.commit()
	a.l.s.m.step()
	return err
}

func (a modelAutostart) commit() error {
	m := a.l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := a.l.s.way("commit", 20); err != nil {
		return err
	}
	switch {
	case a.l.launchSpec != nil:
		return nil
	case a.l.s.leases[a.l.owner] != a.l || a.l.draft == nil:
		return &core.Error{Kind: core.NotFound, Err: errors.New("there is no launch spec")}
	}
	a.l.launchSpec = a.l.draft
	time.AfterFunc(time.Until(a.l.ready), a.obey)
	if m.once("committed."+a.l.s.name, 20) {
		return m.passing("commit, which has worked,")
	}
	return nil
}

// obey executes the launch spec.
func (a modelAutostart) obey() {
	m := a.l.s.m
	attempts := m.attempts()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.l.live || m.calm {
		return
	}
	if a.l.dropped {
		a.l.gone()
		return
	}
	var o launch.Spec
	err := json.Unmarshal(a.l.launchSpec, &o)
	if err == nil {
		_, err = o.Configs(ownHosts{a.l})
	}
	if err != nil {
		panic(err)
	}
	if a.l.head != nil {
		m.wrong("attempt %d was started twice on %s", a.l.owner.Attempt, a.l.s.name)
		return
	}
	a.l.begin(o.Plan, attempts)
	for rank := range m.nodes {
		a.l.head.join(rank)
	}
}

// tire gives hosts back that nobody uses.
func (l *modelLease) tire() {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if l.live && l.head == nil {
		l.s.m.say("%s gives its hosts back", l.s.name)
		l.gone()
	}
}

// modelQueue is the queue of a lease.
type modelQueue struct{ l *modelLease }

func (q modelQueue) Ready(context.Context) (driver.Waiting, error) {
	q.l.s.m.step()
	q.l.s.m.mu.Lock()
	defer q.l.s.m.mu.Unlock()
	switch {
	case q.l.s.cut():
		return driver.Waiting{}, q.l.s.silence()
	case q.l.s.alone && q.l.head != nil: // it was granted, whatever came then
		return driver.Waiting{Ready: true, Since: q.l.ready}, nil
	case !q.l.live:
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job is gone")}
	case time.Now().Before(q.l.ready):
		return driver.Waiting{Reason: "others are before us", Expected: q.l.ready}, nil
	case q.l.dropped:
		q.l.gone()
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job was cancelled")}
	case q.l.s.m.once("ready."+q.l.s.name, 15):
		return driver.Waiting{}, q.l.s.noAnswer()
	}
	return driver.Waiting{Ready: true}, nil
}

// silence is noAnswer while the line is cut: the same for as long as it is.
func (s *modelSite) silence() error {
	if s.silent == nil || s.silentTo != s.cutTo {
		s.silent, s.silentTo = s.noAnswer(), s.cutTo
	}
	return s.silent
}

// noAnswer is what the way to a queue says that has none, or the batch system's programs:
// it may look as if it were for good.
func (s *modelSite) noAnswer() error {
	kinds := []core.Kind{core.Transient, core.Permanent, core.Unsupported}
	s.m.say("a look at the queue fails")
	return &core.Error{Kind: kinds[s.m.choose.of("no answer", len(kinds))], Op: "look at the queue", Err: errors.New("words that nobody knows")}
}
