package burst

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
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
		v.journal.mu.Lock()
		drained, news := v.journal.state.Drained(), v.journal.news
		v.journal.mu.Unlock()
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
	b.journal.log.Close()
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
	a, err := b.names.Lookup(b.Context(), dir, name)
	if errors.Is(err, syscall.ENOENT) {
		a, err = b.Make(b.Context(), who{}, remote.File, &calls.Request{Ino: dir, Name: name, Mode: 0o640})
	}
	b.must(err)
	_, err = b.OpenFile(b.Context(), who{}, a.Ino, true)
	b.must(err)
	for off := 0; off < len(text); off += 1 << 20 {
		b.must(b.Write(b.Context(), a.Ino, int64(off), []byte(text[off:min(off+1<<20, len(text))])))
	}
	b.must(b.Flush(a.Ino))
	b.must(b.Release(0, a.Ino, 1))
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
	a, err := b.names.Lookup(b.Context(), meta.Root, name)
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
