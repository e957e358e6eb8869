package vm

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVerbsBetweenVirtualMachines: with `rdma: bee`, stock programs in the containers of two guests find bee_0 alone.
// Between the guests, brokers carry what they send; in one guest, programs copy from memory to memory. Connections by
// address come first, as they wait longest for the link of the brokers, on a machine that is busy.
func TestVerbsBetweenVirtualMachines(t *testing.T) {
	testkit.Long(t, "TestBrokersOfGuests of internal/guest")
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, private_scratch: true}\n")
	job := b.File("job.yaml", "name: verbs\nimage: docker-archive:"+testkit.VerbsImage(t)+"\nnodes: 2\nvm: {cpus: 1, memory: 1G}\nvolume: /data\nworkdir: /data\nrdma: bee\nrun: |\n"+testkit.VerbsPairs+`
  {
    ls /dev/infiniband
    ibv_devinfo | grep -E 'hca_id|state|port_lid|link_layer'
`+testkit.VerbsByAddress(t)+`
    [ $? = 0 ] && echo connected
    both ibv_rc_pingpong -n 50 -c
    grep -q "50 iters" client.out && echo pingpong
    both ib_write_bw -F -n 50
    grep -q "^ 65536 *50" client.out && echo write
  } > apart 2> noise
  touch half; until [ -e seen ]; do sleep 0.2; done
  client=$server
  both ib_write_bw -F -n 50
  grep -q "^ 65536 *50" client.out && echo write > together
  touch up; until [ -e enough ]; do sleep 0.2; done
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	awaitFile(t, b, id, "/data/half")
	want := "uverbs0\nhca_id:\tbee_0\n\t\t\tstate:\t\t\tPORT_ACTIVE (4)\n\t\t\tport_lid:\t\t1\n\t\t\tlink_layer:\t\tInfiniBand\nconnected\npingpong\nwrite\n"
	if got := b.Must("exec", id, "--", "cat", "/data/apart"); got != want {
		t.Errorf("between the guests: %q\n%s", got, b.Must("exec", id, "--", "sh", "-c", "cat /data/*.out /data/noise"))
	}
	read := func() (ports []core.VerbsPort) {
		t.Helper()
		b.JSON(&ports, "rdma", "stats", "--json", id)
		if len(ports) != 2 || ports[0].Rank != 0 || ports[1].Rank != 1 {
			t.Fatalf("the statistics have %+v", ports)
		}
		return ports
	}
	const written = 50 * 65536
	apart := read()
	for _, p := range apart { // each counts what its programs do, and what it has carried to the other
		if p.Operations.Sends == 0 || p.Bytes.Forwarded == 0 || p.Bytes.Direct != 0 {
			t.Errorf("node %d has %+v", p.Rank, p)
		}
	}
	if p := apart[1]; p.Bytes.Forwarded < written {
		t.Errorf("the client's bytes were not carried: %+v", p)
	}
	b.Touch(id, "seen")
	awaitFile(t, b, id, "/data/up")
	if got := b.Must("exec", id, "--", "cat", "/data/together"); got != "write\n" {
		t.Errorf("in one guest: %q", got)
	}
	if p, before := read()[0], apart[0]; p.Bytes.Direct-before.Bytes.Direct < written || p.Bytes.Forwarded-before.Bytes.Forwarded > written/10 || p.Bytes.Staged != before.Bytes.Staged {
		t.Errorf("in one guest, programs do not copy from memory to memory: before %+v, after %+v", before, p)
	}
	b.Touch(id, "enough")
	if v := b.Await(id, time.Minute); v.State != "succeeded" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("logs", id))
	}
	var shown struct {
		Attempts []struct {
			Runtime string
			Nodes   []struct{ RDMA []core.RDMADevice }
		}
	}
	b.JSON(&shown, "show", "--json", id)
	if len(shown.Attempts) != 1 || shown.Attempts[0].Runtime != "vm" || len(shown.Attempts[0].Nodes) != 2 {
		t.Fatalf("on record: %+v", shown)
	}
	for _, n := range shown.Attempts[0].Nodes {
		if len(n.RDMA) != 1 || n.RDMA[0].Name != "bee_0" {
			t.Errorf("on record: %+v", n.RDMA)
		}
	}
	b.CheckNothingLeft(30 * time.Second)
}

// TestGuestsOfAHostShareMemory: programs in the containers of two guests of one host, which share a pool, copy from memory
// to memory. Nothing is carried between the guests.
func TestGuestsOfAHostShareMemory(t *testing.T) {
	testkit.Long(t, "TestGuestsShareMemory of internal/guest")
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2}\n")
	job := b.File("job.yaml", "name: verbs\nimage: docker-archive:"+testkit.VerbsImage(t)+"\nnodes: 2\nvm: {cpus: 1, memory: 1G}\nvolume: /data\nworkdir: /data\nrdma: {device: bee, path: direct, memory: 256M}\nrun: |\n"+testkit.VerbsPairs+`
  {
`+testkit.VerbsByAddress(t)+`
    [ $? = 0 ] && echo connected
    both ibv_rc_pingpong -n 50 -c
    grep -q "50 iters" client.out && echo pingpong
    both ibv_rc_pingpong -n 50 -e
    grep -q "50 iters" client.out && echo woken
    both ib_write_bw -F -n 50
    grep -q "^ 65536 *50" client.out && echo write
  } > said 2> noise
  touch half; until [ -e enough ]; do sleep 0.2; done
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	awaitFile(t, b, id, "/data/half")
	if got, want := b.Must("exec", id, "--", "cat", "/data/said"), "connected\npingpong\nwoken\nwrite\n"; got != want {
		t.Errorf("between the guests: %q\n%s", got, b.Must("exec", id, "--", "sh", "-c", "cat /data/*.out /data/noise"))
	}
	var ports []core.VerbsPort
	b.JSON(&ports, "rdma", "stats", "--json", id)
	if len(ports) != 2 || ports[1].Bytes.Direct < 50*65536 {
		t.Errorf("programs do not copy from memory to memory: %+v", ports)
	}
	for _, p := range ports { // the programs have ended, and their memory is free
		if p.Operations.Sends == 0 || p.Bytes.Forwarded != 0 || p.Bytes.Staged != 0 || p.MemoryBytes != 0 {
			t.Errorf("node %d has %+v", p.Rank, p)
		}
	}
	if text := b.Must("vm", "shell", id, "--", "ls", "/dev/dax0.0"); text != "/dev/dax0.0\n" {
		t.Errorf("the guest has %q", text)
	}
	b.Touch(id, "enough")
	if v := b.Await(id, time.Minute); v.State != "succeeded" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("logs", id))
	}
	b.CheckNothingLeft(30 * time.Second)
}
