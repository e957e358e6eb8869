package runner

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/state"
)

// die may have a site fall silent for good that has ended an attempt whose
// checkpoint is at home: what else is there is lost. Of one that has lied, a
// controller may not know that; its user notices, some time.
func (l *modelLease) die() {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	home := func(k driver.Generation) bool {
		return k.Attempt == l.owner.Attempt && k.Snapshot == 0 && readCount(m.volume(k)) == l.saved
	}
	if !m.calm && !l.s.dead && l.saved > 0 && l.head.ended && slices.ContainsFunc(m.kept(), home) && m.once("dies."+l.s.name, 8) {
		m.say("%s does not answer any more", l.s.name)
		l.s.dead = true
		if m.lies {
			time.AfterFunc(noticed, l.s.writeOff)
		}
	}
}

// vanish has a site fall silent for good while it computes. Its user notices, some
// time.
func (l *modelLease) vanish() {
	m := l.s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calm || l.s.dead || l.head.ended {
		return
	}
	m.say("%s does not answer any more, in mid-run", l.s.name)
	l.s.dead = true
	time.AfterFunc(time.Duration(1+m.of("noticed", 6))*time.Hour, l.s.writeOff)
}

// noticed is when the user of a liar declares it lost that does not answer.
const noticed = 7 * time.Hour

type modelLease struct {
	drivertest.BareLease
	s          *modelSite
	owner      core.Owner
	dir        string
	live       bool
	ready      time.Time
	dropped    bool
	draft      []byte // a launch spec, before it is enabled and then
	launchSpec []byte
	// deadline is when the site takes its hosts back, by its own clock.
	deadline time.Time
	// stuck is when a release first failed, and sticks how many more will.
	stuck  time.Time
	sticks int
	head   *modelHead
	// saved is the count of the whole checkpoint that the head has left here.
	saved int
	// unsure is set when whoever launched the head was told that it had failed.
	unsure bool
	// written is set when the run's user has said not to wait for it.
	written bool
	said    leaseClaims
}

func (l *modelLease) Queue() driver.LeaseQueue {
	if !l.s.queue {
		return nil
	}
	return modelQueue{l}
}

func (l *modelLease) Autostart() driver.Autostart {
	if !l.s.alone {
		return nil
	}
	return modelAutostart{l}
}

func (l *modelLease) DirectTransfer() driver.DirectTransfer { return modelTransfer{l} }
func (l *modelLease) VolumeReuse() driver.VolumeReuse       { return modelReuse{l} }
func (l *modelLease) StoreAccess() driver.StoreAccess       { return modelStoreAccess{l} }

func (l *modelLease) Handle() core.Handle {
	return core.Handle{Driver: "model", Version: 1, Owner: l.owner, Data: json.RawMessage(`{}`)}
}

func (l *modelLease) Hosts() []core.Host {
	l.s.m.mu.Lock()
	lie := l.said.hosts
	l.s.m.mu.Unlock()
	if lie == nil {
		return l.own()
	}
	return lie(l.own())
}

// ownHosts is a lease as it is, whatever its site says.
type ownHosts struct{ *modelLease }

func (l ownHosts) Hosts() []core.Host  { return l.own() }
func (l ownHosts) Deadline() time.Time { return l.deadline }

func (l *modelLease) own() []core.Host {
	hosts := make([]core.Host, l.s.m.nodes)
	for i := range hosts {
		hosts[i] = core.Host{Index: i, Name: l.s.name + "-" + strconv.Itoa(i), Dir: l.dir, Cache: "same", Slots: 1}
		if i > 0 {
			hosts[i].Dir = filepath.Join(l.dir, "host", strconv.Itoa(i))
		}
		if l.s.alone && time.Now().Before(l.ready) {
			hosts[i].Name = ""
		}
	}
	return hosts
}

func (l *modelLease) KeepsFiles() bool { return l.s.keeps }
func (l *modelLease) Deadline() time.Time {
	l.s.m.mu.Lock()
	lie := l.said.deadline
	l.s.m.mu.Unlock()
	if lie == nil {
		return l.deadline
	}
	return *lie
}

func (l *modelLease) Status(context.Context) (driver.Status, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if err := l.s.way("status", 25); err != nil {
		return driver.Status{}, err
	}
	return l.liedStatus(driver.Status{Live: l.live, Reason: "its hosts are gone"}), nil
}

func (l *modelLease) NodeAlive(_ context.Context, host int) (bool, error) {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if l.s.cut() {
		return false, l.s.m.passing("a look at a node")
	}
	return l.live && l.head != nil && !l.head.ended && (host == 0 || l.head.nodes[host] != fallen), nil
}

// lose takes the hosts away, with everything on them.
func (l *modelLease) lose(why string) {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	if !l.live || l.s.m.calm {
		return
	}
	l.s.m.say("%s: %s", l.s.name, why)
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
	if !l.live && !l.s.keeps {
		return &core.Error{Kind: core.Lost, Op: what, Err: errors.New("its hosts are gone")}
	}
	return l.s.way(what, 25)
}

func (l *modelLease) Stage(_ context.Context, t driver.Transfer) error {
	l.s.m.step()
	err := errors.Join(l.reach("stage"), l.outside(t.Remote))
	l.s.m.mu.Lock()
	if l.head != nil || l.launchSpec != nil {
		l.s.m.wrong("attempt %d on %s gets files under its feet", l.owner.Attempt, l.s.name)
	}
	l.s.m.mu.Unlock()
	if err == nil {
		err = os.RemoveAll(t.Remote)
	}
	switch {
	case err != nil:
	case l.torn():
		tornCopy(t.Local, t.Remote)
		err = &core.Error{Kind: core.Transient, Err: errors.New("the line broke in the midst of it")}
	default:
		err = copyTree(t.Local, t.Remote)
	}
	l.s.m.step()
	return err
}

// torn tells whether a copy to the site breaks off.
func (l *modelLease) torn() bool {
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	return l.s.m.once("torn."+l.s.name, 40)
}

func (l *modelLease) Fetch(_ context.Context, t driver.Transfer) error {
	l.s.m.step()
	l.die()
	err := l.reach("fetch")
	if t.Again && err == nil { // a volume takes its time, and its hosts may go meanwhile
		time.Sleep(l.s.m.size) // in virtual time, as all of the model
		err = l.reach("fetch")
	}
	if err == nil {
		err = l.outside(t.Remote)
	}
	if err == nil {
		defer l.liedFile(t)
		from, done, serr := leasedir.Source(t)
		if serr != nil {
			return serr
		}
		defer done()
		t.Remote = from
		if _, serr := os.Stat(t.Remote); serr != nil {
			return &core.Error{Kind: core.NotFound, Err: serr}
		}
		var torn bool
		if torn, err = l.s.m.wayHome(); torn {
			os.RemoveAll(t.Local)
			tornCopy(t.Remote, t.Local)
		} else if err == nil {
			err = errors.Join(os.RemoveAll(t.Local), copyTree(t.Remote, t.Local))
			if err != nil { // its hosts went in this very moment: what is there at home is whole
				err = errors.Join(&core.Error{Kind: core.Lost, Op: "fetch", Err: err}, os.RemoveAll(t.Local))
			}
		}
	}
	l.s.m.step()
	return err
}

func (l *modelLease) Dial(context.Context, int, string) (net.Conn, error) {
	l.s.m.step()
	l.s.m.mu.Lock()
	defer l.s.m.mu.Unlock()
	switch {
	case !l.live || l.s.cut():
		return nil, &core.Error{Kind: core.Transient, Err: errors.New("no way to the host")}
	case l.head == nil || l.head.ended:
		return nil, &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	case l.s.m.once("dial."+l.s.name, 25):
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
	attempts := m.attempts()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !l.live || l.s.cut() {
		return m.passing("launch")
	}
	var config protocol.Config
	if err := json.Unmarshal(c.Config, &config); err != nil {
		panic(err)
	}
	if l.launchSpec != nil {
		m.wrong("attempt %d, which %s starts by itself, is launched", l.owner.Attempt, l.s.name)
	}
	if config.Rank == 0 {
		l.begin(config.Plan, attempts)
	} else if l.head != nil {
		l.head.join(config.Rank)
	}
	if m.once("launched."+l.s.name, 15) {
		l.unsure = true
		return m.passing("launch, which has worked,")
	}
	return nil
}

// begin starts the head, by the records of the run's attempts. The model is locked.
func (l *modelLease) begin(plan *protocol.Plan, attempts []state.Attempt) {
	m := l.s.m
	for _, other := range m.heads {
		n := other.l.owner.Attempt
		switch {
		case other.ended || other.l.written:
		case !other.l.givenUp():
			m.amiss("two heads at once, on %s and %s", other.l.s.name, l.s.name)
		case n < l.owner.Attempt && (n > len(attempts) || attempts[n-1].ReleaseTried.IsZero()):
			m.amiss("two heads at once, on %s and %s, and no record that the release of attempt %d has failed", other.l.s.name, l.s.name, n)
		}
	}
	skew := m.offset("skew."+l.s.name, 40)
	plan.Begin(time.Now().Add(skew))
	h := &modelHead{
		l: l, plan: plan, skew: skew, count: readCount(protocol.VolumeDir(l.dir)), nodes: make([]int, m.nodes),
		all: make(chan struct{}), over: make(chan struct{}), stopped: make(chan struct{}), news: make(chan struct{}),
	}
	m.reached = max(m.reached, m.good())
	if h.count < m.reached {
		m.amiss("attempt %d begins at %d, after a checkpoint at %d", l.owner.Attempt, h.count, m.reached)
	}
	if err := os.MkdirAll(protocol.VolumeDir(l.dir), 0o700); err != nil { // as a node does
		panic(err)
	}
	m.say("attempt %d begins at %d on %s", l.owner.Attempt, h.count, l.s.name)
	l.head = h
	m.heads = append(m.heads, h)
	_, h.breaks = m.lie("line", 12, 1)
	_, h.again = m.lie("end", 6, 1)
	h.live()
}

// givenUp reports whether releases have failed for so long that the run continues
// elsewhere, with a volume of its own there.
func (l *modelLease) givenUp() bool {
	return !l.stuck.IsZero() && time.Since(l.stuck) >= releaseLimit
}

// writtenOff tells whether the run has rightly gone on without what the attempt has
// left here: its user has said so, or its slot was over and nobody had seen its end.
func (l *modelLease) writtenOff(attempts []state.Attempt) bool {
	if l.head == nil || l.owner.Attempt > len(attempts) {
		return false
	}
	rec := attempts[l.owner.Attempt-1]
	return rec.Decided() && (l.written || !rec.Result.Reported() && l.s.slot > 0 && time.Since(l.head.lived) >= l.s.slot)
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
	saved := l.saved > 0
	m.mu.Unlock()
	var attempts []state.Attempt
	if saved { // only then it matters what is recorded
		attempts = m.attempts()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l.sticks > 0 && !m.calm || l.s.cut() || m.once("release."+l.s.name, 10) {
		if l.sticks--; l.stuck.IsZero() { // for a moment, or for good as far as this attempt goes
			l.stuck, l.sticks = time.Now(), []int{0, 2, 90}[m.of("release.sticks", 3)]
		}
		return m.passing("release of " + l.s.name)
	}
	if l.writtenOff(attempts) {
		l.saved = 0
	}
	if l.saved > max(m.good(), m.reached) && !m.stopped && !l.givenUp() {
		m.amiss("%s is released with the only checkpoint at %d; at home there is %d", l.s.name, l.saved, m.good())
	}
	if l.saved > m.reached && !m.stopped && !l.givenUp() {
		if m.homed++; len(m.kept()) < min(m.homed, 2) {
			m.amiss("%d checkpoints have come home, and %d are kept", m.homed, len(m.kept()))
		}
		m.reached = max(m.reached, l.saved)
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

// readCount reads a checkpoint: -1 when its two files do not agree.
func readCount(volume string) int {
	raw, err := readSmall(filepath.Join(volume, "count"))
	twin, terr := readSmall(filepath.Join(volume, "twin"))
	if err != nil && terr != nil {
		return 0
	}
	n, nerr := strconv.Atoi(string(raw))
	if nerr != nil || string(raw) != string(twin) {
		return -1
	}
	return n
}
