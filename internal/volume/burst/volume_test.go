package burst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// gate is a remote that does nothing while it is shut.
type gate struct {
	drain.Remote
	mu   sync.Mutex
	shut error
	lost error // in place of the answers of moves, which are carried out
}

func (g *gate) Move(from, to string, seq uint64, ours, expect remote.Version) (remote.Version, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, err := g.Remote.Move(from, to, seq, ours, expect)
	return v, errors.Join(err, g.lost)
}

func (g *gate) MoveDir(from, to string, seq uint64, ours remote.Version, over bool) (map[string]remote.Version, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v, err := g.Remote.MoveDir(from, to, seq, ours, over)
	return v, errors.Join(err, g.lost)
}

// lose has moves carried out whose answers are lost.
func (g *gate) lose(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lost = err
}

func (g *gate) set(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = err
}

func (g *gate) Write(ctx context.Context, dir string, ino uint64, c remote.Content) (string, remote.Version, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return "", remote.Version{}, g.shut
	}
	return g.Remote.Write(ctx, dir, ino, c)
}

func (g *gate) Remove(name string, ino uint64, v remote.Version) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return g.shut
	}
	return g.Remote.Remove(name, ino, v)
}

func (g *gate) Ensure(dir string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return g.shut
	}
	return g.Remote.Ensure(dir)
}

func (g *gate) Stat(name string) (remote.Entry, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		return remote.Entry{}, g.shut
	}
	return g.Remote.Stat(name)
}

// bench is a volume with a remote that the test can shut.
type bench struct {
	*testing.T
	*Volume
	far  string
	gate *gate
	// bucket has the objects below the prefix "far", and far their files; nil: far is the remote.
	bucket *s3server.Server
}

// Open opens a volume, and begins to drain it.
func Open(ctx context.Context, o Options) (*Volume, error) {
	v, err := load(o)
	if err == nil {
		v.begin(ctx)
	}
	return v, err
}

// Drained waits until the remote lacks nothing.
func (v *Volume) Drained(ctx context.Context) error {
	for {
		v.mu.Lock()
		drained, news := v.state.Drained(), v.news
		v.mu.Unlock()
		if drained {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func start(t *testing.T, o Options) *bench {
	t.Helper()
	return begin(&bench{T: t, far: t.TempDir(), gate: &gate{}}, o)
}

// startBucket starts a volume whose remote is in a bucket.
func startBucket(t *testing.T, server *s3server.Server, o Options) *bench {
	t.Helper()
	prefix := strings.ReplaceAll(t.Name(), "/", "-")
	o.At = remote.Place{Bucket: server.Bucket, Prefix: prefix, Endpoint: o.At.Endpoint}
	b := &bench{T: t, far: filepath.Join(server.Dir, prefix), gate: &gate{}, bucket: server}
	b.object(".keep/", "") // else the directory goes with its last file
	return begin(b, o)
}

func begin(b *bench, o Options) *bench {
	t := b.T
	t.Helper()
	o.ID, o.Remote, o.Place, o.Notes = "test", b.far, filepath.Join(t.TempDir(), "buffer"), filepath.Join(t.TempDir(), "notes")
	if o.Room == 0 {
		o.Room = 64 << 20
	}
	o.faults = func(r drain.Remote) drain.Remote {
		b.gate.Remote = r
		return b.gate
	}
	b.must(fsutil.OwnDir(o.Place))
	b.open(o)
	t.Cleanup(func() {
		if err := b.Volume.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) open(o Options) {
	b.Helper()
	v, err := Open(b.Context(), o)
	b.must(err)
	b.Volume = v
}

// crash ends the process without any of its last acts, and starts another one.
func (b *bench) crash() {
	b.Helper()
	b.cancel()
	b.tree.Stop()
	b.all.Wait()
	b.log.Close()
	b.tree.Close()
	b.open(b.o)
}

func (b *bench) must(err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// file writes a file of the top directory as a program does.
func (b *bench) file(name, text string) {
	b.Helper()
	b.fileIn(meta.Root, name, text)
}

func (b *bench) fileIn(dir uint64, name, text string) {
	b.Helper()
	a, err := b.Lookup(b.Context(), dir, name)
	if errors.Is(err, syscall.ENOENT) {
		a, err = b.Make(b.Context(), who{}, remote.File, &calls.Request{Ino: dir, Name: name, Mode: 0o640})
	}
	b.must(err)
	_, err = b.OpenFile(b.Context(), a.Ino, true)
	b.must(err)
	for off := 0; off < len(text); off += 1 << 20 {
		b.must(b.Write(b.Context(), a.Ino, int64(off), []byte(text[off:min(off+1<<20, len(text))])))
	}
	b.must(b.Flush(a.Ino))
	b.must(b.Release(a.Ino, 1))
}

// make makes a directory or link of the top directory.
func (b *bench) make(kind remote.Kind, name, target string) uint64 {
	b.Helper()
	a, err := b.Make(b.Context(), who{}, kind, &calls.Request{Ino: meta.Root, Name: name, Mode: 0o755, Data: []byte(target)})
	b.must(err)
	return a.Ino
}

func (b *bench) rename(from, to string) {
	b.Helper()
	b.must(b.Rename(b.Context(), who{}, &calls.Request{Ino: meta.Root, Name: from, ToDir: meta.Root, ToName: to}))
}

func (b *bench) drained() {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if b.Drained(ctx) != nil {
		b.Fatalf("undrained: %+v", b.Status())
	}
}

// object puts an object into the bucket, as others do.
func (b *bench) object(name, text string) {
	b.Helper()
	key := filepath.Base(b.far) + "/" + name
	_, err := b.bucket.Client().PutObject(b.Context(), &s3.PutObjectInput{Bucket: &b.bucket.Bucket, Key: &key, Body: strings.NewReader(text)})
	b.must(err)
}

// gone removes what is at a name of the remote, as others do.
func (b *bench) gone(name string) {
	b.Helper()
	if b.bucket == nil {
		b.must(os.Remove(filepath.Join(b.far, name)))
		return
	}
	for _, key := range []string{name, name + "/"} {
		key = filepath.Base(b.far) + "/" + key
		_, err := b.bucket.Client().DeleteObject(b.Context(), &s3.DeleteObjectInput{Bucket: &b.bucket.Bucket, Key: &key})
		b.must(err)
	}
}

func (b *bench) foreignDir(name string) {
	b.Helper()
	if b.bucket != nil {
		b.object(name+"/", "")
		return
	}
	b.must(os.Mkdir(filepath.Join(b.far, name), 0o700))
}

func (b *bench) foreign(name, text string) {
	b.Helper()
	if b.bucket != nil {
		b.object(name, text)
		return
	}
	b.must(os.WriteFile(filepath.Join(b.far, name+".new"), []byte(text), 0o600))
	b.must(os.Rename(filepath.Join(b.far, name+".new"), filepath.Join(b.far, name)))
}

func (b *bench) has(want map[string]string) {
	b.Helper()
	got := tree(b.T, b.far)
	delete(got, ".keep")
	if fmt.Sprint(got) != fmt.Sprint(want) {
		b.Errorf("the remote has %v instead of %v", got, want)
	}
}

func (b *bench) sees(name string) string {
	b.Helper()
	a, err := b.Lookup(b.Context(), meta.Root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	b.must(err)
	var all []byte
	for {
		p, err := b.Read(b.Context(), a.Ino, int64(len(all)), 1<<20)
		b.must(err)
		if all = append(all, p...); len(p) == 0 {
			return string(all)
		}
	}
}

// TestForeign changes the remote while changes of ours are undrained: what another program
// wrote is never replaced nor removed, ours is beside it, and both are reported.
func TestForeign(t *testing.T) {
	foreign(t, func(t *testing.T) *bench { return start(t, Options{}) })
}

// TestForeignInBuckets does the same in a bucket.
func TestForeignInBuckets(t *testing.T) {
	server := s3server.StartFound(t)
	foreign(t, func(t *testing.T) *bench { return startBucket(t, server, Options{}) })
}

func foreign(t *testing.T, start func(*testing.T) *bench) {
	shut := errors.New("the line is cut")
	// sent is carried out on the remote before the line is cut.
	sent := func(b *bench, do func()) {
		b.gate.set(nil)
		do()
		b.drained()
		b.gate.set(shut)
	}
	for _, c := range []struct {
		name    string
		ours    func(b *bench)
		foreign func(b *bench)
		want    map[string]string
		reports int
		sees    string // at the name f; "" where nothing is
	}{
		{
			"both write", func(b *bench) { b.file("f", "ours") }, func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"both create", func(b *bench) { b.file("g", "ours") }, func(b *bench) { b.foreign("g", "theirs") },
			map[string]string{"f": "before", "g": "theirs", "g.bee-conflict-test": "ours"},
			1, "before",
		},
		{
			"it was written in its place", func(b *bench) { b.file("f", "ours") },
			func(b *bench) {
				if b.bucket != nil {
					b.foreign("f", "theirs")
					return
				}
				b.must(os.WriteFile(filepath.Join(b.far, "f"), []byte("theirs"), 0o600))
			},
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"it was removed", func(b *bench) { b.file("f", "ours") },
			func(b *bench) { b.gone("f") },
			map[string]string{"f": "ours"},
			0, "ours",
		},
		{
			"we remove", func(b *bench) {
				b.must(b.Remove(b.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "f"}))
			},
			func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs"},
			1, "theirs",
		},
		{
			"we rename over it", func(b *bench) {
				b.file("h", "ours")
				b.rename("h", "f")
			},
			func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"we rename what was removed", func(b *bench) {
				sent(b, func() { b.file("f", "ours") })
				b.rename("f", "g")
			},
			func(b *bench) { b.gone("f") },
			map[string]string{"g": "ours"},
			1, "",
		},
		{
			"we rename what was renamed", func(b *bench) {
				sent(b, func() { b.file("f", "ours") })
				b.rename("f", "g")
			},
			func(b *bench) {
				b.gone("f")
				b.foreign("g", "theirs")
			},
			map[string]string{"g": "theirs", "g.bee-conflict-test": "ours"},
			2, "",
		},
		{
			"we rename a removed directory and link", func(b *bench) {
				var dir uint64
				sent(b, func() {
					dir = b.make(remote.Dir, "d", "")
					b.make(remote.Link, "l", "f")
				})
				b.rename("d", "e")
				b.rename("l", "m")
				b.fileIn(dir, "x", "ours")
			},
			func(b *bench) {
				b.gone("d")
				b.gone("l")
			},
			map[string]string{"f": "before", "e": directory, "e/x": "ours", "m": "before"},
			2, "before",
		},
		{
			"a directory of that name", func(b *bench) { b.file("g", "ours") },
			func(b *bench) { b.foreignDir("g") },
			map[string]string{"f": "before", "g": directory, "g.bee-conflict-test": "ours"},
			1, "before",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t)
			b.foreign("f", "before")
			if got := b.sees("f"); got != "before" {
				t.Fatalf("f has %q", got)
			}
			b.gate.set(shut)
			c.ours(b)
			c.foreign(b)
			b.gate.set(nil)
			b.drained()
			if b.bucket != nil && c.want["m"] != "" {
				c.want["m"] = "f" // the content of a link is its target
			}
			b.has(c.want)
			if got := b.sees("f"); got != c.sees {
				t.Errorf("users see %q in f, instead of %q", got, c.sees)
			}
			if got := b.Status().Conflicts; len(got) != c.reports {
				t.Errorf("reported: %v", got)
			}
		})
	}
}

// TestReadTogether reads files that only the remote has by several readers at once: each
// gets the content.
func TestReadTogether(t *testing.T) {
	b := start(t, Options{Rate: 20_000}) // they wait for the line once they have opened the file
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range 10 {
		name := fmt.Sprint(i)
		content := strings.Repeat(name, 100)
		b.foreign(name, content)
		a, err := b.Lookup(ctx, meta.Root, name)
		b.must(err)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if p, err := b.Read(ctx, a.Ino, 0, 100); err != nil || string(p) != content {
					t.Errorf("%s has %q, %v", name, p, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
	}
}

// TestOpenTruncates opens a file with O_TRUNC: its empty version is not queued before the
// program writes or closes it.
func TestOpenTruncates(t *testing.T) {
	b := start(t, Options{})
	b.file("f", "before")
	b.drained()
	b.gate.set(errors.New("the line is cut"))
	defer b.gate.set(nil)
	a, err := b.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), a.Ino, true)
	b.must(err)
	if got := b.Status().Changes; got != 0 {
		t.Errorf("%d changes are queued", got)
	}
	b.must(b.Release(a.Ino, 1))
	if got := b.Status().Changes; got != 1 {
		t.Errorf("%d changes are queued after the close", got)
	}
}

// TestRequestsEnd ends the process while a request waits: the client gets no reply, and sends
// the request again.
func TestRequestsEnd(t *testing.T) {
	b := start(t, Options{Rate: 1})
	b.foreign("f", strings.Repeat("x", 1000))
	b.sees("f") // the next read waits for the line
	a, err := b.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	var replies bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		requests(ctx, b.Volume, 1, struct {
			io.Reader
			io.Writer
		}{from, &replies})
	}()
	_, err = to.Write((&calls.Request{ID: 1, Op: calls.Read, Ino: a.Ino, Size: 10}).Encode())
	b.must(err)
	cancel()
	b.must(to.Close())
	<-done
	if replies.Len() > 0 {
		t.Errorf("a reply of %d bytes", replies.Len())
	}
}

// TestReclaimFetch frees what an interrupted fetch has left in the journal.
func TestReclaimFetch(t *testing.T) {
	b := start(t, Options{})
	b.foreign("f", "before")
	a, err := b.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	r := buffer.Record{Kind: buffer.Data, Flag: meta.FetchedData, Ino: a.Ino, Payload: []byte("bef")}
	b.mu.Lock()
	n := b.state.Node(a.Ino)
	_, err = b.change(meta.Change{Do: meta.DoFetch, Ino: a.Ino})
	if err == nil {
		err = b.log.Append(&r)
	}
	b.state.Data(n, r)
	b.mu.Unlock()
	b.must(err)
	b.must(b.reclaim(1))
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(n.Extents) > 0 || len(b.used()) > 0 {
		t.Errorf("left: %v", n.Extents)
	}
}

// TestRemoteRetry carries changes out twice, as after a crash between them and their record.
func TestRemoteRetry(t *testing.T) {
	dir := t.TempDir()
	tree, err := remote.OpenTree(dir, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		must(tree.Mkdir("d", 0o700))
		must(tree.Mkdir("e", 0o700))
		must(tree.Symlink("d", "l"))
	}
	d, err := tree.Stat("d")
	must(err)
	moved := func(_ map[string]remote.Version, err error) error { return err }
	for range 2 {
		must(moved(tree.MoveDir("d", "e", 1, d.Version, true)))
	}
	if e, err := tree.Stat("e"); err != nil || e.Version != d.Version {
		t.Errorf("%+v, %v", e, err)
	}
	must(os.WriteFile(filepath.Join(dir, "e", "theirs"), nil, 0o600))
	must(tree.Mkdir("d", 0o700))
	if _, err := tree.MoveDir("d", "e", 2, remote.Version{Ino: 1}, true); !errors.Is(err, remote.ErrForeign) {
		t.Errorf("moved over what is not empty: %v", err)
	}
	for range 2 {
		must(tree.Rmdir("d"))
	}
}

// TestReadsNew sees what another program does to the remote, once attributes are compared
// again, and at each open.
func TestReadsNew(t *testing.T) {
	b := start(t, Options{})
	b.file("f", "ours")
	b.drained()
	b.foreign("f", "theirs, and longer")
	a, err := b.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	if a, err = b.OpenFile(t.Context(), a.Ino, false); err != nil || a.Size != 18 {
		t.Errorf("size %d, %v", a.Size, err)
	}
	if got := b.sees("f"); got != "theirs, and longer" {
		t.Errorf("f has %q", got)
	}
	b.must(b.Release(a.Ino, 1))
	b.gone("f")
	if list, err := b.List(t.Context(), meta.Root); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRoom writes more than the room: writers wait for the drain, or get ENOSPC where that
// does not help, and what is undrained stays.
func TestRoom(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	block := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	for i := range 24 {
		b.file(fmt.Sprint(i), string(block)+fmt.Sprint(i))
	}
	b.drained()
	for i := range 24 {
		got, err := os.ReadFile(filepath.Join(b.far, fmt.Sprint(i)))
		if err != nil || string(got) != string(block)+fmt.Sprint(i) {
			t.Errorf("file %d has %d bytes, %v", i, len(got), err)
		}
	}
	if s := b.Status(); s.Buffer > s.Room {
		t.Errorf("the buffer has %d bytes of %d", s.Buffer, s.Room)
	}
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "large", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), a.Ino, false)
	b.must(err)
	for off := int64(0); err == nil && off < 16<<20; off += int64(len(block)) {
		err = b.Write(t.Context(), a.Ino, off, block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("a file larger than the room: %v", err)
	}
}

// TestLineCut writes while the remote cannot be reached: nothing fails, a full buffer
// waits, and all of it arrives once the line is back.
func TestLineCut(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	b.gate.set(syscall.EIO)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for i := range 6 {
		b.file(fmt.Sprint(i), string(block))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 6 {
			b.file(fmt.Sprint("more", i), string(block))
		}
	}()
	for b.Status().Waits == "" {
		select {
		case <-done:
			t.Fatal("more was written than there is room for")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if s := b.Status(); s.Undrained < 6<<20 || s.Drained || s.Oldest == nil {
		t.Errorf("%+v", s)
	}
	b.gate.set(nil)
	<-done
	b.drained()
	if got := tree(t, b.far); len(got) != 12 {
		t.Errorf("the remote has %d files", len(got))
	}
}

// TestHeldOpen publishes a file that stays open, as a whole version.
func TestHeldOpen(t *testing.T) {
	b := start(t, Options{publishEvery: 20 * time.Millisecond})
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "log", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), a.Ino, false)
	b.must(err)
	for i := range 3 {
		b.must(b.Write(t.Context(), a.Ino, int64(i), []byte("x")))
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if got, _ := os.ReadFile(filepath.Join(b.far, "log")); len(got) == i+1 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("the remote has %q", got)
			}
		}
	}
}

// TestNamesThatAreNoText has names and targets of links that are not UTF-8 on the remote: they are
// not seen, and the journal can be read again. Ours are refused.
func TestNamesThatAreNoText(t *testing.T) {
	b := start(t, Options{})
	for _, name := range []string{"gr\xfcn", "gr\xf6n", "plain"} {
		b.must(os.WriteFile(filepath.Join(b.far, name), nil, 0o600))
	}
	b.must(os.Symlink("gr\xfcn", filepath.Join(b.far, "link")))
	check := func() {
		t.Helper()
		if list, err := b.List(t.Context(), meta.Root); err != nil || len(list) != 1 || list[0].Name != "plain" {
			t.Errorf("%+v, %v", list, err)
		}
	}
	check()
	for _, q := range []*calls.Request{{Ino: meta.Root, Name: "\xff", Data: []byte("x")}, {Ino: meta.Root, Name: "x", Data: []byte("\xff")}} {
		if _, err := b.Make(t.Context(), who{}, remote.Link, q); !errors.Is(err, syscall.EILSEQ) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	b.crash()
	check()
	if name := remote.Conflict(strings.Repeat("ä", 127), "test"); !utf8.ValidString(name) {
		t.Errorf("%q is no text", name)
	}
}

// TestLostAnswers reads what was renamed on the remote while the answer was lost: programs wait.
func TestLostAnswers(t *testing.T) {
	b := start(t, Options{})
	b.foreign("f", "text")
	b.foreignDir("d")
	b.foreign("d/f", "text")
	file, err := b.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	d, err := b.Lookup(t.Context(), meta.Root, "d")
	b.must(err)
	inside, err := b.Lookup(t.Context(), d.Ino, "f")
	b.must(err)
	for from, ino := range map[string]uint64{"f": file.Ino, "d": inside.Ino} {
		b.gate.lose(errors.New("the answer is lost"))
		b.rename(from, from+".new")
		testkit.Eventually(t, 20*time.Second, func() error {
			if s := b.Status(); s.Waits == "" {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		read := func(wait time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if err := b.refresh(ctx, ino, 0); err != nil {
				return "", err
			}
			p, err := b.Read(ctx, ino, 0, 100)
			return string(p), err
		}
		if got, err := read(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %q, %v", from, got, err)
		}
		b.gate.lose(nil)
		if got, err := read(time.Minute); err != nil || got != "text" {
			t.Errorf("%s: %q, %v", from, got, err)
		}
		b.drained()
	}
	b.has(map[string]string{"f.new": "text", "d.new": directory, "d.new/f": "text"})
}

// TestLongNames refuses names and paths in new directories that no remote accepts.
func TestLongNames(t *testing.T) {
	b := start(t, Options{})
	dir := b.make(remote.Dir, "new", "")
	q := &calls.Request{Ino: dir, Name: strings.Repeat("n", 256), Mode: 0o755}
	if _, err := b.Make(t.Context(), who{}, remote.File, q); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long name: %v", err)
	}
	q.Name = q.Name[1:]
	var err error
	for range 20 {
		var a calls.Attr
		if a, err = b.Make(t.Context(), who{}, remote.Dir, q); err != nil {
			break
		}
		q = &calls.Request{Ino: a.Ino, Name: q.Name, Mode: 0o755}
	}
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long path: %v", err)
	}
	b.drained()
}

// TestReadOnlyDirectory writes to a file in a directory that was made read-only, as its owner may.
func TestReadOnlyDirectory(t *testing.T) {
	b := start(t, Options{})
	dir := b.make(remote.Dir, "d", "")
	b.fileIn(dir, "f", "before")
	_, err := b.SetAttr(t.Context(), who{}, &calls.Request{Ino: dir, Valid: calls.SetMode, Mode: 0o555})
	b.must(err)
	t.Cleanup(func() { b.must(os.Chmod(filepath.Join(b.far, "d"), 0o755)) }) // so that it can be removed
	b.drained()
	b.fileIn(dir, "f", "after!")
	b.drained()
	b.has(map[string]string{"d": directory, "d/f": "after!"})
	if info, err := os.Stat(filepath.Join(b.far, "d")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestMovesAgain makes a move once more after another program has used the old name again: both
// files stay where they are.
func TestMovesAgain(t *testing.T) {
	dir := t.TempDir()
	far, err := remote.OpenTree(dir, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "log"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("ours")
	e, err := far.Stat("log")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := far.Move("log", "log.1", 1, e.Version, remote.Version{}); err != nil {
			t.Error(err)
		}
		write("theirs")
	}
	if got := tree(t, dir); got["log"] != "theirs" || got["log.1"] != "ours" {
		t.Errorf("%v", got)
	}
}

// TestTwoVolumesTakeADirectory has two volumes make their record in a directory at the same time: the
// second one fails, and leaves nothing.
func TestTwoVolumesTakeADirectory(t *testing.T) {
	dir := t.TempDir()
	for i, volume := range []string{"first", "second"} {
		far, err := remote.OpenTree(dir, volume, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if err := far.SetRecord([]byte(volume)); i == 0 && err != nil || i == 1 && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", volume, err)
		}
		if raw, err := far.Record(); err != nil || string(raw) != "first" {
			t.Errorf("%q, %v", raw, err)
		}
	}
	if all, err := os.ReadDir(filepath.Join(dir, remote.Directory)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestReplacedDirectoryBesideItsName renames a directory over one that was stored beside its name, as
// others have a file there.
func TestReplacedDirectoryBesideItsName(t *testing.T) {
	b := start(t, Options{})
	b.gate.set(errors.New("the line is cut"))
	b.make(remote.Dir, "d", "")
	b.foreign("d", "theirs")
	b.gate.set(nil)
	b.drained()
	b.make(remote.Dir, "e", "")
	b.rename("e", "d")
	b.drained()
	b.has(map[string]string{"d": "theirs", "d.bee-conflict-test": directory})
}
