package vm

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestSeveralVirtualMachinesOnAHost: three nodes on two hosts, two of them on
// the first. Each is a node like any other; neighbours' frames stay on the submitting machine.
func TestSeveralVirtualMachinesOnAHost(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, private_scratch: true}\n")
	job := b.File("job.yaml", `name: crowd
`+build+`
vm: {per_host: 2, cpus: 1, memory: 1G}
nodes: 3
ranks_per_node: 1
run: |
  set -e
  echo $BEE_NODELIST > said; cat $BEE_HOSTFILE >> said
  for h in lab-0-vm0 lab-0-vm1 lab-1-vm0; do /.bee/rsh $h 'hostname; echo $BEE_NODE_RANK'; done >> said
  for h in lab-0-vm0 lab-0-vm1 lab-1-vm0; do /.bee/rsh $h 'cat /sys/class/net/*/mtu | sort -n | tr "\n" " "; echo'; done > mtus
  /.bee/rsh lab-1-vm0 'getent hosts node0 node1' > names
  /.bee/rsh lab-0-vm1 'socat -u TCP-LISTEN:7000 - | wc -c > got-1' &
  sleep 1
  head -c 3000000 /dev/zero | socat -u - TCP:node1:7000,retry=600,interval=0.1
  wait
  /.bee/rsh lab-1-vm0 'socat -u TCP-LISTEN:7000 - | wc -c > got-2' &
  sleep 1
  head -c 200000 /dev/zero | socat -u - TCP:node2:7000,retry=600,interval=0.1
  wait
  touch up; sleep 1000
workdir: /data
volume: /data
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	awaitFile(t, b, id, "/data/up")
	want := "lab-0-vm0,lab-0-vm1,lab-1-vm0\n"
	printed := b.Must("exec", id, "--", "cat", "/data/said")
	if !strings.HasPrefix(printed, want) || !strings.HasSuffix(printed, "lab-0-vm0\n0\nlab-0-vm1\n1\nlab-1-vm0\n2\n") || strings.Count(printed, "lab-0-vm1") != 3 {
		t.Errorf("it says %q", printed)
	}
	mtus := strings.Split(b.Must("exec", id, "--", "cat", "/data/mtus"), "\n")
	if len(mtus) != 4 || mtus[0] != mtus[1] || mtus[0] != mtus[2] || len(strings.Fields(mtus[0])) < 3 {
		t.Errorf("the guests' devices have frames of %q", mtus)
	}
	if got := b.Must("exec", id, "--", "cat", "/data/names"); !strings.HasPrefix(got, "10.77.0.1 ") || !strings.Contains(got, "\n10.77.0.2 ") {
		t.Errorf("node 2 has the others at %q", got)
	}
	for rank := range 3 { // all share the volume, though their hosts share nothing
		if got := b.Must("exec", "--node", fmt.Sprint(rank), id, "--", "cat", "/data/got-1", "/data/got-2"); got != "3000000\n200000\n" {
			t.Errorf("node %d sees %q", rank, got)
		}
	}
	if got := b.Must("vm", "shell", id, "--node", "2", "--", "hostname"); got != "lab-1-vm0\n" {
		t.Errorf("guest 2 is %q", got)
	}
	var stats []fabric.Stats
	b.JSON(&stats, "fabric", "stats", "--json", id)
	if len(stats) != 2 || stats[0].Guests != 2 || stats[1].Guests != 1 || stats[1].Rank != 2 || stats[0].ToBytes < 3000000 ||
		stats[0].Peers[0].SentBytes > 1500000 || stats[0].Peers[0].SentBytes < 200000 {
		t.Errorf("the switches say %+v", stats)
	}
	machines := machinesOf(id)
	if len(machines) != 3 {
		t.Fatalf("there are machines %v", machines)
	}
	for _, pid := range machines {
		if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err != nil || !bytes.Contains(raw, []byte("vhost-user")) {
			t.Errorf("a guest is not attached by rings: %q, %v", raw, err)
		}
	}
	if one, other := imagesOf(t, machines[0]), imagesOf(t, machines[1]); !slices.Equal(one, other) {
		t.Errorf("guests of one host read %v and %v", one, other)
	}
	syscall.Kill(machines[1], syscall.SIGKILL)
	if v := b.Await(id, time.Minute); v.State != "failed" || !strings.Contains(v.Error.Message, "lab-0-vm1") {
		t.Errorf("the run of a killed guest: %+v, %+v", v, v.Error)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if left := machinesOf(id); len(left) > 0 {
			return errors.New("a machine is left")
		}
		return nil
	})
	if log := b.Try("logs", "--node", "1", id); log.Code != 0 {
		t.Errorf("the log of a host's second node: %+v", log)
	}
}

// awaitFile waits until a run has made a file, or has ended. One command waits in the
// guest: each that is started there takes a second of its emulated processor.
func awaitFile(t *testing.T, b *testkit.Bee, id, path string) {
	t.Helper()
	testkit.Eventually(t, 10*time.Minute, func() error { // three emulated machines, perhaps beside other tests
		r := b.Try("exec", id, "--", "sh", "-c", "until [ -e "+path+" ]; do sleep 1; done")
		if r.Code == 0 {
			return nil
		}
		var v testkit.RunView
		if b.JSON(&v, "show", "--json", id); v.State == "succeeded" || v.State == "failed" || v.State == "stopped" {
			t.Fatalf("it has ended:\n%s\n%s", b.Must("show", id), b.Must("logs", id))
		}
		return fmt.Errorf("not up: %d %s", r.Code, r.Stderr)
	})
}
