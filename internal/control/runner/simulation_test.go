package runner

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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

// This is a model of sites, hosts and a job under which controllers live and
// die in virtual time. Whatever may go one way or another is decided by a list
// of choices, so that a history can be played again, and made shorter.
//
// The job counts minutes. Its checkpoint is the count, in two files that have
// to agree. What the controller does is its real code, with its real records
// and real files.

// home is where the records of many histories lie: one after the other, as in
// the state directory of one user.
type home struct {
	dir   string
	store *state.Store
	lies  bool // sites and heads may lie
	end   string
	pairs pairs
}

// model is the world of one history.
type model struct {
	*home
	mu      sync.Mutex
	choose  *choices
	dir     string // of sites and results
	sites   []*modelSite
	heads   []*modelHead // all that ever were
	order   string
	every   time.Duration
	shared  bool // all sites are on one machine
	nodes   int
	setup   bool          // the job has one
	far     string        // the store of its checkpoints; "": at home
	spoilt  bool          // its setup has failed
	farTo   time.Time     // until when nobody gets through to it
	aways   int           // how often that was so
	size    time.Duration // of the volume: what it takes to collect it
	target  int           // what the job counts to
	reached int           // the highest count of any checkpoint that was good at home
	homed   int           // checkpoints that came home and have not been damaged since
	stop    chan struct{}
	stopped bool      // its user has asked for a stop
	calm    bool      // from now on nothing goes wrong any more
	fullTo  time.Time // until when no record can be written
	fulls   int       // how often that was so
	faults  []string
	log     []saying
	run     string
	life    *life // the controller's
	// boots is how often the controller's machine was started, and booted when.
	boots  int
	booted time.Time
	// bystander is another run, where there are lies, and bystanding how it was at first.
	bystander  string
	bystanding []byte
}

// saying is a line of what happened, put into words only where a history went wrong.
type saying struct {
	at     time.Time
	format string
	args   []any
}

func (s saying) String() string {
	return s.at.Format("02 15:04:05 ") + fmt.Sprintf(s.format, s.args...)
}

// life is one controller's, which dies at a step.
type life struct {
	dead   bool
	deadAt int // steps from now; 0: it does not
	cancel context.CancelFunc
}

// attempts are the run's, as recorded. The model must not be locked here, nor
// wherever records are read or written: whoever waits for those does so in virtual
// time, which stands still as long as anybody waits for a lock.
func (m *model) attempts() []state.Attempt {
	list, err := m.store.Attempts(context.Background(), m.run)
	if err != nil {
		panic(err)
	}
	return list
}

// wrong notes a broken promise.
func (m *model) wrong(format string, a ...any) {
	m.faults = append(m.faults, fmt.Sprintf(format, a...))
}

func (m *model) say(format string, a ...any) {
	m.log = append(m.log, saying{time.Now(), format, a})
}

// of decides between n ways, unless all shall be well.
func (m *model) of(what string, n int) int {
	if m.calm {
		return 0
	}
	return m.choose.of(what, n)
}

// once tells whether something goes wrong that does so in one of n cases.
func (m *model) once(what string, n int) bool { return m.of(what, n) == 1 }

// step is where a controller may die: before and after whatever it asks of the
// world, and between what it writes. From then on it does nothing any more. It
// is called unlocked.
func (m *model) step() {
	m.mu.Lock()
	l := m.life
	if !l.dead && l.deadAt > 0 {
		if l.deadAt--; l.deadAt == 0 {
			m.kill("the controller dies")
		}
	}
	modelFaults{m}.disk()
	dead := l.dead
	m.mu.Unlock()
	if dead {
		goruntime.Goexit()
	}
}

// kill ends the controller. The model is locked.
func (m *model) kill(why string) {
	m.say("%s", why)
	m.life.dead = true
	m.life.cancel()
}

// passing is a fault that may go by.
func (m *model) passing(what string) error {
	m.say("%s fails", what)
	return &core.Error{Kind: core.Transient, Op: what, Err: errors.New("the line broke")}
}

// newModel draws sites and a job.
func newModel(h *home, c *choices, dir string) *model {
	m := &model{home: h, choose: c, dir: dir, target: 60 + 60*c.of("hours", 4), booted: time.Now(), every: 25 * time.Minute * time.Duration(c.of("every", 2)), stop: make(chan struct{})}
	if c.of("size", 3) == 1 {
		m.size = 2 * time.Minute
	}
	m.shared = c.of("shared", 4) == 1
	m.nodes = 1
	if c.of("nodes", 4) == 1 {
		m.nodes = 3
	}
	m.setup = c.of("setup", 3) == 1
	if c.of("store", 3) == 1 {
		if m.far = filepath.Join(dir, "store"); os.MkdirAll(m.far, 0o700) != nil {
			panic("no place for a store")
		}
	}
	if c.of("order", 3) == 1 {
		m.order = spec.OrderCheapest
	}
	for i := range 1 + c.of("sites", 3) {
		name := string(rune('a' + i))
		s := &modelSite{m: m, name: name, leases: map[core.Owner]*modelLease{}, price: float64(c.of("price."+name, 3)), cuts: 3}
		if n := c.of("slot."+name, 4); n > 0 {
			s.slot = time.Duration(n*40) * time.Minute
		}
		s.queue, s.keeps, s.strict = c.of("queue."+name, 3) == 1, c.of("keeps."+name, 3) == 1, c.of("strict."+name, 2) == 1
		if s.queue && c.of("alone."+name, 2) == 1 {
			s.keeps, s.alone = true, true
		}
		s.passes = c.of("passes."+name, 2) == 1
		s.sees = m.far != "" && c.of("sees."+name, 3) == 1
		if c.of("impatient."+name, 3) == 1 {
			s.wait = 15 * time.Minute
		}
		if c.of("shut."+name, 6) == 1 {
			s.shut = time.Now().Add(time.Duration(c.of("shut.at", 5)) * 50 * time.Minute)
		}
		m.sites = append(m.sites, s)
	}
	return m
}

func (m *model) submission() submission.Submission {
	s := submission.Submission{Job: spec.Job{
		Name: "count", Nodes: m.nodes, Store: m.far, Volume: spec.Volume{Path: "/data"}, Run: &spec.Command{Shell: "count"}, Wait: 48 * time.Hour, Order: m.order,
		Checkpoint: &spec.Checkpoint{Grace: grace, Every: m.every}, Outputs: []spec.Output{{From: "/data/count", To: filepath.Join(m.dir, "results")}},
	}}
	if m.setup {
		s.Job.Setup = &spec.Command{Shell: "make"}
	}
	for _, site := range m.sites {
		s.Sites = append(s.Sites, spec.Site{Name: site.name, Provider: "model", Slot: site.slot, Wait: site.wait, Price: spec.Price{Amount: site.price}})
	}
	return s
}

// controller is one, alive until it dies.
func (m *model) controller(ctx context.Context) (*Runner, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	l := &life{cancel: cancel}
	if m.once("boot", 10) {
		m.boots, m.booted = m.boots+1, time.Now()
	}
	if m.once("die", 3) {
		l.deadAt = 1 + m.of("die.at", 80)
	}
	m.mu.Lock()
	m.life = l
	m.mu.Unlock()
	return &Runner{
		reached: m.pairs.add, Store: m.store, Images: controltest.Images{}, Log: slog.New(slog.DiscardHandler), Report: func(protocol.Event) {},
		Provider: func(s spec.Site) (driver.Provider, error) {
			for _, site := range m.sites {
				if site.name == s.Name {
					return site, nil
				}
			}
			return nil, fs.ErrNotExist
		},
		OpenStore:  m.place,
		LocalStore: controltest.LocalStore,
		Secure:     controltest.Proven,
		Connect:    func(c net.Conn) (headlink.Head, error) { return modelLine{c.(*modelConn).head}, nil },
		Routes:     &transfer.Routes{Connect: m.rendezvous},
		between:    m.step, clock: m.clock, requestLook: time.Hour, reuseFrom: 1, maxMoves: m.mostMoves(),
	}, ctx
}

// mostMoves bounds how often a head may have its run continued that does so for ever.
func (m *model) mostMoves() int {
	if m.lies {
		return 40
	}
	return 0
}

// clock is the one that nobody sets.
func (m *model) clock() state.Moment {
	return state.Moment{Boot: strconv.Itoa(m.boots), Up: time.Since(m.booted)}
}

// kept are the run's checkpoints in its store, oldest first, but those whose manifest has
// rotted. What the controller takes for one is not asked.
func (m *model) kept() (list []driver.Generation) {
	entries, _ := os.ReadDir(m.keptIn())
	for _, e := range entries {
		g, is := driver.ParseGeneration(e.Name())
		if !is {
			continue
		}
		if info, err := os.Stat(m.manifest(g)); err == nil && info.Size() > rotten {
			list = append(list, g)
		}
	}
	slices.SortFunc(list, driver.Generation.Compare)
	return list
}

// rotten is what is left of a manifest that has rotted.
const rotten = 20

func (m *model) keptIn() string {
	if m.far != "" {
		return filepath.Join(m.far, driver.RunName(m.store.User(), m.run))
	}
	return filepath.Join(m.store.RunDir(m.run), "checkpoints")
}

func (m *model) volume(g driver.Generation) string {
	return dirstore.Checkpoints(m.keptIn()).Volume(g)
}

func (m *model) manifest(g driver.Generation) string {
	return filepath.Join(filepath.Dir(m.volume(g)), "manifest.json")
}

// good is the count of the newest undamaged checkpoint at home: any damage
// shows in its count.
func (m *model) good() int {
	best := 0
	for _, k := range m.kept() {
		best = max(best, readCount(m.volume(k)))
	}
	return best
}

// After stormyLives controllers nothing goes wrong any more: faults that follow each
// other closely enough keep any run from its end, as a disk that is always full does.
// Then calmLives must be enough. longest is how long each may take.
const (
	stormyLives = 120
	calmLives   = 10
	longest     = 30 * 24 * time.Hour
)

// play plays a history to its end.
func (m *model) play(ctx context.Context) {
	var (
		resumed int
		run     state.Run
		err     error
	)
	for lives := 0; ; lives++ {
		switch lives {
		case stormyLives:
			m.quiet()
		case stormyLives + calmLives:
			m.wrong("no end after %d controllers, the last %d of them in peace", lives, calmLives)
			return
		}
		if m.run != "" {
			m.mu.Lock()
			m.reached = max(m.reached, m.good())
			m.mu.Unlock()
			modelFaults{m}.rot()
			modelFaults{m}.jump()
		}
		c, alive := m.controller(ctx)
		if m.run == "" {
			made, lock, err := submission.Submit(ctx, c.Store, m.submission())
			if err != nil {
				m.wrong("submit: %v", err)
				return
			}
			lock.Unlock()
			m.run = made.ID
			if m.lies {
				if err := m.standBy(ctx, c); err != nil {
					m.wrong("submit another: %v", err)
					return
				}
			}
			m.userStops(ctx)
		}
		run, err = m.drive(alive, c)
		m.life.cancel()
		if len(m.faults) > 0 {
			return
		}
		if err == nil && run.State == state.Suspended && resumed < 3 && m.once("resume", 2) {
			resumed++
			m.say("its user resumes it")
			m.mu.Lock()
			modelFaults{m}.space()
			m.mu.Unlock()
			if _, err := c.Resume(ctx, run, nil); err != nil {
				m.wrong("resume: %v", err)
			}
			continue
		}
		if err == nil && run.State != "" {
			modelJudge{m}.judge(ctx, run)
			return
		}
		time.Sleep(time.Duration(20+m.of("pause", 100)) * time.Minute) // until a bee command starts another
	}
}

// drive has a controller work until it dies or is done.
func (m *model) drive(ctx context.Context, c *Runner) (run state.Run, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = errors.New("it died")
		r, derr := c.Drive(ctx, m.run, m.stop)
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.life.dead {
			run, err = r, derr
			if derr != nil {
				m.say("the controller gives up: %v", derr)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(longest):
		m.mu.Lock()
		m.wrong("no end after %v", longest)
		m.kill("enough")
		m.mu.Unlock()
		<-done
	}
	return run, err
}

// userStops has the run's user ask for a stop, some time.
func (m *model) userStops(ctx context.Context) {
	if !m.once("stop", 12) {
		return
	}
	time.AfterFunc(time.Duration(1+m.of("stop.at", 300))*time.Minute, func() {
		m.mu.Lock()
		asks := !m.calm && m.fullTo.IsZero()
		if asks {
			m.say("its user asks for a stop")
			m.stopped = true
		}
		m.mu.Unlock()
		if asks { // unlocked: it may wait for a controller that writes just now
			m.store.Requests().AskStop(context.WithoutCancel(ctx), m.run) //nolint:errcheck // the channel tells it too
			close(m.stop)
		}
	})
}

// modelJudge holds the ends of histories against what is promised.
type modelJudge struct{ m *model }

// judge holds the end of a history against what is promised.
func (j modelJudge) judge(ctx context.Context, run state.Run) {
	j.m.say("the run ends as %s: %s", run.State, run.Message)
	if j.m.lies {
		j.left(ctx)
		j.liars(ctx, run)
		return
	}
	j.end(run)
	j.left(ctx)
}

// end holds how the run has ended against what is promised.
func (j modelJudge) end(run state.Run) {
	switch run.State {
	case state.Succeeded:
		raw, err := os.ReadFile(filepath.Join(j.m.dir, "results", "count"))
		if err != nil || string(raw) != strconv.Itoa(j.m.target) {
			j.m.wrong("it succeeded, and its results hold %q (%v), not %d", raw, err, j.m.target)
		}
	case state.Failed:
		if run.Message == "" {
			j.m.wrong("it failed without a reason")
		}
		if own := strings.Contains(run.Message, hostFull) || j.m.spoilt; j.m.good() > 0 && !own {
			j.m.wrong("it failed (%s), and could continue from its checkpoint", run.Kind)
		}
	case state.Suspended:
		if j.m.good() < j.m.reached {
			j.m.wrong("it is suspended, and its checkpoint is gone")
		}
	case state.Stopped:
		if !j.m.stopped {
			j.m.wrong("nobody has stopped it")
		}
	default:
		j.m.wrong("it ended as %s", run.State)
	}
}

// left holds what is left on sites against what is promised.
func (j modelJudge) left(ctx context.Context) {
	// What could not be released at once is released by later commands, once
	// the sites can be reached again.
	j.m.quiet()
	for try := 0; try < 10 && j.m.held() > 0; try++ {
		time.Sleep(2 * gc.RetryRelease) // in virtual time, until a later command
		c, alive := j.m.controller(ctx)
		j.m.drive(alive, c) //nolint:errcheck // what is left is counted
		j.m.life.cancel()
	}
	for _, s := range j.m.sites {
		for o, l := range s.leases {
			j.m.wrong("left on %s: attempt %d (live %v)", s.name, o.Attempt, l.live)
		}
	}
	for _, h := range j.m.heads {
		if !h.ended {
			j.m.wrong("a head of attempt %d still runs on %s", h.l.owner.Attempt, h.l.s.name)
		}
	}
}

// quiet has nothing go wrong from now on.
func (m *model) quiet() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say("all is quiet now")
	m.calm = true
	modelFaults{m}.space()
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
	var text strings.Builder
	fmt.Fprintln(&text, strings.Join(m.faults, "\n"))
	for _, s := range m.log {
		fmt.Fprintf(&text, "\t%s\n", s)
	}
	return text.String() + "history: " + m.choose.String()
}
