package fsutil

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// TestLockThatAStartingProcessHas: it has a copy of the descriptor, after the lock was released. Such a lock is waited
// for, and one that stays is Busy.
func TestLockThatAStartingProcessHas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(first.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = first.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !core.IsKind(err, core.Busy) {
		t.Errorf("the copy has it no more: %v", err)
	}
	time.AfterFunc(20*time.Millisecond, func() { unix.Close(fd) })
	second, err := TryLockFor(path, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Unlock()
	begun := time.Now()
	if _, err := TryLockFor(path, 30*time.Millisecond); !core.IsKind(err, core.Busy) || time.Since(begun) < 30*time.Millisecond {
		t.Errorf("one that stays, after %s: %v", time.Since(begun), err)
	}
}

func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := LockFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !core.IsKind(err, core.Busy) {
		t.Errorf("locked twice: %v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	mine := errors.New("mine")
	cancel(mine)
	if _, err := LockFile(ended, path); !errors.Is(err, mine) {
		t.Errorf("waited with a context that has ended: %v", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := LockFile(t.Context(), path)
		if err == nil {
			err = l.Unlock()
		}
		got <- err
	}()
	awaitWaiter(t, path)                    // a lock on the next file of that name is no fault
	if err := os.Remove(path); err != nil { // the waiter must not get a lock on this one
		t.Fatal(err)
	}
	second, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-got:
		t.Fatalf("a lock without a name was given: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := second.Unlock(); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	a, err := TryLockShared(path)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Unlock()
	if _, err := TryLock(path); !core.IsKind(err, core.Busy) {
		t.Errorf("locked beside one who shares: %v", err)
	}
	if b, err := TryLockShared(path); err != nil {
		t.Error(err)
	} else if err := b.Unlock(); err != nil {
		t.Error(err)
	}
}

// awaitWaiter waits until a process asks without success for a file's exclusive lock (proc_locks(5)).
func awaitWaiter(t *testing.T, path string) {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for {
		locks, err := os.ReadFile("/proc/locks")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(locks)) {
			f := strings.Fields(line)
			if len(f) > 6 && f[1] == "->" && f[4] == "WRITE" && f[6] == want {
				return
			}
		}
		select {
		case <-t.Context().Done():
			t.Fatal("nobody waits for the lock")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestFileSystem(t *testing.T) {
	const mounts = `22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /home rw,nosuid - nfs4 server:/home rw,vers=4.2,local_lock=none
24 22 0:22 / /scratch rw - nfs server:/s rw,vers=3,nolock,local_lock=all
25 22 0:23 / /lustre rw - lustre mds:/l rw,flock,lazystatfs
26 22 0:24 / /lustre2 rw - lustre mds:/l rw,localflock
27 22 0:25 / /b rw - beegfs beegfs_nodev rw
28 22 0:26 / /x rw - fuse.sshfs u@h:/ rw
malformed - line
`
	for id, want := range map[string]struct {
		local bool
		locks Reach
	}{"22": {true, ReachAll}, "23": {false, ReachAll}, "24": {false, ReachHost}, "25": {false, ReachAll}, "26": {false, ReachHost}, "27": {false, ReachUnknown}, "28": {false, ReachUnknown}, "99": {false, ReachUnknown}} {
		fs := mounted(id, []byte(mounts))
		if fs.Local() != want.local || fs.Locks() != want.locks {
			t.Errorf("mount %s: %+v: local %v, locks %v", id, fs, fs.Local(), fs.Locks())
		}
	}
	if fs, err := FileSystemOf("/proc"); err != nil || fs.Type != "proc" || fs.Local() {
		t.Errorf("/proc: %+v, %v", fs, err)
	}
	if _, err := FileSystemOf("/nowhere"); err == nil {
		t.Error("a file system of nothing")
	}
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Backoff{First: time.Second, Longest: 5 * time.Second}
		for _, most := range []time.Duration{1, 2, 4, 5, 5} {
			begun := time.Now()
			if err := b.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > most*time.Second || took < most*time.Second*4/5 {
				t.Errorf("waited %s instead of %d s", took, most)
			}
		}
		if b.Reset(); b.Waited() {
			t.Error("it has waited after a reset")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
	})
	exact := Backoff{First: time.Second, Longest: 2 * time.Second, Exact: true}
	for i, want := range []time.Duration{1, 2, 2, 4, 7, 7} {
		switch i {
		case 3:
			exact.Longest = 7 * time.Second
		case 5:
			exact.Reset()
			exact.First = 7 * time.Second
		}
		if got := exact.Next(); got != want*time.Second || !exact.Waited() {
			t.Errorf("pause %d is %s instead of %d s", i, got, want)
		}
	}
}

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "name")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		commits bool
		then    string
	}{{false, "old"}, {true, "new"}} {
		f, err := Create(name, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte("new")); err != nil {
			t.Fatal(err)
		}
		if c.commits {
			if err := f.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		f.Discard()
		raw, err := os.ReadFile(name)
		if err != nil || string(raw) != c.then {
			t.Errorf("it has %q, %v, in place of %q", raw, err, c.then)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%d files in place of one: %v", len(entries), err)
		}
	}
}

func TestWriteFileReplacesALink(t *testing.T) {
	dir := t.TempDir()
	other, name := filepath.Join(dir, "other"), filepath.Join(dir, "name")
	if err := errors.Join(os.WriteFile(other, []byte("other"), 0o600), os.Symlink(other, name)); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(name, []byte("new"), 0o640); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(other); string(kept) != "other" || err != nil {
		t.Errorf("%q, %v", kept, err)
	}
	if got, err := ReadFile(dir, "name", 10); string(got) != "new" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTwoRemoveATree at once, as a controller and `bee rm` may.
func TestTwoRemoveATree(t *testing.T) {
	for range 20 {
		top := filepath.Join(t.TempDir(), "top")
		for i := range 20 {
			must(t, os.MkdirAll(filepath.Join(top, strconv.Itoa(i), "a", "b"), 0o700))
		}
		var removers sync.WaitGroup
		for range 3 {
			removers.Go(func() {
				if err := RemoveAll(top); err != nil {
					t.Error(err)
				}
			})
		}
		removers.Wait()
	}
}
