package burst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

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
		a, err := b.names.Lookup(ctx, meta.Root, name)
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
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, true)
	b.must(err)
	if got := b.Status().Changes; got != 0 {
		t.Errorf("%d changes are queued", got)
	}
	b.must(b.Release(0, a.Ino, 1))
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
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	ctx, cancel := context.WithCancel(t.Context())
	from, to := io.Pipe()
	var replies bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		(&handler{volume: b.Volume, client: 1}).serve(ctx, struct {
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

// TestReadsNew sees what another program does to the remote, once attributes are compared
// again, and at each open.
func TestReadsNew(t *testing.T) {
	b := start(t, Options{})
	b.file("f", "ours")
	b.drained()
	b.foreign("f", "theirs, and longer")
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	if a, err = b.OpenFile(t.Context(), who{}, a.Ino, false); err != nil || a.Size != 18 {
		t.Errorf("size %d, %v", a.Size, err)
	}
	if got := b.sees("f"); got != "theirs, and longer" {
		t.Errorf("f has %q", got)
	}
	b.must(b.Release(0, a.Ino, 1))
	b.gone("f")
	if list, err := b.names.List(t.Context(), meta.Root); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestHeldOpen publishes a file that stays open, as a whole version.
func TestHeldOpen(t *testing.T) {
	b := start(t, Options{publishEvery: 20 * time.Millisecond})
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "log", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	for i := range 3 {
		b.must(b.Write(t.Context(), a.Ino, int64(i), []byte("x")))
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if got, _ := os.ReadFile(filepath.Join(b.far, "log")); len(got) == i+1 {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("the remote has %q", got)
			}
		}
	}
}

// TestKnownNames looks up what the buffer knows while a request of the drain waits for the remote.
func TestKnownNames(t *testing.T) {
	b := start(t, Options{})
	b.gate.set(errors.New("the line is cut"))
	defer b.gate.set(nil)
	dir := b.make(remote.Dir, "d", "")
	b.fileIn(dir, "f", "undrained")
	b.names.lists.Lock() // as commit does
	defer b.names.lists.Unlock()
	b.names.lock.Lock()
	defer b.names.lock.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		a, err := b.names.Lookup(ctx, dir, "f")
		if err == nil {
			_, err = b.OpenFile(ctx, who{}, a.Ino, false)
		}
		if err == nil {
			_, err = b.names.List(ctx, dir)
		}
		if _, lerr := b.names.Lookup(ctx, dir, "g"); !errors.Is(lerr, syscall.ENOENT) {
			err = errors.Join(err, fmt.Errorf("g: %w", lerr))
		}
		done <- err
	}()
	select {
	case err := <-done:
		b.must(err)
	case <-ctx.Done():
		t.Error("they wait")
	}
}

// TestHead replaces a queued version again and again: the number of the oldest undrained change stays.
func TestHead(t *testing.T) {
	b := start(t, Options{})
	b.gate.set(errors.New("the line is cut"))
	b.file("first", "first")
	b.file("f", "1")
	last, err := b.PublishAll()
	b.must(err)
	first := b.Status().Head
	for i := range 5 {
		b.file("f", fmt.Sprint(i))
	}
	if got := b.Status().Head; got != first || got == 0 || got > last {
		t.Errorf("the head is %d after %d; the newest was %d", got, first, last)
	}
	v := b.Volume
	v.journal.mu.Lock()
	for _, o := range v.journal.state.Queue() {
		if o.Seq > last && o.Since > last {
			t.Errorf("%+v has replaced what was queued before", o)
		}
	}
	v.journal.mu.Unlock()
	b.gate.set(nil)
	b.drained()
	if got := b.Status().Head; got != 0 {
		t.Errorf("the head is %d of nothing", got)
	}
}

// TestPrefetch copies what matches into the buffer: reading it asks the remote no more. What does not fit
// is left.
func TestPrefetch(t *testing.T) {
	b := start(t, Options{Room: 8 << 20})
	b.foreignDir("in")
	for _, name := range []string{"in/a", "in/b", "c"} {
		b.foreign(name, "content of "+name)
	}
	b.foreign("in/large", strings.Repeat("x", 7<<20))
	got, err := b.Prefetch(t.Context(), []string{"in/*"})
	b.must(err)
	if want := (calls.Prefetched{Files: 2, Bytes: 2 * int64(len("content of in/a")), Left: 1}); got != want {
		t.Errorf("%+v instead of %+v", got, want)
	}
	before := b.Status().Misses
	in, err := b.names.Lookup(t.Context(), meta.Root, "in")
	b.must(err)
	a, err := b.names.Lookup(t.Context(), in.Ino, "a")
	b.must(err)
	p, err := b.Read(t.Context(), a.Ino, 0, 100)
	if err != nil || string(p) != "content of in/a" || b.Status().Misses != before {
		t.Errorf("%q, %v, read from the remote: %d", p, err, b.Status().Misses-before)
	}
	if again, err := b.Prefetch(t.Context(), []string{"in"}); err != nil || again.Files != 0 || again.Left != 1 {
		t.Errorf("again: %+v, %v", again, err)
	}
}
