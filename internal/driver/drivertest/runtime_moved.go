package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// lines is how far the command of Moved counts.
const lines = 300

// A saved guest is halted for longer than its clock may be wrong after that.
const (
	standstill = 10 * time.Second
	clockError = 4 * time.Second
)

// Moved saves a guest while the job's command runs in it, lets it continue, saves
// it again, ends it, and brings it up elsewhere, twice: the command notices
// nothing, and of its output nothing is missing or comes twice.
func (s RuntimeSuite) Moved(t *testing.T) {
	s.image = localImage(t)
	c := s.spec(t)
	box := s.start(t, c)
	saved := func() driver.Snapshot { return box.Guest().Snapshot() }
	ctx, cancel := context.WithTimeout(t.Context(), 2*suiteTimeout)
	defer cancel()
	var out collector
	count := fmt.Sprintf("cd /work; i=0; while [ $i -lt %d ]; do echo $i | tee -a log; i=$((i+1)); sleep 0.05; done; cat /a/deep/fixed/text; exit 7", lines)
	task := out.run(t, func(c driver.Command) (driver.Process, error) {
		c.Args, c.Env = []string{"sh", "-c", count}, []string{"PATH=/bin"}
		return saved().StartTask(ctx, c)
	})
	saves := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		out.await(t, 40+80*round)
		must(saved().Pause(ctx))
		must(saved().Save(ctx, filepath.Join(saves, strconv.Itoa(round), "kept")))
		must(saved().Resume(ctx))
		out.await(t, 60+80*round)
		stood := time.Now()
		must(saved().Pause(ctx))
		last := filepath.Join(saves, strconv.Itoa(round), "last")
		must(saved().Save(ctx, last))
		must(box.Stop(ctx, time.Second))
		if _, err := task.Wait(ctx); !core.IsKind(err, core.Lost) {
			t.Errorf("the command of an ended guest: %v", err)
		}
		c = s.spec(t)
		again, err := s.New(t).VM().Restore(ctx, c, last)
		must(err)
		box = again
		t.Cleanup(func() { again.Stop(context.Background(), time.Second) }) //nolint:errcheck // most have ended
		time.Sleep(time.Until(stood.Add(standstill)))
		must(saved().Resume(ctx))
		task = out.run(t, func(c driver.Command) (driver.Process, error) { return saved().Task(ctx, c) })
		asked := time.Now()
		seconds, err := strconv.ParseInt(strings.TrimSpace(want(t, box, "date +%s")), 10, 64)
		must(err)
		if now := time.Unix(seconds, 0); now.Before(asked.Add(-clockError)) || now.After(time.Now().Add(clockError)) {
			t.Errorf("asked at %v, its clock stands at %v", asked, now)
		}
	}
	exit, err := task.Wait(ctx)
	must(err)
	Same(t, 7, exit.Code)
	var all strings.Builder
	for i := range lines {
		fmt.Fprintln(&all, i)
	}
	into := t.TempDir()
	must(saved().Get(ctx, "/work", []string{"*"}, into))
	raw, err := os.ReadFile(filepath.Join(into, "log"))
	must(err)
	Same(t, all.String(), string(raw))
	out.await(t, lines+1)
	Same(t, all.String()+"fixed\n", out.String())
}

// collector takes the output of a command that is started several times.
type collector struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (c *collector) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.String()
}

func (c *collector) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(b)
}

func (c *collector) run(t *testing.T, start func(driver.Command) (driver.Process, error)) driver.Process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p, err := start(driver.Command{Stdout: w})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer r.Close()
		io.Copy(c, r) // what is missing is noticed
	}()
	return p
}

// await waits for a number of lines.
func (c *collector) await(t *testing.T, count int) {
	t.Helper()
	testkit.Eventually(t, suiteTimeout, func() error {
		if strings.Count(c.String(), "\n") < count {
			return errors.New("too few lines")
		}
		return nil
	})
}
