package mount

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case Command:
			os.Exit(Main(os.Args[2:]))
		case burst.Command:
			os.Exit(burst.Main(os.Args[2:], nil))
		case nodeArg:
			os.Exit(standInNode(os.Args[2]))
		}
	}
	os.Exit(m.Run())
}

// clientOf finds the process of the client with a record.
func clientOf(t *testing.T, record string) int {
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		raw, err := os.ReadFile(name)
		if words := bytes.Split(raw, []byte{0}); err == nil && len(words) > 2 && string(words[1]) == Command && string(words[2]) == record {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the client has no process")
	return 0
}

// TestTwoHosts mounts a volume twice, as on two hosts: each sees at once what the other one has done, appends
// lose nothing, and locks keep the other one out until their client is killed.
func TestTwoHosts(t *testing.T) {
	testkit.RequireFUSE(t)
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := ofRun(t)
	c.Run, c.Shared, c.Everyone = "", true, false
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	ended := serveIO(t, c)
	clean := func(dir string) {
		if at, err := At(dir); err == nil && at != "" {
			unix.Unmount(dir, unix.MNT_DETACH)
		}
	}
	t.Cleanup(func() { clean(c.Mount) })
	if _, err := c.Start(t.Context(), binary, Command, burst.Inherited{}); err != nil {
		t.Fatal(err)
	}
	base := filepath.Dir(c.Mount)
	far, err := BeginAfar(t.Context(), AfarOptions{
		ID: c.ID, Remote: c.Remote, Record: filepath.Join(base, "clients", "1"), Dir: filepath.Join(base, "mounts", "1"), Binary: binary,
		Dial: func(ctx context.Context) (io.ReadWriteCloser, error) { return c.DialConn(ctx) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { clean(far.Dir()) })
	here, there := filepath.Join(c.Mount, "f"), filepath.Join(far.Dir(), "f")
	for i, names := range [][2]string{{here, there}, {there, here}, {here, there}} { // neither has old content
		text := strings.Repeat(strconv.Itoa(i), 10-i)
		if err := os.WriteFile(names[0], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(names[1]); err != nil || string(got) != text {
			t.Errorf("the other host reads %q, %v", got, err)
		}
	}
	if err := os.Rename(there, there+"2"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(here); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
	appends(t, here, there)
	lockBoth(t, here, there, func() {
		if err := unix.Kill(clientOf(t, c.Dir), unix.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	if err := Unmount(t.Context(), c.Mount); err != nil {
		t.Error(err)
	}
	peer, err := c.Dial(t.Context()) // the I/O process stays
	if err != nil {
		t.Fatal(err)
	}
	if err := far.End(t.Context()); err != nil {
		t.Error(err)
	}
	if s, err := rpc.Call(t.Context(), peer, calls.StatusCall, rpc.None{}); err != nil || s.Clients != 0 {
		t.Errorf("after the end, %d clients are expected back, %v", s.Clients, err)
	}
	peer.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(c.Remote, "f2")); err != nil || string(got) != "22222222" {
		t.Errorf("the remote has %q, %v", got, err)
	}
}

// appends has both hosts append to a file at once.
func appends(t *testing.T, here, there string) {
	const lines = 50
	var all sync.WaitGroup
	for i, name := range []string{here, there} {
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer f.Close()
			for line := range lines {
				if _, err := fmt.Fprintf(f, "%d:%d\n", i, line); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(there)
	next := [2]int{}
	for line := range strings.Lines(string(got)) {
		var i, n int
		if _, serr := fmt.Sscanf(line, "%d:%d\n", &i, &n); serr != nil || i > 1 || next[i] != n {
			t.Fatalf("line %q, %v; next is %v", line, serr, next)
		}
		next[i]++
	}
	if err != nil || next != [2]int{lines, lines} {
		t.Errorf("%v lines, %v", next, err)
	}
}

// lockBoth locks a file on one host, and on the other one once the client of the first is killed.
func lockBoth(t *testing.T, here, there string, kill func()) {
	var files [2]*os.File
	for i, name := range []string{here, there} {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files[i] = f
	}
	set := func(f *os.File, kind int16) error {
		return unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: kind, Len: 10})
	}
	if err := errors.Join(set(files[0], unix.F_WRLCK), unix.Flock(int(files[0].Fd()), unix.LOCK_EX|unix.LOCK_NB)); err != nil {
		t.Fatal(err)
	}
	if err := set(files[1], unix.F_RDLCK); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the other host's lock of fcntl: %v", err)
	}
	if err := unix.Flock(int(files[1].Fd()), unix.LOCK_SH|unix.LOCK_NB); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("the other host's lock of flock: %v", err)
	}
	if err := errors.Join(set(files[0], unix.F_UNLCK), set(files[1], unix.F_WRLCK), set(files[1], unix.F_UNLCK), set(files[0], unix.F_WRLCK)); err != nil {
		t.Errorf("one after the other: %v", err)
	}
	kill()
	for _, lock := range []func() error{
		func() error { return set(files[1], unix.F_WRLCK) },
		func() error { return unix.Flock(int(files[1].Fd()), unix.LOCK_EX|unix.LOCK_NB) },
	} {
		testkit.Eventually(t, 10*time.Second, lock)
	}
}
