package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
)

// recipe is a Beefile of the page about RDMA that has a marker in its first line, with another image, domain and port.
func recipe(t *testing.T, marker, image, domain string, port int) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs/how-to/rdma.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, is := strings.Cut(string(raw), "```yaml\n"+marker+"\n")
	text, _, ends := strings.Cut(rest, "```")
	if !is || !ends || !strings.Contains(text, "domain: lab") || !strings.Contains(text, "ib_write_bw -F") {
		t.Fatalf("the page has no such Beefile: %q", text)
	}
	return strings.NewReplacer("docker.io/example/verbs-app:1", "docker-archive:"+image, "domain: lab", "domain: "+domain, "ib_write_bw -F", fmt.Sprint("ib_write_bw -F -p ", port)).Replace(text)
}

// freePorts returns ports of this host that nobody listens on.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// nodesOf returns the processes of nodes that a bee has on this machine.
func nodesOf(bee *testkit.Bee) (nodes []int) {
	for _, p := range bee.Processes() {
		pid, command, _ := strings.Cut(p, " ")
		if n, err := strconv.Atoi(pid); err == nil && strings.HasSuffix(strings.TrimSpace(command), " node") {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// TestVerbsInADomain: a server in one run and a client in another reach each other in memory, as long as both live. Runs
// of another domain do not reach them.
func TestVerbsInADomain(t *testing.T) {
	testkit.AsRootToo(t)
	image := testkit.VerbsImage(t)
	one, other := testkit.NewBee(t), testkit.NewBee(t)
	domain := fmt.Sprintf("t%d", time.Now().UnixNano())
	port := freePorts(t, 3)
	long := fmt.Sprint("ib_write_bw -F -D 300 -p ", port[2])
	serve := one.File("server.yaml", "name: server\n"+recipe(t, "# server.yaml", image, domain, port[0])+
		fmt.Sprintf("  rping -s -p %d -C 10\n  %s\n", port[1], long))
	client := other.File("client.yaml", "name: client\n"+recipe(t, "# client.yaml", image, domain, port[0])+fmt.Sprintf(`  echo written
  until [ -e /tmp/next ]; do sleep 0.1; done
  until rping -c -p %d -C 10 -a 127.0.0.1; do sleep 0.1; done
  echo connected
  until grep -qi ":%04x 00000000:0000 0A" /proc/net/tcp; do sleep 0.1; done
  %s 127.0.0.1 || echo lost
`, port[1], port[2], long))
	stranger := func(bee *testkit.Bee, name, domain, run string) testkit.Result {
		return bee.Try("run", "-q", bee.File(name+".yaml", "name: "+name+"\nimage: docker-archive:"+image+"\nrdma: {device: bee, domain: "+domain+"}\nrun: "+run+"\n"))
	}

	server := strings.TrimSpace(one.Must("run", "-d", "-q", serve))
	run := strings.TrimSpace(other.Must("run", "-d", "-q", client))
	testkit.Eventually(t, 60*time.Second, func() error {
		if out := other.Try("logs", run).Stdout; !strings.Contains(out, "written") {
			return other.Explained(run, "the client has not written: "+out)
		}
		return nil
	})
	if r := stranger(other, "stranger", domain+"x", fmt.Sprintf("rping -c -p %d -C 1 -a 127.0.0.1", port[1])); r.Code == 0 {
		t.Errorf("a run of another domain reaches the server: %+v", r)
	}
	other.Must("exec", run, "touch", "/tmp/next")
	var ports []struct {
		Bytes struct{ Direct, Forwarded int64 }
	}
	testkit.Eventually(t, 60*time.Second, func() error {
		out := other.Try("logs", run).Stdout
		other.JSON(&ports, "rdma", "stats", "--json", run)
		if len(ports) != 1 || ports[0].Bytes.Direct < 100<<20 || !strings.Contains(out, "connected") {
			return other.Explained(run, fmt.Sprintf("the client does not write: %+v\n%s", ports, out))
		}
		return nil
	})
	if ports[0].Bytes.Forwarded != 0 {
		t.Errorf("%d bytes were forwarded", ports[0].Bytes.Forwarded)
	}
	for _, n := range nodesOf(one) {
		testkit.Kill(n)
	}
	if v := other.Await(run, 30*time.Second); v.State != "succeeded" || !strings.Contains(other.Must("logs", run), "lost") {
		t.Errorf("the client of a server that was killed: %+v\n%s", v, other.Must("logs", run))
	}
	if v := one.Await(server, 60*time.Second); v.State == "succeeded" {
		t.Errorf("the server that was killed: %+v", v)
	}
	testkit.Eventually(t, 30*time.Second, func() error { // LIDs come after those of runs that are there
		if nodes := slices.Concat(nodesOf(one), nodesOf(other)); len(nodes) > 0 {
			return fmt.Errorf("the nodes %v are left", nodes)
		}
		return nil
	})
	if r := stranger(one, "again", domain, "ibv_devinfo"); r.Code != 0 || !strings.Contains(r.Stdout, "port_lid:\t\t1\n") {
		t.Errorf("the next run of the domain: %+v", r)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if _, err := os.Stat(filepath.Join(fsutil.HostPlace("bee-rdma-"), domain)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("the directory of the domain is left: %w", err)
		}
		return nil
	})

	sites := one.File("sites.yaml", "sites:\n  - {name: apart, provider: local, hosts: 2, private_scratch: true}\n")
	several := one.File("several.yaml", "image: docker-archive:"+image+"\nnodes: 2\nrdma: {device: bee, domain: "+domain+"}\nrun: ibv_devinfo\n")
	if r := one.Try("--sites", sites, "run", "-q", several); r.Code == 0 || !strings.Contains(r.Stderr, "rdma.domain") {
		t.Errorf("a run over two hosts: %+v", r)
	}
	one.CheckNothingLeft(30 * time.Second)
	other.CheckNothingLeft(30 * time.Second)
}
