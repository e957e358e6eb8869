package vm

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/testkit"
)

// atATime is how many tests with guests run beside each other: some wait while others
// compute, and each guest has its memory.
var atATime = make(chan struct{}, 2) // of all tests of the package

// build is the image of all jobs that need programs of Debian: it is built once.
const build = "build: {debian: bookworm, slim: true, packages: [openmpi-bin, python3-mpi4py, socat, ibverbs-utils, ibverbs-providers]}"

// besideOthers has a test run beside another one.
func besideOthers(t *testing.T) {
	t.Helper()
	t.Parallel()
	atATime <- struct{}{}
	t.Cleanup(func() { <-atATime })
}

// vmBee is a bee with the job of an example in virtual machines.
func vmBee(t *testing.T, example, vm string) *testkit.Bee {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	b.CopyExample(example)
	job := filepath.Join(b.Work, example, "job.yaml")
	raw, err := os.ReadFile(job)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(job, append(raw, "vm: "+vm+"\n"...), 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}

// thermo gives the lines of LAMMPS's log that hold numbers of the physics.
func thermo(log string) string {
	return strings.Join(regexp.MustCompile(`(?m)^ +\d+(?: +-?[\d.]+){4} *$`).FindAllString(log, -1), "\n")
}

// outside gives what LAMMPS prints without virtual machines, computed once.
func outside(t *testing.T) string {
	t.Helper()
	outsideOnce.Do(func() { outsideText = thermo(testkit.Example(t, "lammps").Read("lammps/log.lammps")) })
	if outsideText == "" {
		t.Fatal("without virtual machines it computed nothing")
	}
	return outsideText
}

var ( // for several tests
	outsideOnce sync.Once
	outsideText string
)

// TestLAMMPSInVirtualMachines: two guests, their Docker, MPI over the switch
// between them; the same numbers as on the hosts themselves. The volume is a data
// image.
func TestLAMMPSInVirtualMachines(t *testing.T) {
	testkit.Long(t, "TestMPIInVirtualMachines of test/e2e")
	besideOthers(t)
	outside := outside(t)
	b := vmBee(t, "lammps", "{cpus: 1, memory: 1G}\nvolume: dataimage")
	if r := b.Try("--sites", "sites.yaml", "run", "lammps/job.yaml"); r.Code != 0 || strings.Contains(r.Stderr, "unhandled shell") {
		t.Fatalf("%d: %s", r.Code, r.Stderr)
	}
	log := b.Read("lammps/log.lammps")
	if inside := thermo(log); inside != outside || inside == "" {
		t.Errorf("in virtual machines:\n%s\noutside:\n%s", inside, outside)
	}
	if procs := testkit.Number(t, log, `Loop time of \S+ on (\d+) procs`); procs != 2 {
		t.Errorf("it ran on %v processes", procs)
	}
	var v testkit.RunView
	b.JSON(&v, "show", "--json", strings.TrimSpace(b.Must("ps", "-aq")))
	if got := v.Attempts[0].Runtime; got != "vm" {
		t.Errorf("it ran by %q", got)
	}
	if got := v.Attempts[0].Nodes; len(got) != 2 || got[0].Cores != 1 || got[1].Cores != 1 {
		t.Errorf("guests of one processor are told as %+v", got)
	}
}

// TestInsideVirtualMachines looks into a running pair of guests, on hosts that
// share no file system, and then kills one of them.
func TestInsideVirtualMachines(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	sites := b.File("sites.yaml", "sites:\n  - {name: lab, provider: local, hosts: 2, private_scratch: true}\n")
	job := b.File("job.yaml", `name: inside
`+build+`
vm: {cpus: 1, memory: 1G}
rdma: soft
nodes: 2
run: |
  set -e
  id -u > uid; hostname > names; /.bee/rsh lab-1 hostname >> names
  /.bee/rsh lab-1 'head -c 3000000 /dev/zero | socat - TCP-LISTEN:7000' &
  socat -u TCP:node1:7000,retry=600,interval=0.1 - | wc -c > got; getent hosts node1 > address
  /.bee/rsh lab-1 getent hosts node0 >> address
  ibv_rc_pingpong -g 1 -c -n 50 > served &
  until /.bee/rsh lab-1 ibv_rc_pingpong -g 1 -c -n 50 node0 > called; do sleep 0.2; done; wait $!
  touch up; sleep 1000
workdir: /work
outputs: [{from: /work/*, to: ./results}]
`)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	testkit.Eventually(t, 10*time.Minute, func() error {
		if len(machinesOf(id)) < 2 {
			return errors.New("there are no machines yet")
		}
		return nil
	})
	system := imagesOf(t, machinesOf(id)[0])
	before := digests(t, system)
	awaitFile(t, b, id, "/work/up")
	if got := b.Must("exec", id, "--", "cat", "/work/names"); got != "lab-0\nlab-1\n" {
		t.Errorf("names: %q", got)
	}
	if got := b.Must("exec", id, "--", "cat", "/work/got", "/work/address"); !strings.HasPrefix(got, "3000000\n10.77.0.2 ") || !strings.Contains(got, "\n10.77.0.1 ") {
		t.Errorf("over the guests' network came %q", got)
	}
	if got := strings.TrimSpace(b.Must("exec", id, "--", "cat", "/work/uid")); got != strconv.Itoa(os.Geteuid()) {
		t.Errorf("the job has uid %s", got)
	}
	if got := b.Must("vm", "shell", id, "--", "docker", "ps", "--format", "{{.Image}}"); !strings.HasPrefix(got, "bee.local/image:") {
		t.Errorf("docker in the guest knows %q", got)
	}
	const runtimes = `docker info --format '{{.DefaultRuntime}}'; docker run --rm --runtime runc --network host --entrypoint echo "$(docker ps --format '{{.Image}}')" by runc`
	if got := b.Must("vm", "shell", id, "--", "sh", "-c", runtimes); got != "crun\nby runc\n" {
		t.Errorf("docker's runtimes: %q", got)
	}
	for _, file := range []string{"served", "called"} {
		if got := b.Must("exec", id, "--", "cat", "/work/"+file); !strings.Contains(got, "GID ::ffff:10.77.0.2") || !strings.Contains(got, "\n50 iters in ") {
			t.Errorf("over RDMA between the guests: %s has %q", file, got)
		}
	}
	if got := strings.TrimSpace(b.Must("exec", id, "--", "sh", "-c", "ulimit -l")); got != "unlimited" {
		t.Errorf("the container may lock %s KiB of memory", got)
	}
	if got := b.Must("vm", "shell", id, "1", "--", "sh", "-c", "id -u; hostname"); got != "0\nlab-1\n" {
		t.Errorf("in the guest we are %q", got)
	}
	if got := b.Must("vm", "console", id); !strings.Contains(got, "Booting") || strings.Contains(got, "\x1b") {
		t.Errorf("the console has %q", got)
	}
	var stats []fabric.Stats
	b.JSON(&stats, "fabric", "stats", "--json", id)
	if len(stats) != 2 || stats[0].ToBytes < 3000000 || !stats[1].Peers[0].Up {
		t.Errorf("the switches say %+v", stats)
	}

	// A guest has no network but that of the others: it is reached by its node.
	b.ReachInto(id, 1, `printf '%s\n' 'read request; printf "HTTP/1.0 200 OK\r\nContent-Length: 11\r\n\r\n"; cat /tmp/sent' >/tmp/serve
socat TCP-LISTEN:PORT,bind=127.0.0.1,fork EXEC:'sh /tmp/serve' </dev/null >/dev/null 2>&1 &`)
	checkSSH(t, b, id)
	if after := digests(t, system); !slices.Equal(before, after) {
		t.Errorf("images that many guests boot were written to: %v", system)
	}

	machines := machinesOf(id)
	if len(machines) != 2 {
		t.Fatalf("there are machines %v", machines)
	}
	syscall.Kill(machines[0], syscall.SIGKILL) // in which the command runs
	v := b.Await(id, time.Minute)
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if v.State != "failed" || !bytes.Contains(raw, []byte("QEMU")) || !bytes.Contains(raw, []byte("(signal: killed)")) || !bytes.Contains(raw, []byte("`checkpoint:`")) {
		t.Errorf("the run of a killed machine: %s", raw)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if left := machinesOf(id); len(left) > 0 {
			return errors.New("a machine is left")
		}
		return nil
	})
}

// imagesOf are the files that a machine has as disks to be read, one at least.
func imagesOf(t *testing.T, pid int) (files []string) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`,readonly=on,file=([^\x00]+)`).FindAllSubmatch(raw, -1) {
		files = append(files, string(found[1]))
	}
	if !slices.ContainsFunc(files, func(file string) bool { return filepath.Base(file) == "root.sqfs" }) {
		t.Fatalf("the system image is not among what is only read: %q", raw)
	}
	return files
}

func digests(t *testing.T, files []string) (all []string) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			t.Fatal(err)
		}
		all = append(all, hex.EncodeToString(sum.Sum(nil)))
	}
	return all
}

// everyFabric is what two guests do with each other.
const everyFabric = `run: |
  set -e
  mpirun -n 2 --host ONE,OTHER lmp -in in.melt
  /.bee/rsh ONE 'python3 -c "import socket; print(len(socket.create_server((\"\", 7000)).accept()[0].makefile(\"rb\").read()))" > got' &
  /.bee/rsh OTHER 'bash -c "until head -c 3000000 /dev/zero > /dev/tcp/ONE/7000; do sleep 0.2; done 2> /dev/null"'
  wait
  echo came: $(cat got)
`

// TestEveryFabric has LAMMPS compute over each of the networks between guests, by
// turns with each volume, for fewer steps than outside, and has much sent at once. The
// last two guests do it: in a star and a tree only guest 0's host joins them. The switch
// with rings has its data image in TestLAMMPSInVirtualMachines.
func TestEveryFabric(t *testing.T) {
	testkit.Long(t, "TestEveryKindReachesAll of internal/fabric")
	besideOthers(t)
	outside := outside(t)
	for _, c := range []struct {
		fabric, volume string
		hosts          int
	}{
		{"star", "virtio", 3},
		{"multicast", "dataimage", 2},
		{"switch", "virtio", 2},
		{"tree", "dataimage", 3},
		{"switch, nic: socket, encryption: none", "virtio", 2},
	} {
		t.Run(c.fabric, func(t *testing.T) {
			b := vmBee(t, "lammps", "{cpus: 1, memory: 1G, fabric: "+c.fabric+"}\nvolume: "+c.volume)
			b.File("lammps/input/in.melt", strings.Replace(b.Read("lammps/input/in.melt"), "500", "200", 1))
			one, other := fmt.Sprintf("lab-%d", c.hosts-2), fmt.Sprintf("lab-%d", c.hosts-1)
			sites := b.File("sites.yaml", fmt.Sprintf("sites: [{name: lab, provider: local, hosts: %d}]\n", c.hosts))
			run := strings.NewReplacer("ONE", one, "OTHER", other).Replace(everyFabric)
			job := b.File("lammps/job.yaml", strings.NewReplacer("nodes: 2", fmt.Sprintf("nodes: %d", c.hosts), "run: mpirun lmp -in in.melt", run).Replace(b.Read("lammps/job.yaml")))
			if r := b.Try("--sites", sites, "run", job); r.Code != 0 || !strings.HasSuffix(r.Stdout, "came: 3000000\n") {
				t.Fatalf("%+v", r)
			} else if warned := strings.Contains(r.Stderr, "`encryption: none`"); warned != (strings.Contains(c.fabric, "encryption: none") || c.fabric == "multicast") { // which has none at all
				t.Errorf("of links in clear one is told: %s", r.Stderr)
			}
			log := b.Read("lammps/log.lammps")
			if inside := thermo(log); !strings.HasPrefix(outside, inside) || strings.Count(inside, "\n") != 2 {
				t.Errorf("in virtual machines:\n%s\noutside, where it goes on:\n%s", inside, outside)
			}
			if procs := testkit.Number(t, log, `Loop time of \S+ on (\d+) procs`); procs != 2 {
				t.Errorf("it ran on %v processes", procs)
			}
		})
	}
}

// machinesOf gives the processes of a run's virtual machines in its first
// attempt, by rank.
func machinesOf(run string) []int { return machinesIn(run, 1) }

func machinesIn(run string, attempt int) []int {
	var pids []int
	for rank := range 4 {
		name := []byte(fmt.Sprintf("guest=bee-%s-%d-%d,", run, attempt, rank))
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil || !bytes.Contains(raw, name) {
				continue
			}
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// TestVirtualMachinesOnlyWhereNeeded: this host runs containers itself.
func TestVirtualMachinesOnlyWhereNeeded(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	b := testkit.NewBee(t)
	job := b.File("job.yaml", build+"\nvm: auto\nrun: cat /proc/sys/kernel/random/boot_id\n")
	own, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Must("run", "-q", job); got != string(own) {
		t.Errorf("it ran under another kernel: %q", got)
	}
}
