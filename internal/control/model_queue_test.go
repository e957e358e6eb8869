package control

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

func (l *modelLease) StageSpec(_ context.Context, launchSpec []byte) error {
	l.s.m.step()
	err := l.reach("entrust")
	l.s.m.mu.Lock()
	if l.launchSpec != nil {
		l.s.m.wrong("attempt %d on %s gets a launch spec again, with another enabled", l.owner.Attempt, l.s.name)
	}
	if err == nil {
		l.draft = launchSpec
	}
	l.s.m.mu.Unlock()
	l.s.m.step()
	return err
}

// Attend is not asked of it: no run here has secrets.
func (l *modelLease) Attend(context.Context) error {
	return &core.Error{Kind: core.Unsupported, Err: errors.New("the model has no secrets")}
}

func (l *modelLease) EnableSpec(context.Context) error {
	l.s.m.step()
	err := l.commit()
	l.s.m.step()
	return err
}

func (l *modelLease) commit() error {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := l.s.way("commit", 20); err != nil {
		return err
	}
	switch {
	case l.launchSpec != nil:
		return nil
	case l.s.leases[l.owner] != l || l.draft == nil:
		return &core.Error{Kind: core.NotFound, Err: errors.New("there is no launch spec")}
	}
	l.launchSpec = l.draft
	time.AfterFunc(time.Until(l.ready), l.obey)
	if m.once("committed."+l.s.name, 20) {
		return m.passing("commit, which has worked,")
	}
	return nil
}

// obey executes the launch spec.
func (l *modelLease) obey() {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.live || m.calm {
		return
	}
	if l.dropped {
		l.gone()
		return
	}
	var o launch.Spec
	err := json.Unmarshal(l.launchSpec, &o)
	if err == nil {
		_, err = o.Configs(ownHosts{l})
	}
	if err != nil {
		panic(err)
	}
	if l.head != nil {
		m.wrong("attempt %d was started twice on %s", l.owner.Attempt, l.s.name)
		return
	}
	l.begin(o.Plan)
	for rank := range m.nodes {
		l.head.join(rank)
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

func (l *modelLease) Ready(context.Context) (driver.Waiting, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	switch {
	case l.s.cut():
		return driver.Waiting{}, l.s.silence()
	case l.s.alone && l.head != nil: // it was granted, whatever came then
		return driver.Waiting{Ready: true, Since: l.ready}, nil
	case !l.live:
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job is gone")}
	case time.Now().Before(l.ready):
		return driver.Waiting{Reason: "others are before us", Expected: l.ready}, nil
	case l.dropped:
		l.gone()
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Err: errors.New("the job was cancelled")}
	case l.s.m.once("ready."+l.s.name, 15):
		return driver.Waiting{}, l.s.noAnswer()
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
