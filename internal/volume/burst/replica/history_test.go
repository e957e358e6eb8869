package replica

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// host has a disk, and at times a process that leads or follows.
type host struct {
	w      *world
	number int
	dir    string

	mu      sync.Mutex
	id      string // of the copy on its disk; empty: there is none
	cancel  context.CancelFunc
	done    chan struct{}
	leader  *Leader // nil: it does not lead
	log     *buffer.Log
	entries []string // what the leader's journal has
}

// world is hosts with copies of one journal, a network between them, and what was answered.
type world struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	n     *network
	store *record
	hosts []*host

	mu     sync.Mutex
	names  int
	acked  []string
	broken string
	trace  []string
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, time.Now().Format("05.000 ")+fmt.Sprintf(format, args...))
}

func (w *world) fail(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
		w.trace = append(w.trace, "BROKEN: "+w.broken)
	}
}

func (w *world) fresh() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.names++
	return fmt.Sprint("copy", w.names)
}

func noFlush(*os.File) error { return nil }

func (h *host) journal() string { return filepath.Join(h.dir, "journal") }

// start runs a process of a host.
func (h *host) start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.mu.Lock()
	h.cancel, h.done = cancel, make(chan struct{})
	done := h.done
	h.mu.Unlock()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := h.run(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrExcluded) && !errors.Is(err, ErrReplaced) {
				h.w.fail("host %d: %v", h.number, err)
				return
			}
		}
	}()
}

// kill ends the process of a host.
func (h *host) kill() {
	h.mu.Lock()
	cancel, done := h.cancel, h.done
	h.cancel = nil
	h.mu.Unlock()
	if cancel != nil {
		cancel()
		<-done
	}
}

func (h *host) wipe() {
	if err := os.RemoveAll(h.journal()); err != nil {
		h.w.fail("%v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id = ""
}

// wipeOnce removes a copy once the one that the record names answers.
func (h *host) wipeOnce(ctx context.Context) {
	for core.Sleep(ctx, 50*time.Millisecond) == nil {
		h.w.store.mu.Lock()
		leader := h.w.store.c.Leader
		h.w.store.mu.Unlock()
		for _, other := range h.w.hosts {
			other.mu.Lock()
			is := other.leader != nil && other.id == leader
			other.mu.Unlock()
			if is {
				h.wipe()
				return
			}
		}
	}
}

func (h *host) name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id
}

func (h *host) run(ctx context.Context) error {
	store := seenBy{h.w.store, h.number}
	if h.name() == "" {
		if err := h.follow(ctx, store); err != nil {
			if errors.Is(err, ErrExcluded) {
				h.wipeOnce(ctx)
			}
			return err
		}
	} else if err := Resume(ctx, store, h.name(), Usual.Restart); err != nil {
		if errors.Is(err, ErrExcluded) {
			h.wipeOnce(ctx)
		}
		return err
	}
	return h.lead(ctx, store)
}

func (h *host) follow(ctx context.Context, store Store) error {
	h.mu.Lock()
	h.id = h.w.fresh()
	f := &Follower{ID: h.id, Store: store, Timing: Usual, NoteName: "note", Logger: slog.New(slog.DiscardHandler), Dial: h.dial}
	h.mu.Unlock()
	if err := fsutil.OwnDir(h.journal()); err != nil {
		return err
	}
	m, err := buffer.NewMirror(h.journal(), buffer.MirrorOptions{Most: 1 << 30, Flush: noFlush})
	if err != nil {
		return err
	}
	f.Mirror = m
	return errors.Join(f.Run(ctx), m.Close())
}

// dial connects with whoever leads, and sees this host.
func (h *host) dial(ctx context.Context, hello Hello) (io.ReadWriteCloser, error) {
	for _, other := range h.w.hosts {
		other.mu.Lock()
		l := other.leader
		other.mu.Unlock()
		h.w.n.mu.Lock()
		cut := h.w.n.cut[pair(h.number, other.number)]
		h.w.n.mu.Unlock()
		if l == nil || other == h || cut {
			continue
		}
		mine, its := h.w.n.connect(h.number, other.number)
		ready, ended := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(ended)
			core.BestEffort(l.Serve(ctxOf(other), hello, its, func() error { close(ready); return nil })) // the other end notices
			its.Close()
		}()
		select {
		case <-ready:
			return mine, nil
		case <-ended:
		case <-ctx.Done():
			mine.Close()
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("nobody leads")
}

// ctxOf ends with the process of a host: a killed one sends nothing.
func ctxOf(h *host) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := h.done
	kill := h.cancel
	if kill == nil {
		cancel()
		return ctx
	}
	h.cancel = func() { kill(); cancel() }
	go func() { <-done; cancel() }()
	return ctx
}

func (h *host) lead(ctx context.Context, store Store) error {
	var entries []string
	log, err := buffer.Open(h.journal(), buffer.Options{
		SegmentSize: 600, Flush: noFlush,
		Index:  func(raw []byte) error { return json.Unmarshal(raw, &entries) },
		Replay: func(r buffer.Record) error { entries = append(entries, string(r.Payload)); return nil },
	})
	if err != nil {
		return err
	}
	l := NewLeader(LeaderOptions{ID: h.name(), Log: log, Store: store, Most: len(h.w.hosts) - 1, Timing: Usual, Logger: slog.New(slog.DiscardHandler)})
	h.mu.Lock()
	h.leader, h.log, h.entries = l, log, entries
	h.mu.Unlock()
	h.w.note("host %d leads as %s with %d entries", h.number, h.name(), len(entries))
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(running)
	}()
	for running.Err() == nil && l.Over() == nil {
		core.BestEffort(core.Sleep(running, 50*time.Millisecond))
	}
	stop()
	<-ended
	h.mu.Lock()
	h.leader = nil
	err = log.Close()
	h.mu.Unlock()
	if l.Over() != nil && ctx.Err() == nil {
		h.w.note("host %d leads no more", h.number)
		return errors.Join(err, ErrReplaced) // next, Resume finds that the copy is excluded
	}
	return err
}

// replaces looks whether the leader answers nobody without the copies that it is about to put into the record.
func (w *world) replaces(number int, c Configuration) {
	h := w.hosts[number]
	h.mu.Lock()
	l := h.leader
	h.mu.Unlock()
	if l == nil || l.id != c.Leader {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range c.Copies {
		if f := l.followers[id]; f == nil || !f.required {
			w.fail("%s names the copy %s, and answers without it", c.Leader, id)
		}
	}
}

// answer carries a request out at a host that believes to lead, and compares what it answers with what was
// answered before.
func (w *world) answer(h *host, write string, durable bool) {
	w.mu.Lock()
	before := slices.Clone(w.acked)
	w.mu.Unlock()
	h.mu.Lock()
	l := h.leader
	if l == nil {
		h.mu.Unlock()
		return
	}
	if write != "" {
		r := buffer.Record{Kind: buffer.Change, Payload: []byte(write)}
		if err := h.log.Append(&r); err != nil {
			h.mu.Unlock()
			w.fail("append: %v", err)
			return
		}
		h.entries = append(h.entries, write)
	}
	seen, id := slices.Clone(h.entries), h.id
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
	defer cancel()
	if l.Confirm(ctx, durable) != nil {
		return
	}
	for _, a := range before {
		if !slices.Contains(seen, a) {
			w.fail("%s has answered without %s, which was answered before", id, a)
		}
	}
	if write == "" {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = append(w.acked, write)
}

// index replaces the journal's beginning by an index.
func (h *host) index() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leader == nil {
		return
	}
	raw, err := json.Marshal(h.entries)
	if err == nil {
		err = h.log.WriteIndex(h.log.Last(), raw, func(uint64) bool { return false })
	}
	if err != nil {
		h.w.fail("index: %v", err)
	}
}

// survives reports whether the volume has all data without the disk of a host.
func (w *world) survives(without *host) bool {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.store.pending[without.name()] > 0 { // it may be about to lead, of which it cannot know
		return false
	}
	for _, h := range w.hosts {
		if id := h.name(); h != without && id != "" && (id == w.store.c.Leader || slices.Contains(w.store.c.Copies, id)) {
			return true
		}
	}
	return false
}

func (w *world) step(i int) {
	h := w.hosts[w.r.IntN(len(w.hosts))]
	switch w.r.IntN(14) {
	case 0:
		h.mu.Lock()
		runs := h.cancel != nil
		h.mu.Unlock()
		disk := w.r.IntN(2) == 0
		if runs {
			h.kill()
			disk = disk && w.survives(h) // it may just have become the leader
			w.note("kill host %d, disk lost: %v", h.number, disk)
		}
		if runs && disk {
			h.wipe()
		}
	case 1, 2:
		h.mu.Lock()
		runs := h.cancel != nil
		h.mu.Unlock()
		if !runs {
			w.note("start host %d", h.number)
			h.start()
		}
	case 3:
		other := w.r.IntN(len(w.hosts)+1) - 1
		if other != h.number {
			w.note("cut %d from %d", h.number, other)
			w.n.setCut(h.number, other, true)
		}
	case 4:
		for _, other := range append([]int{remote}, 0, 1, 2) {
			w.n.setCut(h.number, other, false)
		}
		w.note("heal %d", h.number)
	case 5:
		h.index()
	case 6:
		time.Sleep(time.Duration(w.r.IntN(15000)) * time.Millisecond)
	default:
		write := ""
		if w.r.IntN(3) > 0 {
			write = fmt.Sprint("entry ", i)
		}
		w.answer(h, write, w.r.IntN(3) == 0)
		time.Sleep(time.Duration(w.r.IntN(300)) * time.Millisecond)
	}
}

// finish heals everything, and looks whether all that was answered is there.
func (w *world) finish() {
	w.store.mu.Lock()
	w.store.calm = true
	w.store.mu.Unlock()
	for a := range w.hosts {
		for b := remote; b < len(w.hosts); b++ {
			w.n.setCut(a, b, false)
		}
	}
	for _, h := range w.hosts {
		h.mu.Lock()
		runs := h.cancel != nil
		h.mu.Unlock()
		if !runs {
			h.start()
		}
	}
	complete := false
	for range 120 {
		time.Sleep(time.Second)
		for _, h := range w.hosts {
			h.mu.Lock()
			l := h.leader
			h.mu.Unlock()
			complete = complete || l != nil && len(l.Copies()) == len(w.hosts)
		}
		if complete {
			break
		}
	}
	if !complete {
		w.fail("the copies are not complete in the end: %+v", w.store.c)
		for _, h := range w.hosts {
			h.mu.Lock()
			w.note("host %d: id %s runs %v leads %v", h.number, h.id, h.cancel != nil, h.leader != nil)
			if l := h.leader; l != nil {
				l.mu.Lock()
				for id, f := range l.followers {
					w.note("  %s: %+v heard %v ago", id, *f, time.Since(f.heard))
				}
				w.note("  round %d excluded %v config %+v over %v", l.round, l.excluded, l.config, l.over)
				l.mu.Unlock()
			}
			h.mu.Unlock()
		}
	}
	before := len(w.acked)
	for _, h := range w.hosts {
		w.answer(h, "last", true)
	}
	if len(w.acked) != before+1 {
		w.fail("%d hosts answer in the end", len(w.acked)-before)
	}
	for _, h := range w.hosts {
		h.mu.Lock()
		l, entries := h.leader, h.entries
		h.mu.Unlock()
		if l == nil {
			continue
		}
		at := -1
		for _, a := range w.acked {
			next := slices.Index(entries, a)
			if next < 0 {
				w.fail("%q was answered, and is lost", a)
				break
			}
			if next < at {
				w.fail("%q is before what was answered before", a)
			}
			at = next
		}
	}
	if w.store.twice {
		w.fail("a term had two configurations")
	}
	for _, h := range w.hosts {
		h.kill()
	}
	w.store.late.Wait()
	w.identical()
}

// identical compares the bytes of complete copies: what the leader has, each one has.
func (w *world) identical() {
	files := func(h *host) map[string]string {
		all := map[string]string{}
		names, err := os.ReadDir(h.journal())
		if err != nil {
			w.fail("%v", err)
		}
		for _, n := range names {
			raw, err := os.ReadFile(filepath.Join(h.journal(), n.Name()))
			if err != nil {
				w.fail("%v", err)
			}
			if n.Name() != "lock" && len(raw) > 0 {
				all[n.Name()] = string(raw)
			}
		}
		return all
	}
	var of map[string]string
	for _, h := range w.hosts {
		if h.name() == w.store.c.Leader {
			of = files(h)
		}
	}
	for _, h := range w.hosts {
		if !slices.Contains(w.store.c.Copies, h.name()) { // it was killed, and not yet begun again
			continue
		}
		for name, content := range files(h) {
			if whole, is := of[name]; is && whole != content {
				w.fail("host %d has %d bytes of %s, and the leader %d", h.number, len(content), name, len(whole))
			}
		}
	}
}

// TestHistories plays random histories of three hosts with copies of one journal: processes are killed with and
// without their disks, hosts do not see each other or the remote, and the remote loses requests and answers.
// Nothing that was answered is lost as long as one complete copy is left, and nobody answers beside the leader.
func TestHistories(t *testing.T) {
	n, first := uint64(20), uint64(time.Now().UnixNano())
	if given := os.Getenv("BEE_TEST_SEED"); given != "" {
		var err error
		if first, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	if testkit.Everything() {
		n *= 100
	}
	for i := range n {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) { history(t, first+i, dir, 120) })
		if t.Failed() {
			return
		}
	}
}

func history(t *testing.T, seed uint64, dir string, steps int) {
	r := rand.New(rand.NewPCG(seed, 3)) // not secret
	w := &world{t: t, seed: seed, r: r}
	w.n = newNetwork(rand.New(rand.NewPCG(seed, 4)))                                                                                                             // not secret
	w.store = &record{n: w.n, r: rand.New(rand.NewPCG(seed, 5)), c: Configuration{Term: 1, Leader: "first"}, terms: map[int]string{}, pending: map[string]int{}} // not secret
	w.store.check = w.replaces
	for i := range 3 {
		w.hosts = append(w.hosts, &host{w: w, number: i, dir: filepath.Join(dir, fmt.Sprint(i))})
	}
	w.hosts[0].id = "first"
	if err := fsutil.OwnDir(w.hosts[0].journal()); err != nil {
		t.Fatal(err)
	}
	for _, h := range w.hosts {
		h.start()
	}
	for i := range steps {
		w.step(i)
	}
	w.finish()
	if w.broken != "" {
		for _, line := range w.trace {
			t.Log(line)
		}
		t.Errorf("seed %d: %s", seed, w.broken)
	}
}
