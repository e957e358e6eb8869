package emulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// toolArg makes the test binary a network program for use on the hosts:
// serve ADDR sinks what comes and answers with its length; push ADDR BYTES
// sends that much and prints the answer.
const toolArg = "network-tool"

func tool(args []string) int {
	var err error
	switch args[0] {
	case "serve":
		err = serveSink(args[1])
	case "push":
		var n int64
		_, _ = fmt.Sscan(args[2], &n)
		err = push(args[1], n)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func serveSink(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			n, _ := io.Copy(io.Discard, c)
			fmt.Fprintln(c, n) //nolint:errcheck // the other end misses it
		}()
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

func push(addr string, n int64) error {
	c, err := net.DialTimeout("tcp", addr, 3*time.Second)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(c, zeros{}, n); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}

// serveOn runs a sink on a host and gives its address.
func serveOn(t testing.TB, c *Client, host int) string {
	t.Helper()
	addr := net.JoinHostPort(c.Hosts()[host].Addr, "7000")
	_, err := c.Launch(t.Context(), Command{Host: host, Path: "/proc/self/exe", Argv: []string{"x", toolArg, "serve", addr}, Log: filepath.Join(t.TempDir(), "log")})
	must(t, err)
	testkit.Eventually(t, 10*time.Second, func() error {
		conn, err := c.Dial(t.Context(), addr)
		if err == nil {
			conn.Close()
		}
		return err
	})
	return addr
}

func pushFrom(t testing.TB, c *Client, host int, addr string, n int64) error {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	exit, err := c.Run(t.Context(), Command{Host: host, Path: "/proc/self/exe", Argv: []string{"x", toolArg, "push", addr, fmt.Sprint(n)}}, w, w, w)
	w.Close()
	must(t, err)
	out, _ := io.ReadAll(r)
	if exit.Code != 0 || strings.TrimSpace(string(out)) != fmt.Sprint(n) {
		return fmt.Errorf("exit code %d: %s", exit.Code, out)
	}
	return nil
}

func TestNetwork(t *testing.T) {
	testkit.AsRootToo(t)
	c := start(t, spec(t, 3))
	addr := serveOn(t, c, 0)
	for host := range 3 {
		must(t, pushFrom(t, c, host, addr, 10<<20))
	}
	// Localhost is each host's own.
	if err := pushFrom(t, c, 1, "127.0.0.1:7000", 1); err == nil {
		t.Error("hosts share their loopback")
	}
	must(t, c.Link(t.Context(), 1, false))
	if err := pushFrom(t, c, 1, addr, 1); err == nil || !strings.Contains(err.Error(), "timeout") && !strings.Contains(err.Error(), "no route") {
		t.Errorf("over a cut link: %v", err)
	}
	if got := sh(t, c, 1, "cat /sys/class/net/eth0/carrier"); got != "1" {
		t.Errorf("the host sees that its link is cut: carrier %s", got)
	}
	must(t, pushFrom(t, c, 2, addr, 1<<20))
	must(t, c.Link(t.Context(), 1, false))
	must(t, c.Link(t.Context(), 1, true))
	must(t, c.Link(t.Context(), 1, true))
	testkit.Eventually(t, 10*time.Second, func() error { return pushFrom(t, c, 1, addr, 1<<20) })
	// Apart are two that know so; the third, and the bridge, reach both.
	must(t, c.Apart(t.Context(), 0, true))
	must(t, pushFrom(t, c, 1, addr, 1<<20))
	must(t, c.Apart(t.Context(), 1, true))
	if err := pushFrom(t, c, 1, addr, 1); err == nil {
		t.Error("hosts that are apart reach each other")
	}
	must(t, pushFrom(t, c, 2, addr, 1<<20))
	conn, err := c.Dial(t.Context(), addr)
	must(t, err)
	conn.Close()
	must(t, c.Apart(t.Context(), 1, false))
	must(t, pushFrom(t, c, 1, addr, 1<<20))
}

func TestManyHostsReachEachOther(t *testing.T) {
	c := start(t, spec(t, 64))
	addr := serveOn(t, c, 63)
	var wg sync.WaitGroup
	slots := make(chan bool, 4)
	for host := range 64 {
		wg.Go(func() {
			slots <- true
			defer func() { <-slots }()
			if err := pushFrom(t, c, host, addr, 1000); err != nil {
				t.Errorf("host %d: %v", host, err)
			}
		})
	}
	wg.Wait()
}

func TestRate(t *testing.T) {
	s := spec(t, 2)
	s.LinkRate = 80_000_000
	c := start(t, s)
	addr := serveOn(t, c, 0)
	for from, to := range map[int]string{1: addr, 0: serveOn(t, c, 1)} {
		began := time.Now()
		must(t, pushFrom(t, c, from, to, 5<<20))
		rate := 8 * float64(5<<20) / time.Since(began).Seconds()
		t.Logf("from host %d: %.1f Mbit/s", from, rate/1e6)
		if rate > 1.15*80e6 || rate < 0.1*80e6 {
			t.Errorf("from host %d: %.1f Mbit/s, want about 80", from, rate/1e6)
		}
	}
}

// Delay works where the kernel has netem, and else says so.
func TestDelay(t *testing.T) {
	s := spec(t, 2)
	s.LinkDelay = 20_000
	c, err := Start(t.Context(), s)
	if core.IsKind(err, core.Unsupported) {
		if !strings.Contains(err.Error(), "netem") || core.Remedy(err) == "" {
			t.Errorf("unclear: %v (%s)", err, core.Remedy(err))
		}
		return
	}
	must(t, err)
	defer func() { must(t, Destroy(t.Context(), s.Dir)) }()
	addr := serveOn(t, c, 0)
	began := time.Now()
	must(t, pushFrom(t, c, 1, addr, 1))
	if d := time.Since(began); d < 80*time.Millisecond {
		t.Errorf("two round trips took %v", d)
	}
}

func TestKillHost(t *testing.T) {
	c := start(t, spec(t, 2))
	for host := range 2 {
		// Also what hides in namespaces and sessions of its own.
		_, err := c.Launch(t.Context(), Command{Host: host, Argv: []string{"/bin/sh", "-c", "setsid sleep 1000 & unshare -Urn sleep 1000 & unshare -Urmpf --mount-proc sleep 1000 & wait"}, Env: os.Environ(), Tag: "tree", Log: filepath.Join(t.TempDir(), "log")})
		must(t, err)
	}
	sleeps := func(host int) string {
		return sh(t, c, host, "n=0; for p in /proc/[0-9]*; do [ $(cat $p/comm) = sleep ] && n=$((n+1)); done 2>/dev/null; echo $n")
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		if n := sleeps(0); n != "6" {
			return fmt.Errorf("%s sleeps run", n)
		}
		return nil
	})
	must(t, c.Kill(t.Context(), 1))
	testkit.Eventually(t, 5*time.Second, func() error {
		if n := sleeps(0); n != "3" {
			return fmt.Errorf("%s sleeps run", n)
		}
		return nil
	})
	procs, err := c.Procs(t.Context())
	must(t, err)
	for _, p := range procs {
		if p.Tag == "tree" && (p.Exit != nil) != (p.Host == 1) {
			t.Errorf("%+v", p)
		}
	}
	must(t, c.Kill(t.Context(), 1))
	if got := sh(t, c, 1, "hostname"); got != "h1" {
		t.Errorf("the host itself is gone: %q", got)
	}
}

// The kernel ends everything with the holder.
func TestKilledHolderLeavesNothing(t *testing.T) {
	s := spec(t, 3)
	c, err := Start(t.Context(), s)
	must(t, err)
	mark := "1000." + fmt.Sprint(time.Now().UnixNano()%1_000_000_000)
	for host := range 3 {
		_, err := c.Launch(t.Context(), Command{Host: host, Argv: []string{"/bin/sh", "-c", "unshare -Urmpf --mount-proc sleep " + mark + " & sleep " + mark}, Env: os.Environ(), Log: filepath.Join(t.TempDir(), "log")})
		must(t, err)
	}
	count := func() int { return len(processesWith(t, mark)) }
	testkit.Eventually(t, 5*time.Second, func() error {
		if n := count(); n < 6 {
			return fmt.Errorf("%d processes", n)
		}
		return nil
	})
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", c.PID()))
	must(t, err)
	id, err := procid.Of(c.PID())
	must(t, err)
	_, err = id.Signal(unix.SIGKILL)
	must(t, err)
	must(t, id.Wait(t.Context()))
	if n := count(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	links, _ := filepath.Glob("/proc/[0-9]*/ns/net")
	for _, l := range links {
		if to, _ := os.Readlink(l); to == namespace {
			t.Errorf("%s is still %s", l, to)
		}
	}
	if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), s.Dir) {
		t.Error("a mount is left")
	}
	if _, err := Open(t.Context(), s.Dir); !core.IsKind(err, core.NotFound) {
		t.Errorf("open: %v", err)
	}
	if err := c.Link(t.Context(), 0, false); !core.IsKind(err, core.Lost) {
		t.Errorf("call: %v", err)
	}
	must(t, Destroy(t.Context(), s.Dir))
}

func processesWith(t testing.TB, mark string) []string {
	t.Helper()
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, _ := os.ReadFile(f); strings.Contains(string(b), mark) {
			out = append(out, f)
		}
	}
	return out
}

// Containers need namespaces within the hosts' namespaces.
func TestNesting(t *testing.T) {
	testkit.AsRootToo(t)
	testkit.RequireTool(t, "unshare")
	c := start(t, spec(t, 1))
	if got := sh(t, c, 0, "unshare -Urmpf --mount-proc sh -c 'mount -t tmpfs x /mnt && echo $$ && ls /proc | grep -c ^[0-9]'"); !strings.HasPrefix(got, "1\n") {
		t.Errorf("got %q", got)
	}
}

// The kernel's table of learned link addresses is one for all hosts, and too
// small for many: these are known from the start.
func TestHostsKnowEachOther(t *testing.T) {
	c := start(t, spec(t, 3))
	for i := range 3 {
		table := sh(t, c, i, "cat /proc/net/arp")
		for j, h := range c.Hosts() {
			const permanent = "0x6"
			if j != i && !regexp.MustCompile(regexp.QuoteMeta(h.Addr)+` +\S+ +`+permanent+` `).MatchString(table) {
				t.Errorf("host %d learns host %d only when it speaks with it:\n%s", i, j, table)
			}
		}
	}
}

func TestPrivateDirectories(t *testing.T) {
	testkit.AsRootToo(t)
	s := spec(t, 2)
	base := t.TempDir()
	for i := range s.Hosts {
		s.Hosts[i].Hide, s.Hosts[i].Keep = base, filepath.Join(base, fmt.Sprint("own", i))
		must(t, os.Mkdir(s.Hosts[i].Keep, 0o700))
	}
	c := start(t, s)
	for i := range s.Hosts {
		if got := sh(t, c, i, "ls "+base); got != fmt.Sprint("own", i) {
			t.Errorf("host %d sees %q", i, got)
		}
		sh(t, c, i, fmt.Sprintf("echo hello > %s/f", s.Hosts[i].Keep))
		if b, err := os.ReadFile(s.Hosts[i].Keep + "/f"); err != nil || string(b) != "hello\n" {
			t.Errorf("host %d: %q, %v", i, b, err)
		}
	}
}

func TestStartFails(t *testing.T) {
	for name, change := range map[string]func(*Spec){
		"no hosts":       func(s *Spec) { s.Hosts = nil },
		"bad host name":  func(s *Spec) { s.Hosts[0].Hostname = strings.Repeat("x", 300) },
		"no directory":   func(s *Spec) { s.Dir = "/nonexistent" },
		"no such binary": func(s *Spec) { s.Binary = "/nonexistent" },
		"another binary": func(s *Spec) { s.Binary = "/bin/true" },
		"hide nothing":   func(s *Spec) { s.Hosts[0].Hide, s.Hosts[0].Keep = "/nonexistent", "/nonexistent/x" },
	} {
		t.Run(name, func(t *testing.T) {
			s := spec(t, 2)
			change(&s)
			c, err := Start(t.Context(), s)
			if err == nil {
				t.Fatalf("started: %+v", c.Hosts())
			}
			if Alive(s.Dir) {
				t.Error("the holder lives")
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		for i := range 10 {
			s := spec(t, 4)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*3*time.Millisecond)
			_, err := Start(ctx, s)
			cancel()
			if err != nil && !core.IsKind(err, core.Stopped) {
				t.Errorf("got %v", err)
			}
			if err != nil && Alive(s.Dir) {
				t.Error("the holder lives")
			}
			must(t, Destroy(t.Context(), s.Dir))
		}
	})
}

func TestRunEndsWithItsClient(t *testing.T) {
	c := start(t, spec(t, 1))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	must(t, err)
	defer null.Close()
	if _, err := c.Run(ctx, Command{Argv: []string{"sleep", "1000"}, Tag: "x"}, null, null, null); !core.IsKind(err, core.Stopped) {
		t.Errorf("got %v", err)
	}
	testkit.Eventually(t, 5*time.Second, func() error {
		procs, err := c.Procs(t.Context())
		if err == nil && (len(procs) != 1 || procs[0].Exit == nil) {
			err = errors.New("it still runs")
		}
		return err
	})
}

func TestLongPaths(t *testing.T) {
	s := spec(t, 1)
	s.Dir = filepath.Join(s.Dir, strings.Repeat("long", 40))
	must(t, os.Mkdir(s.Dir, 0o700))
	start(t, s)
	c, err := Open(t.Context(), s.Dir)
	must(t, err)
	if got := sh(t, c, 0, "hostname"); got != "h0" {
		t.Error(got)
	}
}

func TestHolderAlone(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", HolderArg, "x")
	if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("got %v", err)
	}
}
