package e2e

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVerbsBetweenMachines: the same between hosts that share no directory, as machines do not, and
// on one machine where the Beefile asks for that path.
func TestVerbsBetweenMachines(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	image := testkit.VerbsImage(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: apart, provider: local, hosts: 2, private_scratch: true}\n  - {name: two, provider: local, hosts: 2}\n")
	for site, rdma := range map[string]string{"apart": "bee", "two": "{device: bee, path: forward}"} {
		job := b.File(site+".yaml", "name: "+site+"\nimage: docker-archive:"+image+"\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: "+rdma+"\nrun: |\n"+testkit.VerbsPairs+`
  both ibv_rc_pingpong -n 200 -c
  grep -q "200 iters" client.out && echo pingpong
  both ib_write_bw -F -n 200
  grep -q "^ 65536 *200" client.out && echo write
  /.bee/rsh $server mckey -m 239.1.2.3 -b $server -C 5 >member.out 2>&1 & pid=$!
  while kill -0 $pid 2>/dev/null; do
    /.bee/rsh $client mckey -m 239.1.2.3 -b $client -s -C 5 >sender.out 2>&1 || { cat sender.out; kill $pid; }
  done
  wait $pid && echo multicast || cat member.out
`+testkit.VerbsByAddress(t)+"  [ $? = 0 ] && echo connected\n")
		if out := b.Must("--sites", sites, "run", "-q", "--site", site, job); out != "pingpong\nwrite\nmulticast\nconnected\n" {
			t.Errorf("%s: got %q", site, out)
		}
	}
	b.CheckNothingLeft(30 * time.Second)
}

// TestVerbsOverABreak: programs of two hosts that do not reach each other for a moment, and whose connections are
// ended by the kernel, lose nothing.
func TestVerbsOverABreak(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	testkit.RequireTool(t, "ss")
	sites := b.File("sites.yaml", "sites:\n  - {name: apart, provider: local, hosts: 2, private_scratch: true}\n")
	job := b.File("job.yaml", "name: break\nimage: docker-archive:"+testkit.VerbsImage(t)+"\nnodes: 2\nrdma: bee\nrun: |"+`
  set -- $(echo "$BEE_NODELIST" | tr , " ")
  until [ -e /tmp/enough ]; do
    /.bee/rsh $1 rping -s -V -C 3000 & server=$!
    until /.bee/rsh $2 rping -c -V -C 3000 -a $1; do kill -0 $server || break; sleep 0.1; done
    wait $server || exit 1
  done
  echo "all is there"
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", "-q", job))
	carried := func() (bytes int64) {
		var ports []struct {
			Bytes struct{ Forwarded int64 }
		}
		if b.Try("rdma", "stats", id).Code == 0 {
			b.JSON(&ports, "rdma", "stats", "--json", id)
		}
		for _, p := range ports {
			bytes += p.Bytes.Forwarded
		}
		return bytes
	}
	after := func(bytes int64) {
		testkit.Eventually(t, 60*time.Second, func() error {
			if now := carried(); now <= bytes {
				return fmt.Errorf("%d bytes were carried", now)
			}
			return nil
		})
	}
	const many = 100_000 // the other connections of a node send less
	after(many)
	b.Must("emulate", "link", id, "1", "down")
	b.Must("emulate", "link", id, "1", "up")
	after(carried() + many)
	if os.Geteuid() == 0 { // others may not end connections of their own
		testkit.Eventually(t, 60*time.Second, func() error { // the link may just have another connection
			port, sent := busiest(b.Must("emulate", "exec", id, "1", "ss", "-tniHO", "state", "established"))
			if sent < many/5 {
				return fmt.Errorf("no connection has sent more than %d bytes", sent)
			}
			if b.Must("emulate", "exec", id, "1", "ss", "-KtnH", "state", "established", "sport", "=", ":"+port) == "" {
				return fmt.Errorf("the connection of port %s was gone", port)
			}
			return nil
		})
		after(carried() + many)
	}
	b.Must("exec", id, "touch", "/tmp/enough")
	if v := b.Await(id, 120*time.Second); v.State != "succeeded" {
		t.Errorf("the run: %+v\n%s", v, b.Must("logs", id))
	}
	if out := b.Must("logs", id); !strings.Contains(out, "all is there") {
		t.Errorf("the run printed %q", out)
	}
	if os.Geteuid() == 0 {
		// Its reader and its writer see the end, and only one of them the kernel's word for it.
		if log := b.Must("logs", "--node", "1", id); !strings.Contains(log, syscall.ECONNABORTED.Error()) && !strings.Contains(log, io.EOF.Error()) {
			t.Errorf("the connection was not that of the device:\n%s", log)
		}
	}
}

// busiest returns the local port of the connection that has sent most, of those that ss lists, and how many bytes.
func busiest(list string) (port string, most int) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		for _, f := range fields {
			if raw, is := strings.CutPrefix(f, "bytes_sent:"); is {
				if n, err := strconv.Atoi(raw); err == nil && n > most {
					port, most = fields[2][strings.LastIndex(fields[2], ":")+1:], n
				}
			}
		}
	}
	return port, most
}

// TestVerbsBetweenContainers: with `rdma: bee`, stock programs find bee_0 alone and exchange data
// between two containers of this machine. Between them, nothing is left of it.
func TestVerbsBetweenContainers(t *testing.T) {
	testkit.AsRootToo(t)
	b := testkit.NewBee(t)
	image := testkit.VerbsImage(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: two, provider: local, hosts: 2}\n")
	job := b.File("job.yaml", "name: verbs\nimage: docker-archive:"+image+"\nnodes: 2\nvolume: /data\nworkdir: /data\nrdma: {device: bee, memory: 64M, qps: 4}\nrun: |\n"+testkit.VerbsPairs+`
  ls /dev/infiniband
  ibv_devinfo | grep -E 'hca_id|state|port_lid|link_layer'
  both ibv_rc_pingpong -n 200 -c
  grep -q "200 iters" client.out && echo pingpong
  both ib_write_bw -F -n 200
  grep -q "^ 65536 *200" client.out && echo write
`+testkit.VerbsByAddress(t)+"  [ $? = 0 ] && echo connected\n")
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
