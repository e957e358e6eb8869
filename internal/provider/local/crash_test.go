package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// actArg makes the test binary a controller that acquires, launches and
// releases for ever, until it is killed: SCRATCH HOSTS.
const actArg = "act"

func act(args []string) int {
	hosts, _ := strconv.Atoi(args[1])
	p, err := New(Settings{Name: "lab", Scratch: args[0], EmulatedHosts: hosts, NodeArgv: drivertest.NodeArgv()})
	for attempt := 1; err == nil; attempt++ {
		err = actOnce(p, core.Owner{User: "actor", Run: "run", Attempt: attempt}, max(1, hosts))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func actOnce(p driver.Provider, o core.Owner, nodes int) error {
	ctx := context.Background()
	l, err := p.Acquire(ctx, driver.Request{Owner: o, Nodes: nodes})
	if err != nil {
		return err
	}
	for i, h := range l.Hosts() {
		config, _ := json.Marshal(map[string]string{"socket": filepath.Join(h.Dir, fmt.Sprint(i)), "config": strings.Repeat("x", 100_000)})
		if err := l.Launch(ctx, driver.NodeCommand{Host: i, Config: config, Log: filepath.Join(h.Dir, fmt.Sprint(i, ".log"))}); err != nil {
			return err
		}
	}
	return l.Release(ctx)
}

// Whenever the controller is killed, what it leaves is listed and can be
// released, and then nothing is left.
func TestKilledController(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for _, hosts := range []int{0, 2} {
		t.Run(fmt.Sprintf("%d emulated hosts", hosts), func(t *testing.T) {
			dir := scratch(t)
			p := newProvider(t, Settings{Scratch: dir})
			for range rounds {
				killActor(t, dir, hosts)
				handles, err := p.List(t.Context(), core.Owner{User: "actor"})
				if err != nil {
					t.Fatal(err)
				}
				if len(handles) > 1 {
					t.Fatalf("%d leases of one run", len(handles))
				}
				for _, h := range handles {
					l, err := p.Recover(t.Context(), h)
					if err != nil {
						t.Fatal(err)
					}
					if rand.IntN(2) == 0 {
						// The hosts may end just now, too.
						killHolder(filepath.Join(dir, "bee", leasesDir, leasedir.Name(h.Owner)))
					}
					if err := l.Release(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				noTrace(t, dir)
			}
		})
	}
}

// killActor runs an actor and kills it at a random moment.
func killActor(t *testing.T, dir string, hosts int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", actArg, dir, strconv.Itoa(hosts))
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		_, err := os.Stat(filepath.Join(dir, "bee", leasesDir))
		return err
	})
	time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
	_ = cmd.Process.Kill()
	if err := cmd.Wait(); cmd.ProcessState.Exited() {
		t.Fatalf("the actor failed by itself: %v: %s", err, out.String())
	}
}

func killHolder(dir string) {
	b, err := os.ReadFile(filepath.Join(dir, "holder.pid"))
	if err != nil {
		return
	}
	if id, err := procid.Parse(string(b)); err == nil {
		_, _ = id.Signal(unix.SIGKILL)
	}
}

// noTrace fails unless nothing is left that has to do with dir.
func noTrace(t *testing.T, dir string) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		files, _ := filepath.Glob("/proc/[0-9]*")
		for _, f := range files {
			cmdline, _ := os.ReadFile(f + "/cmdline")
			environ, _ := os.ReadFile(f + "/environ")
			if strings.Contains(string(cmdline), dir+"/") || strings.Contains(string(environ), markVariable+"="+dir) {
				return fmt.Errorf("%s is left: %q", f, cmdline)
			}
		}
		return nil
	})
	entries, err := os.ReadDir(filepath.Join(dir, "bee"))
	if err != nil || len(entries) != 1 || entries[0].Name() != leasesDir {
		t.Fatalf("files are left: %v, %v", entries, err)
	}
	if entries, err = os.ReadDir(filepath.Join(dir, "bee", leasesDir)); err != nil || len(entries) != 0 {
		t.Fatalf("leases are left: %v, %v", entries, err)
	}
}

// A dead holder makes the lease a dead one whose files can still be had.
func TestHostsEnd(t *testing.T) {
	dir := scratch(t)
	p := newProvider(t, Settings{Name: "lab", Scratch: dir, EmulatedHosts: 2})
	o := core.Owner{User: "u", Run: "r", Attempt: 1}
	l, err := p.Acquire(t.Context(), driver.Request{Owner: o, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.Hosts()[0].Dir+"/result", []byte("42"), 0o600); err != nil {
		t.Fatal(err)
	}
	leaseDir := filepath.Join(dir, "bee", leasesDir, leasedir.Name(o))
	killHolder(leaseDir)
	testkit.Eventually(t, 20*time.Second, func() error {
		if emulate.Alive(leaseDir) {
			return errors.New("the holder lives")
		}
		return nil
	})
	r, err := p.Recover(t.Context(), l.Handle())
	if err != nil {
		t.Fatal(err)
	}
	if s, err := r.Status(t.Context()); err != nil || s.Live || s.Reason == "" {
		t.Errorf("%+v, %v", s, err)
	}
	if alive, err := r.NodeAlive(t.Context(), 0); alive || err != nil {
		t.Errorf("node: %v, %v", alive, err)
	}
	if err := r.Launch(t.Context(), driver.NodeCommand{Log: nodeLog(r)}); err == nil {
		t.Error("launched on a dead host")
	}
	if err := r.Fetch(t.Context(), driver.Transfer{Remote: l.Hosts()[0].Dir + "/result", Local: t.TempDir() + "/r"}); err != nil {
		t.Error(err)
	}
	// Acquire makes it again.
	l, err = p.Acquire(t.Context(), driver.Request{Owner: o, Nodes: 2})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := l.Status(t.Context()); err != nil || !s.Live {
		t.Errorf("%+v, %v", s, err)
	}
	if err := l.Release(t.Context()); err != nil {
		t.Error(err)
	}
	noTrace(t, dir)
}
