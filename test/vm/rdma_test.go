package vm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// pingsJob has the two guests exchange messages over RDMA all the time, each of which rping
// checks: the server reads it, and writes it back. Before, MPI has its say.
const pingsJob = `name: pings
build: {debian: bookworm, slim: true, packages: [openmpi-bin, python3-mpi4py, rdmacm-utils, ibverbs-providers]}
vm: {cpus: 1, memory: 1G}
rdma: soft
nodes: 2
volume: /data
workdir: /data
checkpoint: {mode: vm, grace: 8m}
run: |
  set -e
  mpirun -n 2 --map-by node python3 -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.alltoall([b"x" * 100000] * 2)[1][:1])' > said 2> noise
  /.bee/rsh ${BEE_NODELIST##*,} rping -s -P -V > /dev/null 2>&1 & server=$!
  until rping -c -a node1 -V -C 1; do sleep 0.2; done > /dev/null 2>&1
  rping -c -a node1 -V -v > pings & client=$!
  until [ -e enough ]; do sleep 0.2; kill -0 $client; wc -l < pings; done
  kill $client $server
outputs: [{from: /data/pings, to: ./results}, {from: /data/noise, to: ./results}, {from: /data/said, to: ./results}]
`

// pinged checks the messages that have come back, and what MPI has printed.
func pinged(t *testing.T, b *testkit.Bee) {
	t.Helper()
	if got := b.Read("results/said"); got != "b'x'\nb'x'\n" {
		t.Errorf("MPI says %q", got)
	}
	if got := b.Read("results/noise"); got != "" {
		t.Errorf("on stderr, MPI says %q", got)
	}
	lines := strings.Split(b.Read("results/pings"), "\n")
	lines = lines[:len(lines)-1] // the last one is cut
	for i, line := range lines {
		if want := "ping data: " + pingText(i); line != want {
			t.Fatalf("message %d is %q, expected %q", i, line, want)
		}
	}
	t.Logf("%d messages", len(lines))
}

// pingText is what rping sends as its message of a number: letters that begin one further
// each time.
func pingText(number int) string {
	const size, first, letters = 63, 'A', 'z' - 'A' + 1
	text := []byte(fmt.Sprintf("rdma-ping-%d: ", number))
	for c := number; len(text) < size; c++ {
		text = append(text, byte(first+c%letters))
	}
	return string(text)
}

// TestRDMAOfSavedMachines: the device and its connections are a part of the guests, so that
// programs with verbs continue where these do.
func TestRDMAOfSavedMachines(t *testing.T) {
	testkit.Long(t, "TestInsideVirtualMachines, with RDMA between guests that are not saved")
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local, hosts: 2}\n  - {name: two, provider: local, hosts: 2, private_scratch: true}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", b.File("job.yaml", pingsJob)))
	at := printed(t, b, id, 1, 10)
	saved := filepath.Join(b.Work, "saved")
	b.Must("vm", "snapshot", id, saved)
	at = printed(t, b, id, 1, at+10)
	b.Must("checkpoint", id)
	at = printed(t, b, id, 1, at+10)
	b.Must("move", id)
	printed(t, b, id, 2, at+10)
	b.Touch(id, "enough")
	if v := b.Await(id, savedTime); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	pinged(t, b)
	var shown struct {
		Attempts []struct {
			Nodes []struct{ RDMA []core.RDMADevice }
		}
	}
	b.JSON(&shown, "show", "--json", id)
	for _, n := range shown.Attempts[1].Nodes {
		if len(n.RDMA) != 1 || n.RDMA[0].Name != "rxe0" || n.RDMA[0].Driver != "rdma_rxe" || len(n.RDMA[0].Ports) != 1 || n.RDMA[0].Ports[0].State != "ACTIVE" {
			t.Errorf("a node of the guests that were brought up has on record: %+v", n.RDMA)
		}
	}
	if err := os.RemoveAll(filepath.Join(b.Work, "results")); err != nil {
		t.Fatal(err)
	}
	again := strings.TrimSpace(b.Must("--sites", sites, "vm", "restore", "--detach", "--site", "two", saved))
	printed(t, b, again, 1, at)
	b.Touch(again, "enough")
	if v := b.Await(again, savedTime); v.State != "succeeded" {
		t.Fatalf("the run that was brought up: %+v\n%s", v, b.Must("show", again))
	}
	pinged(t, b)
	b.CheckNothingLeft(30 * time.Second)
}
