package cloud

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// listAge is how old a list may be from which the state of machines is read that run.
const listAge = 5 * time.Second

// Lists has the machines of accounts as they were last listed. The providers of one process share it: of many runs whose
// machines do not answer, one asks the cloud for all.
type Lists struct {
	mu    sync.Mutex
	lists map[string]*list
}

// list is what an account has for one installation.
type list struct {
	turn     chan struct{} // filled while it is used
	asked    time.Time
	machines []Machine
	err      error
}

// of returns the list of an account.
func (l *Lists) of(account string) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lists == nil {
		l.lists = map[string]*list{}
	}
	if l.lists[account] == nil {
		l.lists[account] = &list{turn: make(chan struct{}, 1)}
	}
	return l.lists[account]
}

// read returns the list, which was no older than listAge when the caller came: those who wait for a slow one share it.
// An error counts for as long.
func (l *list) read(ctx context.Context, ask func(context.Context) ([]Machine, error)) ([]Machine, error) {
	came := time.Now()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	if came.Sub(l.asked) < listAge {
		return l.machines, l.err
	}
	begun := time.Now()
	machines, err := ask(ctx)
	if ctx.Err() != nil { // others are still there
		return nil, context.Cause(ctx)
	}
	l.asked, l.machines, l.err = begun, machines, err
	return machines, err
}

// running returns the machines of a lease by the list that providers share, if all of them run. Else they have to be asked
// for: whether machines have ended is seen only in a list of their own.
func (l *lease) running(ctx context.Context) (machines []Machine, all bool, err error) {
	p, r := l.p, l.r
	if p.s.Lists == nil || p.s.Account == "" || len(r.Machines) == 0 {
		return nil, false, nil
	}
	q := core.Owner{User: r.Owner.User}
	listed, err := p.s.Lists.of(q.User+" "+p.s.Account).read(ctx, func(ctx context.Context) ([]Machine, error) { return p.api.Owned(ctx, q) })
	if err != nil {
		return nil, false, err
	}
	for _, id := range r.Machines {
		at := slices.IndexFunc(listed, func(m Machine) bool { return m.ID == id && m.State == Running && m.Owner == r.Owner })
		if at < 0 {
			return nil, false, nil
		}
		machines = append(machines, listed[at])
	}
	return machines, true, nil
}
