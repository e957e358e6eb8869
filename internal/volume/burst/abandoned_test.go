package burst

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// cutRemote is a directory that can be away.
type cutRemote struct {
	remote.Remote
	publish, leave *atomic.Bool // whether these do not answer
}

func (c cutRemote) Publish(partial, name string, ours, expect remote.Version) (remote.Version, error) {
	if c.publish.Load() {
		return remote.Version{}, remote.Away(errors.New("the line is cut"))
	}
	return c.Remote.Publish(partial, name, ours, expect)
}

func (c cutRemote) RemoveRecord() error {
	if c.leave.Load() {
		return remote.Away(errors.New("the line is cut"))
	}
	return c.Remote.RemoveRecord()
}

// TestNobodyComes: the I/O process of a volume that nobody manages ends by itself while its remote is away for good.
// What is undrained stays, the record has the reason, and the next process drains and removes all of it.
func TestNobodyComes(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"while it drains", "as it leaves the remote"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			c := newShared(t)
			dir := c.Remote
			c.Alone, c.Shared = true, false
			c.Remote, c.At = "archive:"+dir, remote.Place{Host: "archive", Dir: dir}
			if err := c.Save(); err != nil {
				t.Fatal(err)
			}
			var publish, leave atomic.Bool
			cut := &publish
			if when != "while it drains" {
				cut = &leave
			}
			cut.Store(true)
			far := func(p remote.Place, o remote.Options) (remote.Remote, error) {
				r, err := remote.OpenTree(p.Dir, o.Volume, nil)
				return cutRemote{r, &publish, &leave}, err
			}
			serve := func(most time.Duration, ready func()) error {
				now, err := Load(c.Dir)
				if err != nil {
					return err
				}
				now.abandon = most
				return Serve(context.Background(), now, far, slog.New(slog.DiscardHandler), ready)
			}
			ready, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- serve(300*time.Millisecond, func() { close(ready) }) }()
			select {
			case <-ready:
			case err := <-ended:
				t.Fatal(err)
			}
			p, _ := connect(t, c, calls.Hello{Client: 1})
			ino := p.create("f")
			p.must(calls.Request{Op: calls.Write, Ino: ino, Data: []byte("text")})
			p.must(calls.Request{Op: calls.Flush, Ino: ino})
			p.must(calls.Request{Op: calls.Release, Ino: ino})
			p.send(calls.Request{Op: calls.Bye})
			p.peer.Close()
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			s, running, err := func() (calls.Status, bool, error) {
				now, err := Load(c.Dir)
				if err != nil {
					return calls.Status{}, false, err
				}
				return now.Look(t.Context())
			}()
			if err != nil || running || s.Ended == "" || s.Drained != (cut == &leave) {
				t.Errorf("after its end: %+v, running: %v, %v", s, running, err)
			}
			cut.Store(false)
			if err := serve(0, func() {}); err != nil {
				t.Error(err)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "f")); err != nil || string(got) != "text" {
				t.Errorf("the remote has %q, %v", got, err)
			}
			for _, left := range []string{c.Dir, c.Place, filepath.Join(dir, ".bee")} {
				if _, err := os.Lstat(left); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s is left: %v", left, err)
				}
			}
		})
	}
}

// TestAbsence: whoever is there, and each step of the drain, starts the time again. A volume that is managed has none.
func TestAbsence(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		a     *absence
		there bool
		steps uint64
		over  bool
	}{
		"a client is there":       {&absence{most: time.Minute, since: long}, true, 0, false},
		"the drain made progress": {&absence{most: time.Minute, since: long}, false, 1, false},
		"nobody":                  {&absence{most: time.Minute, since: long}, false, 0, true},
		"not long":                {&absence{most: 2 * time.Hour, since: long}, false, 0, false},
		"managed":                 {newAbsence(Config{}), false, 0, false},
	} {
		if got := c.a.over(c.there, c.steps); got != c.over {
			t.Errorf("%s: %v", name, got)
		}
	}
	var p progress
	for i, c := range []struct {
		try   bool
		bytes int
		steps uint64
	}{{true, 5, 1}, {true, 5, 1}, {false, 1, 2}, {true, 6, 2}, {false, 1, 3}} {
		if c.try {
			p.try(1)
		}
		if p.sent(c.bytes); p.count() != c.steps {
			t.Errorf("%d: %d steps, expected %d", i, p.count(), c.steps)
		}
	}
}
