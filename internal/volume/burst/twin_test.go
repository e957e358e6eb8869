package burst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
)

// quick is the timing of hosts in tests.
var quick = replica.Timing{Alive: 20 * time.Millisecond, Lost: 150 * time.Millisecond, Stuck: 10 * time.Second, Restart: 400 * time.Millisecond}

// twin is the process of another host that follows the one of a world.
type twin struct {
	c      Config
	number int
	cancel context.CancelFunc
	ended  chan error

	mu     sync.Mutex
	leader *replica.Leader
}

// dial connects with the process that leads, if there is one.
func (t *twin) dial(ctx context.Context, hello replica.Hello) (io.ReadWriteCloser, error) {
	t.mu.Lock()
	l := t.leader
	t.mu.Unlock()
	if l == nil {
		return nil, errors.New("nobody leads")
	}
	mine, its := net.Pipe()
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- l.Serve(context.Background(), hello, its, func() error { close(ready); return nil })
		its.Close()
	}()
	select {
	case <-ready:
		return mine, nil
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		mine.Close()
		return nil, ctx.Err()
	}
}

// kill ends the process that follows.
func (t *twin) kill() {
	if t.cancel == nil {
		return
	}
	t.cancel()
	core.BestEffort(<-t.ended) // it was killed
	t.cancel = nil
}

// follow begins a copy on another host, unless there is one.
func (w *world) follow() {
	t := w.twin
	if t.cancel != nil {
		return
	}
	t.number++
	t.c = *w.config
	t.c.Copy, t.c.Dir = fmt.Sprint("copy", t.number), filepath.Join(w.dir, fmt.Sprint("twin", t.number))
	t.c.Place = filepath.Join(t.c.Dir, "buffer")
	w.must(fsutil.OwnDir(t.c.Place), "make buffer")
	tree, err := t.c.OpenRemote(nil)
	w.must(err, "open remote")
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	t.cancel, t.ended = cancel, ended
	c := t.c
	go func() {
		err := mirroredBy(ctx, c, configured{tree, c}, slog.New(slog.DiscardHandler), func() {}, t.dial)
		tree.Close()
		ended <- err
		close(ended)
	}()
}

// openCopied opens the volume of this host, whose copy leads, and has another host follow.
func (w *world) openCopied(o Options) {
	o.Copy, o.Place = w.config.Copy, w.config.Place
	v, err := load(o)
	w.must(err, "load")
	w.must(take(v.tree, w.config, !v.journal.drained(), v.journal.log.Last() > 0), "take the remote")
	w.must(lead(v, *w.config), "lead")
	w.mu.Lock()
	w.taken = w.config.Copy
	w.mu.Unlock()
	v.begin(context.Background())
	w.v = v
	w.twin.mu.Lock()
	w.twin.leader = v.journal.copies
	w.twin.mu.Unlock()
	w.follow()
	for w.r.IntN(4) > 0 && len(v.journal.copies.Copies()) < 2 { // else it may die before the copy is complete
		time.Sleep(5 * time.Millisecond)
	}
}

// loseCopy is called once the process that led has been killed, perhaps with its disk, where there is a complete copy.
// In the end, the copy that leads is this host's.
func (w *world) loseCopy() {
	t := w.twin
	t.mu.Lock()
	t.leader.Stop()
	t.leader = nil
	t.mu.Unlock()
	tree, err := w.config.OpenRemote(nil)
	w.must(err, "open remote")
	defer tree.Close()
	s := configured{tree, *w.config}
	now, _, err := s.Read()
	w.must(err, "read record")
	disk := now.Leader != w.config.Copy || w.r.IntN(2) == 0 && slices.Contains(now.Copies, t.c.Copy)
	if !disk && w.r.IntN(2) == 0 {
		t.kill()
		w.must(os.RemoveAll(t.c.Dir), "lose the disk of a copy")
		w.lost++
	}
	if !disk {
		err := replica.Resume(context.Background(), s, w.config.Copy, quick.Restart)
		if err == nil {
			t.kill() // its copy lacks what comes now
			return
		}
		if !errors.Is(err, replica.ErrExcluded) {
			w.must(err, "resume")
		}
	}
	w.must(os.RemoveAll(w.config.Dir), "lose the disk")
	w.lost++
	w.takeovers++
	w.must(<-t.ended, "take over")
	t.cancel = nil
	c := t.c
	w.config = &c
}
