package drivertest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit"
)

// hostDir makes a directory of the host that no container has, and a check that nothing
// in it has changed.
func hostDir(t *testing.T) (dir string, unchanged func(after string)) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "bee-outside-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	names := []string{"passwd", "hosts", "bee"}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("safe\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, func(after string) {
		t.Helper()
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != len(names) {
			t.Fatalf("%s: outside there is %v now, %v", after, left, err)
		}
		for _, name := range names {
			if raw, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(raw) != "safe\n" {
				t.Errorf("%s: %s outside is %q now, %v", after, name, raw, err)
			}
		}
	}
}

// linkSwaps is how often a job has swapped things at least when its container is stopped,
// and obstacles how long a command may wait for a directory that is something else.
const (
	linkSwaps = 20
	obstacles = 5 * time.Minute
)

// jobLinks has a job swap a directory of its volume for links to a directory of the host
// and for a FIFO, again and again, while commands begin in that directory, and while the
// container is stopped and removed. Commands may fail; nothing outside changes.
func (s RuntimeSuite) jobLinks(t *testing.T) {
	outside, unchanged := hostDir(t)
	t.Cleanup(func() { unchanged("after the removal of the container's directories") }) // after that of spec
	up := strings.Repeat("../", 20) + strings.TrimPrefix(outside, "/")
	c := s.spec(t)
	c.DiskScratch = true
	box := s.start(t, c)
	const swap = `cd /work; n=0
while :; do
	rm -rf d; mkdir -p d/new; rm -rf d
	ln -s "$OUT" d; rm -f d; ln -s "$UP" d; rm -f d
	ln -s d d; rm -f d; mkfifo d; rm -f d
	n=$((n+1)); echo $n > rounds.new; mv rounds.new rounds
done`
	p, err := box.Exec(t.Context(), driver.Command{Args: []string{"sh", "-c", swap}, Env: []string{"PATH=/bin", "OUT=" + outside, "UP=" + up}})
	if err != nil {
		t.Fatal(err)
	}
	rounds := func() (n int) {
		raw, err := os.ReadFile(filepath.Join(c.Mounts[0].Source, "rounds"))
		if err == nil {
			fmt.Sscan(string(raw), &n) //nolint:errcheck // 0 then
		}
		return n
	}
	ctx, cancel := context.WithTimeout(t.Context(), obstacles)
	defer cancel()
	testkit.Eventually(t, obstacles, func() error {
		for _, dir := range []string{"/work/d/new", "/work/d"} {
			cmd := shell("echo bad > passwd; echo bad > new; rm -f hosts")
			cmd.Dir = dir
			if _, err := tryRun(ctx, box, "", cmd); ctx.Err() != nil {
				t.Fatalf("a command waits for %s: %v", dir, err)
			}
		}
		if n := rounds(); n < linkSwaps {
			return fmt.Errorf("the job has made %d rounds", n)
		}
		return nil
	})
	// Outside of mounts, too: what a container wrote is removed on the host.
	run(t, box, "", shell(fmt.Sprintf("mkdir -p /tmp/own && ln -s %s /tmp/own/out; ln -s %s /tmp/up; ln -s / /tmp/own/root; ln -s %s /bee-out", outside, up, outside)))
	if err := box.Stop(t.Context(), 2*time.Second); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(ctx); err == nil && exit.Signal == 0 && exit.Code == 0 || err != nil && !core.IsKind(err, core.Lost) {
		t.Errorf("the job that makes links: %+v, %v", exit, err)
	}
	unchanged("after the stop")
	s.mountOverLinks(t, outside, up, unchanged)
}

// mountOverLinks has mounts whose places a job before has made links to the host. They may
// be refused.
func (s RuntimeSuite) mountOverLinks(t *testing.T, outside, up string, unchanged func(string)) {
	for _, target := range []string{outside, up} {
		for _, place := range []string{"d/fixed", "d"} {
			c := s.spec(t)
			if err := os.Symlink(target, filepath.Join(c.Mounts[0].Source, "d")); err != nil {
				t.Fatal(err)
			}
			c.Mounts = append(c.Mounts, driver.Mount{Source: c.Mounts[1].Source, Target: "/work/" + place, ReadOnly: true})
			what := fmt.Sprintf("a mount at %s, with d -> %s", place, target)
			ctx, cancel := context.WithTimeout(t.Context(), obstacles)
			box, err := s.New(t).Start(ctx, c)
			cancel()
			if err != nil {
				t.Logf("%s: refused: %v", what, err)
			} else {
				run(t, box, "", shell("echo bad > /work/d/passwd; mkdir -p /work/d/new; rm -f /work/d/hosts"))
				if err := box.Stop(t.Context(), 2*time.Second); err != nil {
					t.Error(err)
				}
			}
			unchanged(what)
		}
	}
}
