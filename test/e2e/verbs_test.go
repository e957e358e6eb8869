package e2e

import (
	"archive/tar"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// verbsImage has stock programs with verbs, and busybox.
func verbsImage(t *testing.T) string {
	t.Helper()
	l := testkit.NewLayer(t)
	for _, dir := range []string{"tmp", "root", "dev", "proc", "sys", "etc"} {
		l.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	l.Busybox("bin", "sh ls cat sleep tr env echo grep kill")
	for _, program := range []string{"ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw"} {
		l.Program(testkit.RequireTool(t, program))
	}
	threads, err := filepath.Glob("/lib*/*/libgcc_s.so.1") // which threads that end load
	if err != nil || len(threads) == 0 {
		testkit.Missing(t, "libgcc_s.so.1 is not installed: %v", err)
	}
	l.Program(testkit.RequireTool(t, "rping"), threads[0])
	return l.Archive("docker.io/test/verbs:1", v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
}

// pairScript runs a program on both nodes: as the server on the first, and as its client on the
// second.
const pairScript = `
  set -- $(echo "$BEE_NODELIST" | tr , " ")
  both() {
    /.bee/rsh $server "$@" >server.out 2>&1 & pid=$!
    until /.bee/rsh $client "$@" $server >client.out 2>&1; do
      kill -0 $pid 2>/dev/null || { cat server.out client.out; exit 1; }
      sleep 0.1
    done
    wait $pid
  }
  server=$1 client=$2
`

// connections is the command of docs/how-to/rdma.md that connects by address.
func connections(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs/how-to/rdma.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(raw), "### Connections by address")
	_, block, _ := strings.Cut(section, "run: |\n")
	command, _, is := strings.Cut(block, "```")
	if !is || !strings.Contains(command, "rping") {
		t.Fatalf("the page has no such command: %q", command)
	}
	return command
}

// TestVerbsBetweenMachines: the same between hosts that share no directory, as machines do not, and
// on one machine where the Beefile asks for that path.
func TestVerbsBetweenMachines(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	image := verbsImage(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: apart, provider: local, hosts: 2, private_scratch: true}\n  - {name: two, provider: local, hosts: 2}\n")
	for site, rdma := range map[string]string{"apart": "bee", "two": "{device: bee, path: forward}"} {
		job := b.File(site+".yaml", "name: "+site+"\nimage: docker-archive:"+image+"\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: "+rdma+"\nrun: |\n"+pairScript+`
  both ibv_rc_pingpong -n 200 -c
  grep -q "200 iters" client.out && echo pingpong
  both ib_write_bw -F -n 200
  grep -q "^ 65536 *200" client.out && echo write
`+connections(t)+"  [ $? = 0 ] && echo connected\n")
		if out := b.Must("--sites", sites, "run", "-q", "--site", site, job); out != "pingpong\nwrite\nconnected\n" {
			t.Errorf("%s: got %q", site, out)
		}
	}
	b.CheckNothingLeft(30 * time.Second)
}

// TestVerbsBetweenContainers: with `rdma: bee`, stock programs find bee_0 alone and exchange data
// between two containers of this machine. Between them, nothing is left of it.
func TestVerbsBetweenContainers(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	image := verbsImage(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: two, provider: local, hosts: 2}\n")
	job := b.File("job.yaml", "name: verbs\nimage: docker-archive:"+image+"\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: {device: bee, memory: 64M, qps: 4}\nrun: |\n"+pairScript+`
  ls /dev/infiniband
  ibv_devinfo | grep -E 'hca_id|state|port_lid|link_layer'
  both ibv_rc_pingpong -n 200 -c
  grep -q "200 iters" client.out && echo pingpong
  both ib_write_bw -F -n 200
  grep -q "^ 65536 *200" client.out && echo write
`+connections(t)+"  [ $? = 0 ] && echo connected\n")
	out := b.Must("--sites", sites, "run", "-q", job)
	want := "uverbs0\nhca_id:\tbee_0\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tport_lid:\t\t1\n\t\t\tlink_layer:\t\tInfiniBand\npingpong\nwrite\nconnected\n"
	if out != want {
		t.Errorf("got %q", out)
	}
	var shown struct {
		Attempts []struct {
			Nodes []struct{ RDMA []core.RDMADevice }
		}
	}
	b.JSON(&shown, "show", "--json", "verbs")
	if len(shown.Attempts) != 1 || len(shown.Attempts[0].Nodes) != 2 {
		t.Fatalf("on record: %+v", shown)
	}
	for _, n := range shown.Attempts[0].Nodes {
		if len(n.RDMA) != 1 || n.RDMA[0].Name != "bee_0" {
			t.Errorf("on record: %+v", n.RDMA)
		}
	}
	limited := b.File("limited.yaml", strings.Replace(b.Read("job.yaml"), "qps: 4", "qps: 1", 1))
	if r := b.Try("--sites", sites, "run", "-q", b.File("two.yaml", strings.Replace(strings.Replace(b.Read("limited.yaml"), "both ib_write_bw -F -n 200", "both ib_write_bw -F -n 200 -q 2", 1), "name: verbs", "name: limited", 1))); r.Code == 0 || !strings.Contains(r.Stdout, "QP") {
		t.Errorf("with more queue pairs than %s allows: %+v", limited, r)
	} else if log := b.Must("logs", "--node", "0", "limited"); !strings.Contains(log, "rdma.qps") {
		t.Errorf("the node's log does not name the key: %s", log)
	}
	b.CheckNothingLeft(30 * time.Second)
}
