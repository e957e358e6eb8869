package burst

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// The losses that other caches are known for have a test each:
//
//	a crashed node's data that never reach the store        TestCrashedNode
//	clean-up that mistakes undrained data for clean         TestCleanUpKeepsUndrained, mount.TestCleanKeepsUndrained
//	an upload that overtakes a delete                       TestUploadAndDelete, TestLateMoves
//	a recovered file that reads as empty                    TestFetchedFileIsWhole
//	a renamed directory uploaded after its deletion         TestRenamedDirectoryIsDeleted
//	unmounting before the delay is over                     TestUnmountBeforeTheDelay
//	a cache larger than its disk                            TestRoom, mount.TestRoomOfADisk
//	EIO for minutes after the store is back                 TestAwayCostsWaiting, TestBucketAway, TestHostAway
//	a block that waits for hours while others pass          TestLargeWriteWaitsInItsTurn, TestHead

// disk is what a disk has of the journal: what was flushed.
type disk struct {
	mu   sync.Mutex
	size map[string]int64 // by segment
}

func (d *disk) flush(f *os.File) error {
	info, err := f.Stat()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.size[filepath.Base(f.Name())] = info.Size()
	}
	return err
}

// has returns how many bytes the disk has of the journal.
func (d *disk) has() (n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, size := range d.size {
		n += size
	}
	return n
}

// startOnDisk starts a volume of which the disk has what was flushed, and nothing else.
func startOnDisk(t *testing.T, o Options) (*bench, *disk) {
	d := &disk{size: map[string]int64{}}
	o.flush = d.flush
	return start(t, o), d
}

// die ends the host: what was not flushed is lost. Another process opens what the disk has.
func (d *disk) die(b *bench) {
	b.Helper()
	b.cancel()
	b.tree.Stop()
	b.all.Wait()
	segments, err := filepath.Glob(filepath.Join(b.o.Place, "segment-*"))
	b.must(err)
	for _, name := range segments {
		b.must(os.Truncate(name, d.size[filepath.Base(name)]))
	}
	b.journal.log.Close()
	b.tree.Close()
	b.open(b.o)
}

// TestCrashedNode: what was closed on a host that dies reaches the remote once its disk is back, with no
// program that asks for it. What was not is lost at most of the last second.
func TestCrashedNode(t *testing.T) {
	b, d := startOnDisk(t, Options{})
	b.gate.set(errors.New("the line is cut"))
	b.file("closed", "text")
	open, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "open", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, open.Ino, false)
	b.must(err)
	b.must(b.Write(t.Context(), open.Ino, 0, []byte("synced")))
	b.must(b.Flush(open.Ino)) // fsync, and close
	b.must(b.Write(t.Context(), open.Ino, 6, []byte(" not")))
	d.die(b)
	b.must(b.Adopt(0, nil))
	b.gate.set(nil)
	b.drained()
	if got := tree(t, b.far); got["closed"] != "text" || !strings.HasPrefix(got["open"], "synced") {
		t.Errorf("the remote has %v", got)
	}

	b.gate.set(errors.New("the line is cut")) // else the drain flushes
	b.must(b.Write(t.Context(), open.Ino, 0, []byte("SYNCED")))
	all := b.journal.log.Size()
	testkit.Eventually(t, 20*time.Second, func() error {
		if got := d.has(); got < all {
			return fmt.Errorf("the disk has %d of %d bytes", got, all)
		}
		return nil
	})
	d.die(b)
	if got := b.sees("open"); !strings.HasPrefix(got, "SYNCED") {
		t.Errorf("after more than a second the file has %q", got)
	}
}

// TestNothingOvertakesTheJournal: the remote gets no change that a host which dies then forgets.
func TestNothingOvertakesTheJournal(t *testing.T) {
	b, d := startOnDisk(t, Options{})
	b.file("f", "text")
	b.make(remote.Dir, "d", "")
	b.rename("f", "g")
	b.drained()
	d.die(b)
	if got := b.sees("g"); got != "text" {
		t.Errorf("the file has %q", got)
	}
	b.drained()
	b.has(map[string]string{"d": directory, "g": "text"})
	if got := b.Status().Conflicts; len(got) > 0 {
		t.Errorf("own changes are taken for others': %v", got)
	}
}

// TestCleanUpKeepsUndrained: making room and an index removes nothing that the remote lacks.
func TestCleanUpKeepsUndrained(t *testing.T) {
	b := start(t, Options{segmentSize: 4 << 10})
	b.file("replaced", "drained")
	b.drained()
	b.gate.set(errors.New("the line is cut"))
	large := strings.Repeat("undrained ", 1000)
	b.file("closed", large)
	b.file("replaced", large)
	b.rename("replaced", "renamed")
	open, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "open", Mode: 0o640})
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, open.Ino, false)
	b.must(err)
	b.must(b.Write(t.Context(), open.Ino, 0, []byte(large)))
	for range 2 {
		b.must(b.room.reclaim(1 << 40))
		for _, name := range []string{"closed", "renamed", "open"} {
			if got := b.sees(name); got != large {
				t.Errorf("%s has %d bytes of %d", name, len(got), len(large))
			}
		}
		b.crash()
	}
	b.must(b.Adopt(0, nil))
	b.gate.set(nil)
	b.drained()
	b.has(map[string]string{"closed": large, "renamed": large, "open": large})
}

// slow is a remote whose uploads wait until they may go on.
type slow struct {
	drain.Remote
	begun, proceed chan struct{}
}

func (s *slow) Write(ctx context.Context, name string, ino uint64, c remote.Content) (string, remote.Version, error) {
	s.begun <- struct{}{}
	<-s.proceed
	return s.Remote.Write(ctx, name, ino, c)
}

// TestUploadAndDelete: a file that is removed, or replaced, while it is sent does not come back.
func TestUploadAndDelete(t *testing.T) {
	b := start(t, Options{})
	s := &slow{Remote: b.gate.Remote, begun: make(chan struct{}), proceed: make(chan struct{})}
	b.gate.mu.Lock()
	b.gate.Remote = s
	b.gate.mu.Unlock()
	b.file("removed", "text")
	<-s.begun
	b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "removed"}))
	s.proceed <- struct{}{}
	b.drained()
	b.has(map[string]string{})

	b.file("made again", "old")
	<-s.begun
	b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "made again"}))
	b.file("made again", "new")
	s.proceed <- struct{}{}
	<-s.begun
	s.proceed <- struct{}{}
	b.drained()
	b.has(map[string]string{"made again": "new"})
}

// TestRenamedDirectoryIsDeleted: a directory that was renamed, and then removed, comes back by none of its
// names, whenever the line is cut.
func TestRenamedDirectoryIsDeleted(t *testing.T) {
	const steps = 5
	for cut := range steps {
		b := start(t, Options{})
		dir := uint64(0)
		for step, do := range [steps]func(){
			func() { dir = b.make(remote.Dir, "d", "") },
			func() { b.fileIn(dir, "f", "text") },
			func() { b.rename("d", "e") },
			func() { b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: dir, Name: "f"})) },
			func() {
				b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "e", Flags: calls.Directory}))
			},
		} {
			if step == cut {
				b.drained()
				b.gate.set(errors.New("the line is cut"))
			}
			do()
		}
		b.crash()
		b.gate.set(nil)
		b.drained()
		b.has(map[string]string{})
	}
}

// TestUnmountBeforeTheDelay: what was written, and neither closed nor synced, is drained although its client has
// unmounted. The process ends after that, and not before.
func TestUnmountBeforeTheDelay(t *testing.T) {
	c := newShared(t)
	c.Shared, c.Rate = false, 100_000
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- Serve(context.Background(), c, nil, slog.New(slog.DiscardHandler), func() { close(ready) })
	}()
	<-ready
	p, _ := connect(t, c, calls.Hello{Client: 1})
	text := strings.Repeat("x", 20_000)
	ino := p.create("f")
	p.must(calls.Request{Op: calls.Write, Ino: ino, Data: []byte(text)})
	p.send(calls.Request{Op: calls.Bye})
	p.peer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := tree(t, c.Remote); got["f"] != text {
		t.Errorf("the remote has %d bytes", len(got["f"]))
	}
}
