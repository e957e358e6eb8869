package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// Heads and sites that lie: in histories of their own, where the promises that need true
// words are not kept. See TestHistoriesOfLiars.

// escape is a text that changes the terminal that shows it.
const escape = "\x1b]0;x\a\x1b[2J"

// eventLies change an event of a head.
var eventLies = []func(e *protocol.Event){
	func(e *protocol.Event) { e.Seq-- },
	func(e *protocol.Event) { e.Seq = -5 },
	func(e *protocol.Event) { e.Seq = 1 << 62 },
	func(e *protocol.Event) { e.Seq += 1000 },
	func(e *protocol.Event) { e.Phase = "dance" },
	func(e *protocol.Event) { e.Phase, e.Begin, e.End = core.PhaseRun, true, true },
	func(e *protocol.Event) { e.Phase, e.Begin, e.End = core.PhaseCheckpoint, true, false },
	func(e *protocol.Event) { e.Rank = 99 },
	func(e *protocol.Event) { e.Rank = -5 },
	func(e *protocol.Event) { e.Bytes = -1 },
	func(e *protocol.Event) { e.Done, e.Total = -3, -1 },
	func(e *protocol.Event) { e.Done, e.Total = 1<<59, 1 },
	func(e *protocol.Event) { e.Waited = -time.Hour },
	func(e *protocol.Event) { e.Waited = 90 * 365 * 24 * time.Hour },
	func(e *protocol.Event) { e.Snapshot = -1 },
	func(e *protocol.Event) { e.Snapshot = 1 << 20 },
	func(e *protocol.Event) { e.Time = time.Date(1492, 1, 1, 0, 0, 0, 0, time.UTC) },
	func(e *protocol.Event) { e.Time = time.Date(2199, 1, 1, 0, 0, 0, 0, time.UTC) },
	func(e *protocol.Event) { e.Message = escape },
	func(e *protocol.Event) { e.SetupDone = true },
	func(e *protocol.Event) { e.Result = &protocol.Result{} },
	func(e *protocol.Event) { e.Result = &protocol.Result{Exit: &core.Exit{}} },
	func(e *protocol.Event) { e.Result = &protocol.Result{Exit: &core.Exit{Code: 3}, InSetup: true} },
	func(e *protocol.Event) { e.Result = &protocol.Result{Continue: true} },
	func(e *protocol.Event) { e.Result = &protocol.Result{Continue: true, Snapshot: 7} },
	func(e *protocol.Event) {
		e.Result = &protocol.Result{Kind: core.Lost.String(), Message: escape, Remedy: escape}
	},
}

// resultLies change a head's result.
var resultLies = []func(r *protocol.Result){
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Index: 7, Path: "volume/count"}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Index: -1, Path: "volume/count"}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Path: "volume/../../../escaped"}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Path: "/etc/hostname"}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Path: "volume/twin"}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Path: "volume/" + escape}} },
	func(r *protocol.Result) { r.Outputs = []protocol.OutputMatch{{Path: "volume/count", Bytes: -1}} },
	func(r *protocol.Result) { r.Outputs = slices.Repeat([]protocol.OutputMatch{{Path: "volume/count"}}, 3) },
	func(r *protocol.Result) { r.Outputs = nil },
	func(r *protocol.Result) { r.Exit = &core.Exit{Code: 300} },
	func(r *protocol.Result) { r.Exit = &core.Exit{Code: 7, MaxRSS: -1} },
	func(r *protocol.Result) { r.Exit, r.InSetup = nil, true },
	func(r *protocol.Result) { r.Kind = "dubious" },
	func(r *protocol.Result) { r.Message, r.Remedy = escape, escape },
	func(r *protocol.Result) { r.Host = escape },
	func(r *protocol.Result) { r.Nodes = []core.NodeReport{{Rank: 5, Host: "x"}} },
	func(r *protocol.Result) { r.Nodes = []core.NodeReport{{Host: "a"}, {Host: "b"}} },
	func(r *protocol.Result) { r.Phases = map[core.Phase]time.Duration{"dance": 1} },
	func(r *protocol.Result) {
		r.Phases = map[core.Phase]time.Duration{core.PhaseRun: 90 * 365 * 24 * time.Hour}
	},
	func(r *protocol.Result) { r.Phases = map[core.Phase]time.Duration{core.PhaseRun: -1} },
	func(r *protocol.Result) { r.Exit, r.Continue, r.Snapshot = nil, true, 7 },
	func(r *protocol.Result) { r.Exit, r.Continue, r.Bytes = nil, true, -1 },
	func(r *protocol.Result) { r.TakenBack = true },
}

// fileLies are what a site has in place of a small file.
var fileLies = []string{"", "{", "null", "[]", "\x00\xff", `{"exit":{"code":-1}}`, `{"exit":{"code":9}}`, `{"continue":true}`, `{"seq":1,"rank":-9}` + "\n", `{"seq":4,"result":{"outputs":[{"index":5,"path":"x"}]}}` + "\n", `{"seq":1}` + "\n" + `{"seq":1}` + "\n"}

// hostLies change the hosts of a lease.
var hostLies = []func(hosts []core.Host) []core.Host{
	func([]core.Host) []core.Host { return nil },
	func(hosts []core.Host) []core.Host { return hosts[1:] },
	func(hosts []core.Host) []core.Host { return append(hosts, hosts[0]) },
	func(hosts []core.Host) []core.Host { hosts[0].Name = "another"; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Name = ""; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Name = escape; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Name = "-oProxyCommand=x"; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Index = 5; return hosts },
	func(hosts []core.Host) []core.Host { hosts[len(hosts)-1].Index = -1; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Slots = -1; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Addrs = []string{"evil"}; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Dir = "relative"; return hosts },
	func(hosts []core.Host) []core.Host { hosts[0].Dir += "\n"; return hosts },
	func(hosts []core.Host) []core.Host { slices.Reverse(hosts); return hosts },
}

// lie decides whether something that is asked for is answered with a lie, one in n times,
// and with which one of many. The model is locked.
func (m *model) lie(what string, n, of int) (int, bool) {
	if !m.lies || !m.once("lies."+what, n) {
		return 0, false
	}
	way := m.of("lies."+what+".how", of)
	m.say("a lie about %s (%d)", what, way)
	return way, true
}

// lieUnlocked is lie for who has not locked the model.
func (m *model) lieUnlocked(what string, n, of int) (int, bool) {
	if !m.lies {
		return 0, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lie(what, n, of)
}

// amiss is wrong, of a promise that needs sites and heads that tell the truth.
func (m *model) amiss(format string, a ...any) {
	if !m.lies {
		m.wrong(format, a...)
	}
}

func (h modelLine) lied(e protocol.Event) protocol.Event {
	m := h.l.s.m
	if way, is := m.lieUnlocked("event", 8, len(eventLies)); is {
		eventLies[way](&e)
	}
	if e.Result == nil {
		return e
	}
	if way, is := m.lieUnlocked("result", 3, len(resultLies)); is {
		r := *e.Result
		resultLies[way](&r)
		e.Result = &r
	}
	return e
}

// addresses are those that a head names.
func (h modelLine) addresses() ([]string, error) {
	way, is := h.l.s.m.lieUnlocked("addresses", 6, 5)
	if !is {
		return []string{"127.0.0.1:1"}, nil
	}
	return [][]string{nil, {"evil"}, {"127.0.0.1:0"}, {escape + ":1"}, slices.Repeat([]string{"127.0.0.1:1"}, 1000)}[way], nil
}

// leaseClaims is what a site says of a lease each time that it is asked for it.
type leaseClaims struct {
	hosts    func([]core.Host) []core.Host
	deadline *time.Time
}

var deadlineLies = []time.Time{{}, time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC), time.Date(2000, 1, 3, 0, 0, 0, 0, time.UTC), time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1492, 1, 1, 0, 0, 0, 0, time.UTC)}

// lied has the site report again what its hosts are and when it takes them back. The model is
// locked.
func (l *modelLease) lied() *modelLease {
	l.said = leaseClaims{}
	if way, is := l.s.m.lie("hosts", 10, len(hostLies)); is {
		l.said.hosts = hostLies[way]
	}
	if way, is := l.s.m.lie("deadline", 15, len(deadlineLies)); is {
		l.said.deadline = &deadlineLies[way]
	}
	return l
}

// liedStatus is what a site says of a lease that is well. The model is locked.
func (l *modelLease) liedStatus(s driver.Status) driver.Status {
	if way, is := l.s.m.lie("status", 40, 5); is {
		return []driver.Status{{}, {Reason: escape}, {Live: true, Reason: escape}, {Live: true, Ends: time.Now().Add(-time.Hour)}, {Live: true, Ends: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}}[way]
	}
	return s
}

// liedFacts is what a site says of itself. The model is locked.
func (s *modelSite) liedFacts(f driver.Facts) driver.Facts {
	if way, is := s.m.lie("probe", 12, 4); is {
		return []driver.Facts{{Reason: escape, Passing: true}, {Usable: true, Slots: -1, Hosts: -1}, {Usable: true, Notice: -time.Hour, Preempted: -1}, {Usable: true, Reason: escape, Detail: map[string]string{escape: escape}}}[way]
	}
	return f
}

// liedList is what a site lists beside what there is: the lease of another run, and some that
// there are not. The model is locked.
func (s *modelSite) liedList(found []core.Handle, q core.Owner) []core.Handle {
	if _, is := s.m.lie("list", 6, 2); !is {
		return found
	}
	for _, o := range []core.Owner{{User: q.User, Run: s.m.bystander, Attempt: 1}, {User: q.User, Run: s.m.run, Attempt: -1}, {User: q.User, Run: s.m.run, Attempt: 1 << 30}, {Run: "../../x", Attempt: 1}} {
		found = append(found, core.Handle{Driver: "model", Version: 1, Owner: o, Data: json.RawMessage(`{}`)})
	}
	return append(found, found...)
}

// outside tells of a path that the site has no business with.
func (l *modelLease) outside(remote string) error {
	if rel, err := filepath.Rel(l.dir, remote); l.s.m.lies && (err != nil || !filepath.IsLocal(rel)) {
		return &core.Error{Kind: core.NotFound, Err: errors.New("no such file")}
	}
	return nil
}

// liedFile changes a file that has come from a site.
func (l *modelLease) liedFile(t driver.Transfer) {
	m := l.s.m
	if !m.lies {
		return
	}
	places := []string{m.store.RunDir(m.run), filepath.Join(m.dir, "results"), filepath.Join(m.dir, "store")}
	if !slices.ContainsFunc(places, func(place string) bool {
		rel, err := filepath.Rel(place, t.Local)
		return err == nil && filepath.IsLocal(rel)
	}) {
		m.mu.Lock()
		m.wrong("%s is brought to %s", t.Remote, t.Local)
		m.mu.Unlock()
	}
	if t.Remote != protocol.ResultPath(l.dir) && t.Remote != protocol.EventsPath(l.dir) {
		return
	}
	way, is := m.lieUnlocked("file", 5, len(fileLies)+3)
	if !is {
		return
	}
	os.Remove(t.Local)
	var err error
	switch way -= len(fileLies); way {
	case 0:
		err = os.Mkdir(t.Local, 0o700)
	case 1:
		err = os.Symlink(m.store.RunDir(m.bystander), t.Local)
	case 2: // it has gone meanwhile
	default:
		err = writeSmall(t.Local, []byte(fileLies[way+len(fileLies)]))
	}
	if err != nil {
		panic(err)
	}
}

// standBy submits another run, that no liar may touch.
func (m *model) standBy(ctx context.Context, c *Runner) error {
	sub := m.submission()
	sub.Job.Outputs = nil // those of the run come there
	run, lock, err := submission.Submit(ctx, c.Store, sub)
	if err != nil {
		return err
	}
	lock.Unlock()
	run.State = state.Suspended
	err = errors.Join(c.Store.PutRun(ctx, run), writeSmall(filepath.Join(c.Store.RunDir(run.ID), "own"), []byte(run.ID)))
	m.bystander = run.ID
	m.bystanding = m.asRecorded(ctx)
	return err
}

// asRecorded is all that is at home of the run that stands by.
func (m *model) asRecorded(ctx context.Context) []byte {
	run, err := m.store.Run(ctx, m.bystander)
	attempts, aerr := m.store.Attempts(ctx, m.bystander)
	events, nerr := m.store.History().Events(ctx, m.bystander)
	entries, derr := os.ReadDir(m.store.RunDir(m.bystander))
	own, oerr := readSmall(filepath.Join(m.store.RunDir(m.bystander), "own"))
	if err := errors.Join(err, aerr, nerr, derr, oerr); err != nil {
		return []byte(err.Error())
	}
	run.Created = time.Time{} // the model moves it
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	raw, err := json.Marshal([]any{run, attempts, events, names, own})
	if err != nil {
		panic(err)
	}
	return raw
}

// liars holds the end of a history of liars against what is promised whatever they say.
func (j modelJudge) liars(ctx context.Context, run state.Run) {
	switch run.State {
	case state.Succeeded:
	case state.Failed, state.Suspended, state.Stopped:
		if run.Message == "" || run.Kind == "" {
			j.m.wrong("it ended as %s for no reason: kind %q, message %q", run.State, run.Kind, run.Message)
		}
		if run.State == state.Stopped && !j.m.stopped {
			j.m.wrong("nobody has stopped it")
		}
	default:
		stack, err := os.ReadFile(StackPath(j.m.store.RunDir(j.m.run)))
		j.m.wrong("it ended as %s: %s (%v)", run.State, stack, err)
	}
	events, err := j.m.store.History().Events(ctx, j.m.run)
	raw, jerr := json.Marshal([]any{run.Message, run.Remedy, j.m.attempts(), events})
	if err := errors.Join(err, jerr); err != nil {
		j.m.wrong("its records cannot be read: %v", err)
	}
	for _, control := range []string{`\u001b`, `\u0007`} {
		if bytes.Contains(raw, []byte(control)) {
			j.m.wrong("its records have a control character: %s", raw)
		}
	}
	if now := j.m.asRecorded(ctx); !bytes.Equal(now, j.m.bystanding) {
		j.m.wrong("another run was %s, and is %s", j.m.bystanding, now)
	}
	entries, err := os.ReadDir(filepath.Join(j.m.dir, "results"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.m.wrong("the results: %v", err)
	}
	for _, e := range entries {
		// What a lost attempt has left lies beside what a liar has given for whole.
		if strings.ReplaceAll(e.Name(), "."+j.m.run, "") != "count" {
			j.m.wrong("among the results is %q", e.Name())
		}
	}
	top, err := os.ReadDir(j.m.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		j.m.wrong("the world: %v", err)
	}
	for _, e := range top {
		if name := e.Name(); name != "results" && name != "store" && len(name) != 1 {
			j.m.wrong("beside the results is %q", name)
		}
	}
	for _, h := range j.m.heads {
		if h.l.s.leases[h.l.owner] != nil {
			continue // it is counted there
		}
		if _, err := os.Stat(h.l.dir); err == nil {
			j.m.wrong("files of attempt %s are left on %s", strconv.Itoa(h.l.owner.Attempt), h.l.s.name)
		}
	}
}
