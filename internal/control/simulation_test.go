package control

import (
	"context"
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
