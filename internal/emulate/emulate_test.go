package emulate

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == HolderArg {
		os.Exit(HolderMain(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == toolArg {
		os.Exit(tool(os.Args[2:]))
	}
	if len(os.Args) > 1 && os.Args[1] == dialArg {
		os.Exit(proxy(os.Args[2], os.Args[3]))
	}
	os.Exit(m.Run())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// spec is for n hosts called h0, h1, …
func spec(t testing.TB, n int) Spec {
	t.Helper()
	s := Spec{Dir: t.TempDir()}
	for i := range n {
		s.Hosts = append(s.Hosts, HostSpec{Hostname: fmt.Sprintf("h%d", i)})
	}
	return s
}

func start(t testing.TB, s Spec) *Client {
	t.Helper()
	c, err := Start(t.Context(), s)
	must(t, err)
	t.Cleanup(func() {
		if err := Destroy(context.Background(), s.Dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// sh runs a shell command on a host and gives its output.
func sh(t testing.TB, c *Client, host int, command string) string {
	t.Helper()
	out, exit := try(t, c, host, command)
	if exit.Code != 0 {
		t.Fatalf("host %d: %s: exit code %d: %s", host, command, exit.Code, out)
	}
	return out
}

func try(t testing.TB, c *Client, host int, command string) (string, core.Exit) {
	t.Helper()
	out, err := os.CreateTemp(t.TempDir(), "out")
	must(t, err)
	defer out.Close()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	exit, err := c.Run(t.Context(), Command{Host: host, Argv: []string{"/bin/sh", "-c", command}, Env: os.Environ()}, null, out, out)
	must(t, err)
	b, err := os.ReadFile(out.Name())
	must(t, err)
	return strings.TrimSpace(string(b)), exit
}

func TestHostsAreApart(t *testing.T) {
	testkit.AsRootToo(t)
	c := start(t, spec(t, 3))
	seen := map[string]map[string]bool{}
	for i, h := range c.Hosts() {
		if got := sh(t, c, i, "hostname"); got != h.Hostname {
			t.Errorf("host %d calls itself %q", i, got)
		}
		if got := sh(t, c, i, "ls /sys/class/net"); strings.Join(strings.Fields(got), " ") != "eth0 lo" {
			t.Errorf("host %d has the interfaces %q", i, got)
		}
		if got := sh(t, c, i, "id -u; cat /proc/self/status | grep CapInh"); os.Geteuid() != 0 && !strings.HasSuffix(got, "\t0000000000000000") {
			t.Errorf("host %d: %s", i, got)
		}
		if os.Geteuid() != 0 {
			if got := sh(t, c, i, "grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status"); strings.Count(got, "0000000000000000") != 3 {
				t.Errorf("host %d: processes have capabilities: %s", i, got)
			}
		}
		if got := sh(t, c, i, "ls -A /dev/shm"); got != "" {
			t.Errorf("host %d: /dev/shm holds %q", i, got)
		}
		sh(t, c, i, fmt.Sprintf("echo %d > /dev/shm/mine", i))
		for _, ns := range []string{"net", "uts", "ipc", "mnt"} {
			id := sh(t, c, i, "readlink /proc/self/ns/"+ns)
			if seen[ns] == nil {
				seen[ns] = map[string]bool{}
			}
			if seen[ns][id] {
				t.Errorf("host %d shares its %s namespace", i, ns)
			}
			seen[ns][id] = true
		}
	}
	if _, exit := try(t, c, 0, "exit 7"); exit.Code != 7 {
		t.Errorf("exit %+v", exit)
	}
	if _, exit := try(t, c, 0, "kill -9 $$"); exit.Signal != int(unix.SIGKILL) || exit.Code != 137 {
		t.Errorf("exit %+v", exit)
	}
	for name, cmd := range map[string]Command{"no such program": {Argv: []string{"no-such-program"}}, "no command": {}, "no host": {Host: 9, Argv: []string{"true"}}} {
		if _, err := c.Launch(t.Context(), cmd); err == nil {
			t.Errorf("%s: was started", name)
		}
	}
}

func TestManyHosts(t *testing.T) {
	began := time.Now()
	s := spec(t, 64)
	c := start(t, s)
	up := time.Since(began)
	if got := sh(t, c, 63, "cat /proc/self/timerslack_ns"); got != "2000000" && runtime.NumCPU() < 64 {
		t.Errorf("timers of hosts that share processors may be %s ns late", got)
	}
	began = time.Now()
	must(t, Destroy(t.Context(), s.Dir))
	t.Logf("64 hosts: up in %v, gone in %v", up, time.Since(began))
	if len(c.Hosts()) != 64 {
		t.Errorf("%d hosts", len(c.Hosts()))
	}
	if up > 10*time.Second {
		t.Errorf("too slow: %v", up)
	}
}

func BenchmarkStart(b *testing.B) {
	testkit.RequireTool(b, "true")
	for _, n := range []int{1, 2, 8, 64} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := spec(b, n)
				_, err := Start(b.Context(), s)
				must(b, err)
				must(b, Destroy(b.Context(), s.Dir))
			}
		})
	}
}
