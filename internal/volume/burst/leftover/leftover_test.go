package leftover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case burst.Command:
			os.Exit(burst.Main(os.Args[2:], nil))
		case mount.Command:
			os.Exit(mount.Main(os.Args[2:]))
		case afarCommand:
			os.Exit(afarMain(os.Args[2:]))
		}
	}
	os.Exit(m.Run())
}

// afarCommand is the node of a client on another host, with the volume's directory and those of BeginAfar.
const afarCommand = "test-afar"

// afarMain is that until it is killed, or this test ends.
func afarMain(args []string) int {
	c, err := burst.Load(args[0])
	if err == nil {
		_, err = mount.BeginAfar(context.Background(), mount.AfarOptions{
			ID: c.ID, Remote: c.Remote, Owner: owner, Record: args[1], Dir: args[2], Binary: "/proc/self/exe",
			Dial: func(ctx context.Context) (io.ReadWriteCloser, error) { return c.DialConn(ctx) },
		})
	}
	fmt.Println(err)
	io.Copy(io.Discard, os.Stdin)
	return 1
}

var owner = core.Owner{User: "ann", Run: "run", Attempt: 2}

// left is what an attempt has left on a host.
type left struct {
	*testing.T
	site Site
	c    burst.Config
}

// newLeft makes a volume of an attempt, with a directory of a file that is not drained.
func newLeft(t *testing.T, undrained bool) left {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := left{t, Site{Dir: filepath.Join(base, ".burst"), Binary: binary}, burst.Config{
		ID: burst.NewID(), Remote: filepath.Join(base, "far"), Room: mount.LeastRoom, Alone: true,
		Of: owner.Run, Installation: owner.User, Attempt: owner.Attempt,
	}}
	l.c.Dir = filepath.Join(l.site.Dir, "gpu1", volumesDir, l.c.ID)
	l.c.Place = filepath.Join(l.c.Dir, burst.BufferName)
	l.c.At = remote.Place{Dir: l.c.Remote}
	l.must(os.MkdirAll(filepath.Join(l.c.Remote, ".bee"), 0o755), fsutil.OwnDir(l.c.Dir), fsutil.OwnDir(l.c.Place), l.c.Save())
	l.must(fsutil.WriteFile(filepath.Join(l.c.Remote, remote.RecordName), fmt.Appendf(nil, `{"id":%q}`, l.c.ID), 0o644))
	if undrained {
		mode, at := uint32(0o755), time.Now().UnixNano()
		l.append(meta.Change{Do: meta.DoCreate, Ino: meta.Root + 1, Dir: meta.Root, Name: "d", Kind: remote.Dir, Mode: &mode, Mtime: &at, Time: at})
	}
	t.Cleanup(func() { testkit.Kill(l.process()) })
	return l
}

func (l left) must(errs ...error) {
	l.Helper()
	if err := errors.Join(errs...); err != nil {
		l.Fatal(err)
	}
}

// append writes changes to the buffer.
func (l left) append(changes ...meta.Change) {
	l.Helper()
	log, err := buffer.Open(l.c.Place, buffer.Options{})
	l.must(err)
	for _, c := range changes {
		raw, err := c.Encode()
		l.must(err, log.Append(&buffer.Record{Kind: buffer.Change, Payload: raw}))
	}
	l.must(log.Close())
}

// process is the I/O process; 0: there is none.
func (l left) process() int { return processOf(burst.Command, l.c.Dir) }

// processOf is the process of a command with a record; 0: there is none.
func processOf(command, dir string) int {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if words := bytes.Split(raw, []byte{0}); err == nil && len(words) > 2 && string(words[1]) == command && string(words[2]) == dir {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			return pid
		}
	}
	return 0
}

// found is what a look finds; it changes nothing.
func (l left) found() driver.BurstBuffer {
	l.Helper()
	list, err := l.site.Left(l.Context(), owner.User)
	l.must(err)
	if len(list) != 1 || list[0].Dir != l.c.Dir || list[0].Host != "gpu1" {
		l.Fatalf("found %+v", list)
	}
	return list[0]
}

// end ends what was found.
func (l left) end(reported bool) driver.BurstBuffer {
	l.Helper()
	b, err := l.site.End(l.Context(), l.found(), reported)
	l.must(err)
	return b
}

// gone fails the test where something is left.
func (l left) gone() {
	l.Helper()
	for _, name := range []string{l.c.Dir, l.c.Place, filepath.Join(l.c.Remote, ".bee")} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			l.Errorf("%s is left: %v", name, err)
		}
	}
	if list, err := l.site.Left(l.Context(), owner.User); err != nil || len(list) > 0 {
		l.Errorf("found %+v, %v", list, err)
	}
}

// TestADrainedBufferIsRemoved: its process was killed before it could do that.
func TestADrainedBufferIsRemoved(t *testing.T) {
	t.Parallel()
	l := newLeft(t, false)
	if b := l.found(); b.State != driver.BufferDrained || b.Owner != owner || b.Remote != l.c.Remote {
		t.Errorf("found %+v", b)
	}
	if b := l.end(false); b.State != driver.BufferRemoved {
		t.Errorf("ended %+v", b)
	}
	l.gone()
}

// TestAnUndrainedBufferIsDrainedFirst: nothing of it is removed before. Its process is killed in between.
func TestAnUndrainedBufferIsDrainedFirst(t *testing.T) {
	t.Parallel()
	l := newLeft(t, true)
	l.must(os.Rename(l.c.Remote, l.c.Remote+".away"), os.Mkdir(l.c.Remote, 0o755)) // its file system is not mounted
	if b := l.found(); b.State != driver.BufferUndrained || b.Changes != 1 {
		t.Errorf("found %+v", b)
	}
	if _, err := l.site.End(t.Context(), l.found(), true); err == nil {
		t.Error("a remote that is away is no error")
	}
	if b := l.found(); b.State != driver.BufferUndrained || b.Changes != 1 {
		t.Errorf("then %+v", b)
	}
	l.must(os.Remove(l.c.Remote), os.Rename(l.c.Remote+".away", l.c.Remote))
	if _, err := l.c.Connect(t.Context(), l.site.Binary); err != nil {
		t.Fatal(err)
	}
	testkit.Kill(l.process())
	if b := l.end(false); b.State != driver.BufferRemoved {
		t.Errorf("ended %+v", b)
	}
	if info, err := os.Stat(filepath.Join(l.c.Remote, "d")); err != nil || !info.IsDir() {
		t.Errorf("the remote: %v", err)
	}
	l.gone()
}

// TestWhatIsNotRemoved: a buffer that is in use, one of another attempt than was found, what was superseded, what is
// damaged, and what is no record of the site.
func TestWhatIsNotRemoved(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		make  func(l left)
		state driver.BufferState
	}{
		"in use": {func(l left) {
			peer, err := l.c.Connect(l.Context(), l.site.Binary)
			l.must(err)
			l.Cleanup(func() { peer.Close() })
			_, err = rpc.Call(l.Context(), peer, calls.Publish, rpc.None{})
			l.must(err)
		}, driver.BufferDraining},
		"superseded": {func(l left) {
			l.c.Superseded = true
			l.must(l.c.Save())
		}, driver.BufferSuperseded},
		"damaged":          {func(l left) { l.must(os.WriteFile(filepath.Join(l.c.Place, "segment-x"), nil, 0o600)) }, driver.BufferUnknown},
		"a damaged record": {func(l left) { l.must(os.WriteFile(filepath.Join(l.c.Dir, "volume.json"), []byte("{"), 0o600)) }, driver.BufferUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeft(t, name != "in use")
			c.make(l)
			b, err := l.site.End(t.Context(), driver.BurstBuffer{Owner: owner, Dir: l.c.Dir}, true)
			if b.State != c.state || err != nil {
				t.Errorf("ended %+v, %v", b, err)
			}
			if _, err := os.Stat(l.c.Place); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("of another attempt", func(t *testing.T) {
		l := newLeft(t, false)
		b := l.found()
		l.c.Attempt++
		l.must(l.c.Save())
		if _, err := l.site.End(t.Context(), b, true); !core.IsKind(err, core.Busy) {
			t.Errorf("ended: %v", err)
		}
		if list, err := l.site.Left(t.Context(), "bob"); err != nil || len(list) > 0 {
			t.Errorf("of another installation: %+v, %v", list, err)
		}
		for _, dir := range []string{filepath.Join(l.site.Dir, "gpu1"), l.site.Dir + "/../x/volumes/y", filepath.Join(l.c.Dir, "buffer"), "/etc"} {
			if _, err := l.site.End(t.Context(), driver.BurstBuffer{Owner: owner, Dir: dir}, true); !core.IsKind(err, core.Invalid) {
				t.Errorf("%s: %v", dir, err)
			}
		}
	})
}

// TestAnAttemptThatBeginsAfterTheLook has the buffer: nothing of it is ended.
func TestAnAttemptThatBeginsAfterTheLook(t *testing.T) {
	t.Parallel()
	l := newLeft(t, true)
	b := l.found()
	l.c.Attempt++
	l.must(l.c.Save())
	for name, end := range map[string]func() error{
		"drained first": func() error { return l.site.finish(t.Context(), &b, true) },
		"removed":       func() error { return l.site.remove(t.Context(), &b) },
	} {
		if err := end(); !core.IsKind(err, core.Busy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.Owner = l.c.Owner()
	if err := l.site.remove(t.Context(), &b); !core.IsKind(err, core.Busy) { // an attempt has written to it meanwhile
		t.Errorf("undrained ones: %v", err)
	}
	if b := l.found(); b.State != driver.BufferUndrained || b.Owner != l.c.Owner() || l.process() != 0 {
		t.Errorf("then %+v", b)
	}
}

// TestAProcessThatHangs where its remote does: a sweep continues without it.
func TestAProcessThatHangs(t *testing.T) {
	t.Parallel()
	l := newLeft(t, true)
	pid := filepath.Join(t.TempDir(), "pid")
	l.site.Binary, l.site.wait = filepath.Join(t.TempDir(), "hangs"), 300*time.Millisecond
	l.must(core.WriteProgram(l.site.Binary, []byte("#!/bin/sh\necho $$ >"+pid+"\nexec sleep 30\n"), 0o700))
	begun := time.Now()
	if b := l.end(true); b.State != driver.BufferDraining || b.Detail == "" || time.Since(begun) > 15*time.Second {
		t.Errorf("after %s ended %+v", time.Since(begun), b)
	}
	raw, err := os.ReadFile(pid)
	l.must(err)
	hangs, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	l.must(err)
	testkit.Kill(hangs)
	if b := l.found(); b.State != driver.BufferUndrained || b.Changes != 1 {
		t.Errorf("then %+v", b)
	}
}

// TestCredentialsThatAreGone: no process is started that would wait for them.
func TestCredentialsThatAreGone(t *testing.T) {
	t.Parallel()
	for _, undrained := range []bool{false, true} {
		l := newLeft(t, undrained)
		l.c.Sent = true
		l.must(l.c.Save())
		testkit.Eventually(t, time.Minute, func() error { // a child that another test forks has its lock for a moment
			if b := l.end(true); b.State == driver.BufferRemoved || b.Detail == "" || l.process() != 0 {
				return fmt.Errorf("ended %+v", b)
			}
			return nil
		})
		if _, err := os.Stat(l.c.Place); err != nil {
			t.Error(err)
		}
	}
}

// TestALockThatOthersHaveForAMoment, as a sweep has it which looks: it does not mean that the remote is another
// volume's.
func TestALockThatOthersHaveForAMoment(t *testing.T) {
	t.Parallel()
	l := newLeft(t, false)
	dir := t.TempDir()
	busy, err := json.Marshal(rpc.Fail(&core.Error{Kind: core.Busy, Op: "lock", Err: errors.New("another process has it locked")}))
	l.must(err, os.WriteFile(filepath.Join(dir, "busy"), busy, 0o600))
	program := filepath.Join(dir, "io")
	script := fmt.Sprintf("#!/bin/sh\ncd %s\nfor i in 1 2; do mkdir $i 2>/dev/null && { cat busy >&3; exit 1; }; done\nexec %s \"$@\"\n", dir, l.site.Binary)
	l.must(core.WriteProgram(program, []byte(script), 0o700))
	peer, err := l.c.Connect(t.Context(), program)
	l.must(err)
	peer.Close()
	l.must(core.WriteProgram(program, []byte("#!/bin/sh\ncat "+dir+"/busy >&3\n"), 0o700))
	other := newLeft(t, false)
	if _, err := other.c.Connect(t.Context(), program); !core.IsKind(err, core.Busy) {
		t.Errorf("a remote of another volume: %v", err)
	}
}

// TestARemovalThatWasBrokenOff is finished: the record is deleted first, and then its buffer.
func TestARemovalThatWasBrokenOff(t *testing.T) {
	t.Parallel()
	for _, undrained := range []bool{false, true} {
		l := newLeft(t, undrained)
		l.must(os.Rename(filepath.Join(l.c.Dir, "volume.json"), filepath.Join(l.c.Place, "volume.json")))
		if b := l.found(); b.Owner != owner {
			t.Errorf("found %+v", b)
		}
		if b := l.end(false); b.State != driver.BufferRemoved {
			t.Errorf("ended %+v", b)
		}
		l.gone()
	}
	l := newLeft(t, false)
	l.must(fsutil.RemoveAll(l.c.Place), os.Remove(filepath.Join(l.c.Remote, remote.RecordName)), os.Remove(filepath.Join(l.c.Remote, ".bee")))
	if b := l.end(false); b.State != driver.BufferRemoved {
		t.Errorf("without a buffer: %+v", b)
	}
	l.gone()
}

// TestTheRecordOfNobodysClient is kept: no run shows whether it is over.
func TestTheRecordOfNobodysClient(t *testing.T) {
	t.Parallel()
	l := newLeft(t, false)
	record := filepath.Join(l.site.Dir, "gpu2", clientsDir, "run-1")
	l.must(fsutil.OwnDir(record), burst.Config{ID: l.c.ID, Afar: true, Dir: record}.Save())
	if b, err := l.site.End(t.Context(), driver.BurstBuffer{Dir: record}, true); err != nil || b.State != driver.BufferUnknown {
		t.Errorf("ended %+v, %v", b, err)
	}
	if _, err := burst.Load(record); err != nil {
		t.Error(err)
	}
}

// TestTheRecordOfAKilledClient of another host is removed with its mount, and one that is alive is not.
func TestTheRecordOfAKilledClient(t *testing.T) {
	testkit.RequireFUSE(t)
	t.Parallel()
	l := newLeft(t, false)
	l.c.Shared = true
	l.must(l.c.Save())
	peer, err := l.c.Connect(t.Context(), l.site.Binary)
	l.must(err)
	defer peer.Close()
	record, near := filepath.Join(l.site.Dir, "gpu2", clientsDir, "run-1"), filepath.Join(l.site.Dir, "gpu2", "mounts", "run-1")
	node := exec.Command(l.site.Binary, afarCommand, l.c.Dir, record, near)
	in, err := node.StdinPipe()
	l.must(err)
	defer in.Close()
	out, err := node.StdoutPipe()
	l.must(err, node.Start())
	word, err := bufio.NewReader(out).ReadString('\n')
	if l.must(err); word != "<nil>\n" {
		t.Fatal(word)
	}
	b := driver.BurstBuffer{Owner: owner, Dir: record}
	kept := func(what string) {
		t.Helper()
		if got, err := l.site.End(t.Context(), b, true); err != nil || got.State != driver.BufferDraining {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	kept("a living one")
	testkit.Kill(processOf(mount.Command, record))
	kept("one whose node lives")
	node.Process.Kill()
	node.Wait() //nolint:errcheck // it was killed
	testkit.Eventually(t, 20*time.Second, func() error {
		got, err := l.site.End(context.WithoutCancel(t.Context()), b, false)
		if err == nil && got.State != driver.BufferRemoved {
			err = fmt.Errorf("%+v", got)
		}
		return err
	})
	for _, name := range []string{record, near} {
		if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left: %v", name, err)
		}
	}
}
