package burst

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/volume/burst/replica"
)

// errCrash is about a process that is dead.
var errCrash = errors.New("crashed")

// faulty is a remote whose caller dies before or after one of its changes, at random.
type faulty struct {
	drain.Remote
	mu    *sync.Mutex
	left  int // changes until the crash
	after bool
	dead  bool
	died  func()
	seen  func()
}

func (f *faulty) change(do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return errCrash
	}
	if f.left--; f.left == 0 {
		f.dead = true
		f.died()
		if !f.after {
			return errCrash
		}
	}
	err := do()
	if err == nil { // a bucket has what it moves at both names meanwhile
		f.seen()
	}
	if f.dead {
		return errCrash
	}
	return err
}

func (f *faulty) Publish(partial, name string, ours, expect remote.Version) (v remote.Version, err error) {
	err = f.change(func() error {
		var err error
		v, err = f.Remote.Publish(partial, name, ours, expect)
		return err
	})
	return v, err
}

func (f *faulty) Remove(name string, ino uint64, v remote.Version) error {
	return f.change(func() error { return f.Remote.Remove(name, ino, v) })
}

func (f *faulty) Move(from, to string, seq uint64, ours, expect remote.Version) (v remote.Version, err error) {
	err = f.change(func() error {
		var err error
		v, err = f.Remote.Move(from, to, seq, ours, expect)
		return err
	})
	return v, err
}

func (f *faulty) MoveDir(from, to string, seq uint64, ours remote.Version, over bool) (m map[string]remote.Version, err error) {
	err = f.change(func() error {
		var err error
		m, err = f.Remote.MoveDir(from, to, seq, ours, over)
		return err
	})
	return m, err
}

func (f *faulty) Mkdir(name string, mode uint32) error {
	return f.change(func() error { return f.Remote.Mkdir(name, mode) })
}

func (f *faulty) Rmdir(name string) error {
	return f.change(func() error { return f.Remote.Rmdir(name) })
}

func (f *faulty) Write(ctx context.Context, dir string, ino uint64, c remote.Content) (string, remote.Version, error) {
	f.mu.Lock()
	dead := f.dead
	f.mu.Unlock()
	if dead {
		return "", remote.Version{}, errCrash
	}
	return f.Remote.Write(ctx, dir, ino, c)
}

// world is what a volume should have, and what its remote has had.
type world struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	dir     string
	now     map[string]string   // content by path; "/" for directories
	past    []map[string]string // now, after each change that has to be on the remote in its turn
	at      int                 // the newest of past that the remote is known to have
	mu      sync.Mutex
	v       *Volume
	alive   context.Context // ends when the process of v no longer drains
	held    []calls.OpenFile
	broken  string
	calm    bool // nothing dies any more
	request uint64

	where  remote.Place // empty: the directory far
	opener remote.Opener
	cut    func() // ends all connections with it; nil: there are none
	far    string // with what the remote has

	config *Config // of the volume of a run with checkpoints; nil: it is of none
	taken  string  // id of the volume that has the remote
	globs  []string
	saved  map[int]map[string]string // now, by checkpoint
	twin   *twin                     // a copy on another host; nil: there is none
	// lost counts disks that were lost with their processes, and takeovers those of them that led.
	lost, takeovers int
	left            []*Volume // of attempts that were lost, which continue to drain
	bringing        bool      // the remote is brought back to a checkpoint
}

const directory = "/"

// localDir is a directory that the remote never gets.
const localDir = "h"

func isLocal(name string) bool { return name == localDir || strings.HasPrefix(name, localDir+"/") }

// sent is what the remote gets of files and directories.
func sent(all map[string]string) map[string]string {
	m := maps.Clone(all)
	maps.DeleteFunc(m, func(name, _ string) bool { return isLocal(name) })
	return m
}

// tree reads a directory on this machine, without what is hidden.
func tree(t *testing.T, dir string) map[string]string {
	got := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case rel == ".":
		case remote.Hidden(path.Base(rel), !strings.Contains(rel, "/")):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			got[rel] = directory
		default:
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			got[rel] = string(data)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	return got
}

// ordered checks that the remote is as it was at one time, and not before what it was: a
// file that was removed later may be missing.
func (w *world) ordered() {
	if w.broken != "" || w.bringing {
		return
	}
	got := tree(w.t, w.far)
	for k := w.at; k < len(w.past); k++ {
		if w.fits(got, k) {
			w.at = k
			return
		}
	}
	w.broken = fmt.Sprintf("the remote has %v, which was never so since %v", got, w.past[w.at:])
}

func (w *world) fits(got map[string]string, k int) bool {
	for name, content := range got {
		if w.past[k][name] != content {
			return false
		}
	}
	for name := range w.past[k] {
		if _, has := got[name]; !has && !slices.ContainsFunc(w.past[k:], func(m map[string]string) bool { _, in := m[name]; return !in }) {
			return false
		}
	}
	return true
}

func (w *world) open() {
	var died context.CancelFunc
	w.alive, died = context.WithCancel(context.Background())
	w.t.Cleanup(died)
	o := Options{
		ID: "test", Remote: w.far, At: w.where, Far: w.opener, Place: filepath.Join(w.dir, "buffer"), Notes: filepath.Join(w.dir, "notes"), Room: 8 << 20, Local: []string{localDir}, segmentSize: 4 << 10, publishEvery: time.Hour,
		faults: func(r drain.Remote) drain.Remote {
			f := &faulty{Remote: r, mu: &w.mu, left: 1 + w.r.IntN(12), after: w.r.IntN(2) == 0, died: died, seen: w.ordered}
			if c := w.config; c != nil {
				f.left = 1 + w.r.IntN(60)
				f.seen = func() {
					if w.taken != c.holder() && w.broken == "" {
						w.broken = "the volume of an attempt that was lost has changed the remote"
					}
					w.ordered()
				}
			}
			if w.calm || w.where.Bucket != "" {
				f.left = 0
			}
			return f
		},
	}
	if w.twin != nil {
		w.openCopied(o)
		return
	}
	if w.config != nil {
		w.v = w.openRun(o)
		return
	}
	v, err := Open(context.Background(), o)
	if err != nil {
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
	w.v = v
}

// openRun opens the volume of a run, which takes the remote and brings it back to its newest checkpoint.
func (w *world) openRun(o Options) *Volume {
	o.ID, o.Run, o.Globs, o.Place = w.config.ID, w.config.Run, w.globs, w.config.Place
	w.must(fsutil.OwnDir(o.Place), "make buffer")
	for {
		v, err := load(o)
		w.must(err, "load")
		w.mu.Lock()
		err = take(v.tree, w.config, !v.journal.drained(), v.journal.log.Last() > 0)
		w.taken, w.bringing = w.config.ID, v.journal.state.Generation() == 0
		w.mu.Unlock()
		w.must(err, "take the remote")
		err = v.begins(context.Background(), min(len(w.left), 1))
		w.mu.Lock()
		w.bringing = false
		w.mu.Unlock()
		if errors.Is(err, errCrash) {
			w.must(errors.Join(v.journal.log.Close(), v.tree.Close()), "close")
			continue
		}
		w.must(err, "begin")
		v.begin(context.Background())
		return v
	}
}

// lose leaves an attempt as it is, and begins the next one on another host. Its volume has what the newest
// checkpoint had that the remote has.
func (w *world) lose() {
	w.left = append(w.left, w.v)
	c := *w.config
	c.ID, c.Epoch, c.Dir = fmt.Sprint("test", len(w.left)), 0, filepath.Join(w.dir, fmt.Sprint("host", len(w.left)))
	c.Place = filepath.Join(c.Dir, "buffer")
	w.mu.Lock()
	w.config, w.bringing = &c, true
	w.mu.Unlock()
	w.held = nil
	w.open()
	got := tree(w.t, w.far)
	n := w.v.journal.state.Generation()
	want, is := w.saved[n]
	if !is {
		w.t.Fatalf("seed %d: the remote has checkpoint %d, which was never taken", w.seed, n)
	}
	covered := func(all map[string]string) map[string]string {
		m := sent(all)
		maps.DeleteFunc(m, func(name, _ string) bool { return !w.covers(name) })
		return m
	}
	if a, b := covered(got), covered(want); !maps.Equal(a, b) {
		w.t.Fatalf("seed %d: after checkpoint %d the remote has\n%v\ninstead of\n%v", w.seed, n, a, b)
	}
	maps.DeleteFunc(w.saved, func(k int, _ map[string]string) bool { return k > n })
	w.mu.Lock()
	w.now, w.past, w.at = got, []map[string]string{got}, 0
	w.mu.Unlock()
}

// covers reports whether a name belongs to checkpoints.
func (w *world) covers(name string) bool {
	if len(w.globs) == 0 {
		return true
	}
	for ; name != "."; name = path.Dir(name) {
		if slices.ContainsFunc(w.globs, func(g string) bool { is, _ := path.Match(g, name); return is }) {
			return true
		}
	}
	return false
}

// save takes a checkpoint.
func (w *world) save() {
	n, err := w.v.Checkpoint(nil, false)
	w.must(err, "take a checkpoint")
	w.saved[n] = maps.Clone(w.now)
}

// crash ends the process without any of its last acts.
func (w *world) crash() {
	w.v.cancel()
	w.v.tree.Stop()
	w.v.all.Wait()
	w.v.journal.log.Close()
	w.v.tree.Close()
	if w.twin != nil {
		w.loseCopy()
	}
	w.open()
	if len(w.held) > 0 {
		w.must(w.v.Adopt(0, w.held), "adopt open files")
	}
}

// ask makes a request. One that waits for a process that no longer drains is sent again to the
// next process, as clients do.
func (w *world) ask(what string, do func(ctx context.Context) error) {
	w.t.Helper()
	err := w.answered(do)
	for errors.Is(err, context.Canceled) || errors.Is(err, replica.ErrReplaced) {
		w.crash()
		err = w.answered(do)
	}
	w.must(err, what)
}

// answered carries a request out, and returns once its client could get the answer.
func (w *world) answered(do func(ctx context.Context) error) error {
	err := do(w.alive)
	if cerr := w.v.journal.copies.Confirm(w.alive, w.r.IntN(2) == 0); cerr != nil {
		return cerr
	}
	return err
}

func (w *world) must(err error, what string) {
	if err != nil {
		w.t.Helper()
		w.t.Fatalf("seed %d: %s: %v", w.seed, what, err)
	}
}

// find gives the number of a path.
func (w *world) find(name string) uint64 {
	ino := uint64(meta.Root)
	if name == "." {
		return ino
	}
	for part := range strings.SplitSeq(name, "/") {
		found := calls.Attr{}
		w.ask("look up "+name, func(ctx context.Context) (err error) { // again, where the answer is lost
			found, err = w.v.names.Lookup(ctx, ino, part)
			return err
		})
		ino = found.Ino
	}
	return ino
}

// publish is called before a change: the remote may have it as soon as it is queued.
func (w *world) publish(next map[string]string) {
	w.mu.Lock()
	w.past = append(w.past, sent(next))
	w.mu.Unlock()
	w.now = next
}

func (w *world) pick(dirs bool) (string, bool) {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.now)) {
		if (w.now[name] == directory) == dirs {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return names[w.r.IntN(len(names))], true
}

func (w *world) fresh() string {
	dir, is := w.pick(true)
	if !is || w.r.IntN(2) == 0 {
		dir = "."
	}
	return path.Join(dir, string(rune('a'+w.r.IntN(8))))
}

func (w *world) step(i int) {
	next := maps.Clone(w.now)
	w.request++
	if w.cut != nil && w.r.IntN(12) == 0 {
		w.cut()
	}
	id := who{client: 7, request: w.request}
	switch w.r.IntN(10) {
	case 0:
		w.crash()
	case 1: // directory
		name := w.fresh()
		if _, is := w.now[name]; is {
			return
		}
		next[name] = directory
		w.publish(next)
		q := &calls.Request{Ino: w.find(path.Dir(name)), Name: path.Base(name), Mode: 0o755}
		w.ask("mkdir "+name, func(ctx context.Context) error {
			_, err := w.v.Make(ctx, id, remote.Dir, q)
			return err
		})
	case 2: // remove a file
		if name, is := w.pick(false); is {
			delete(next, name)
			w.publish(next)
			q := &calls.Request{Ino: w.find(path.Dir(name)), Name: path.Base(name)}
			w.ask("remove "+name, func(ctx context.Context) error { return w.v.Remove(ctx, id, q) })
		}
	case 3: // remove a directory, if it is empty
		if name, is := w.pick(true); is {
			for other := range w.now {
				if strings.HasPrefix(other, name+"/") {
					return
				}
			}
			delete(next, name)
			w.publish(next)
			q := &calls.Request{Ino: w.find(path.Dir(name)), Name: path.Base(name), Flags: calls.Directory}
			w.ask("rmdir "+name, func(ctx context.Context) error { return w.v.Remove(ctx, id, q) })
		}
	case 4, 5: // rename
		from, is := w.pick(w.r.IntN(3) == 0)
		to := w.fresh()
		across := isLocal(from) != isLocal(to)
		if _, taken := w.now[to]; !is || to == from || strings.HasPrefix(to, from+"/") || taken && (w.now[to] == directory || w.now[from] == directory) {
			return
		}
		next = map[string]string{}
		for name, content := range w.now {
			if rest, below := strings.CutPrefix(name, from); below && (rest == "" || rest[0] == '/') {
				next[to+rest] = content
			} else if _, taken := next[name]; !taken {
				next[name] = content
			}
		}
		if !across {
			w.publish(next)
		}
		q := &calls.Request{Ino: w.find(path.Dir(from)), Name: path.Base(from), ToDir: w.find(path.Dir(to)), ToName: path.Base(to)}
		w.ask(from+" -> "+to, func(ctx context.Context) error {
			err := w.v.Rename(ctx, id, q)
			switch {
			case !across:
				return err
			case err == nil:
				return errors.New("it was renamed across the border of a local directory")
			case errors.Is(err, syscall.EXDEV):
				return nil
			}
			return err
		})
	default: // write
		name := w.fresh()
		if w.now[name] == directory {
			return
		}
		_, there := w.now[name]
		text := fmt.Sprintf("%s of step %d", name, i)
		old := w.now[name]
		off := 0
		switch {
		case there && w.r.IntN(2) == 0:
			off = w.r.IntN(len(old) + 1)
			if end := off + len(text); end < len(old) {
				next[name] = old[:off] + text + old[end:]
			} else {
				next[name] = old[:off] + text
			}
		default:
			next[name] = text
		}
		// Made and written, it is published once it is closed.
		var ino uint64
		if !there {
			q := &calls.Request{Ino: w.find(path.Dir(name)), Name: path.Base(name), Mode: 0o644}
			w.ask("create "+name, func(ctx context.Context) error {
				a, err := w.v.Make(ctx, id, remote.File, q)
				ino = a.Ino
				return err
			})
		} else {
			ino = w.find(name)
		}
		w.ask("open "+name, func(ctx context.Context) error {
			_, err := w.v.OpenFile(ctx, who{}, ino, there && next[name] == text)
			return err
		})
		w.held = []calls.OpenFile{{Ino: ino, Count: 1}}
		w.ask("write "+name, func(ctx context.Context) error { return w.v.Write(ctx, ino, int64(off), []byte(text)) })
		w.publish(next)
		w.ask("flush "+name, func(context.Context) error { return w.v.Flush(ino) })
		w.ask("close "+name, func(context.Context) error { return w.v.Release(0, ino, 1) })
		w.held = nil
	}
}

// look compares all that users see with what they have done.
func (w *world) look() {
	got := map[string]string{}
	var walk func(ino uint64, name string)
	walk = func(ino uint64, name string) {
		var list []calls.Entry
		w.ask("list "+name, func(ctx context.Context) (err error) {
			list, err = w.v.names.List(ctx, ino)
			return err
		})
		for _, e := range list {
			full := path.Join(name, e.Name)
			if e.Attr.Mode&0o170000 == 0o040000 {
				got[full] = directory
				walk(e.Attr.Ino, full)
				continue
			}
			w.ask("read "+full, func(ctx context.Context) error {
				data, err := w.v.Read(ctx, e.Attr.Ino, 0, 1<<16)
				got[full] = string(data)
				return err
			})
		}
	}
	walk(meta.Root, ".")
	if !maps.Equal(got, w.now) {
		w.t.Fatalf("seed %d: users see\n%v\ninstead of\n%v", w.seed, got, w.now)
	}
}

// TestHistories plays random histories of one user, in which the process dies at random
// points of the drain and between: users see what they did, the remote changes in the same
// order, and has all of it in the end.
func TestHistories(t *testing.T) {
	histories(t, 12, func(w *world) {
		if err := os.Mkdir(w.far, 0o755); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHistoriesOfBuckets plays them with a bucket, whose connections break at random too:
// before a request was carried out, or after.
func TestHistoriesOfBuckets(t *testing.T) {
	server := s3server.StartFound(t)
	var mu sync.Mutex
	left := 1
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		mu.Lock()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			left--
		}
		cut := left == 0
		if cut {
			left = 1 + rand.IntN(12) // not secret
		}
		after := left%2 == 0
		mu.Unlock()
		if cut && after {
			s3server.Forward(r, forward)
		}
		if cut {
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
	histories(t, 3, func(w *world) {
		prefix := fmt.Sprint("run", w.seed)
		w.where = remote.Place{Bucket: server.Bucket, Prefix: prefix, Endpoint: proxy}
		w.far = filepath.Join(server.Dir, prefix)
		key := prefix + "/" // else the directory goes with the last file
		_, err := server.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &server.Bucket, Key: &key})
		w.must(err, "make prefix")
	})
}

// TestHistoriesOfRuns plays them with checkpoints and attempts that are lost at random points, while their
// processes continue to drain: the next one has what the newest checkpoint had, and the others change
// nothing any more.
func TestHistoriesOfRuns(t *testing.T) {
	histories(t, 8, func(w *world) {
		if err := os.Mkdir(w.far, 0o755); err != nil {
			t.Fatal(err)
		}
		if w.r.IntN(2) == 0 {
			w.globs = []string{"a", "c/*"}
		}
		dir := filepath.Join(w.dir, "host")
		w.config = &Config{ID: "test", Run: "run", Dir: dir, Place: filepath.Join(dir, "buffer")}
		w.saved = map[int]map[string]string{1: {}}
	})
}

// TestHistoriesOfCopies plays them with a copy on another host. Processes die with their disks, of the one that leads
// and of the one that follows: the other one has everything that a client could have seen.
func TestHistoriesOfCopies(t *testing.T) {
	t.Parallel()
	var all []*world
	histories(t, 5, func(w *world) {
		if err := os.Mkdir(w.far, 0o755); err != nil {
			t.Fatal(err)
		}
		w.twin = &twin{}
		dir := filepath.Join(w.dir, "host0")
		w.config = &Config{ID: "test", Copy: "first", Replicas: 2, Remote: w.far, Dir: dir, Place: filepath.Join(dir, "buffer"), Room: 8 << 20, copies: quick}
		w.must(fsutil.OwnDir(w.config.Place), "make buffer")
		all = append(all, w)
		t.Cleanup(w.twin.kill)
	})
	lost, takeovers := 0, 0
	for _, w := range all {
		lost, takeovers = lost+w.lost, takeovers+w.takeovers
	}
	if takeovers == 0 || lost == takeovers {
		t.Errorf("%d disks were lost, and %d copies took over", lost, takeovers)
	}
}

func histories(t *testing.T, n uint64, begin func(w *world)) {
	first := uint64(time.Now().UnixNano()) // any number will do
	if given := os.Getenv("BEE_TEST_SEED"); given != "" {
		var err error
		if first, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
		n = 1
	}
	if testkit.Everything() {
		n *= 160
	}
	for i := range n {
		seed := first + i
		dir := t.TempDir()
		w := &world{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 2)), dir: dir, far: filepath.Join(dir, "remote"), now: map[string]string{}, past: []map[string]string{{}}} // not secret
		begin(w)
		w.must(fsutil.OwnDir(filepath.Join(dir, "buffer")), "make buffer")
		w.open()
		for i := range 60 {
			w.step(i)
			switch {
			case w.config == nil || w.twin != nil:
			case w.r.IntN(12) == 0:
				w.save()
			case w.r.IntN(20) == 0:
				w.lose()
			}
			if w.r.IntN(8) == 0 {
				w.must(w.v.room.reclaim(1<<40), "make room")
			}
			if w.r.IntN(6) == 0 {
				w.look()
			}
		}
		w.look()
		w.calm = true
		w.crash()
		w.look()
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		for w.v.Drained(ctx) != nil || ctx.Err() != nil {
			t.Fatalf("seed %d: undrained: %+v", seed, w.v.Status())
		}
		cancel()
		w.look()
		for _, f := range w.v.Index(calls.IndexRequest{}).Files {
			if finding, err := compare(context.Background(), w.v.tree, f); finding != "" || err != nil {
				t.Errorf("seed %d: %s on the remote is %s, %v", seed, f.Path, finding, err)
			}
		}
		w.must(w.v.Close(), "close")
		if w.broken != "" {
			t.Fatalf("seed %d: %s", seed, w.broken)
		}
		for _, v := range w.left {
			v.cancel()
			v.tree.Stop()
			v.all.Wait()
			w.must(errors.Join(v.journal.log.Close(), v.tree.Close()), "close the volume of a lost attempt")
		}
		if got, want := tree(t, w.far), sent(w.now); !maps.Equal(got, want) {
			t.Fatalf("seed %d: the remote has\n%v\ninstead of\n%v", seed, got, want)
		}
	}
}
