package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// savedTime bounds each of the steps below: two emulated machines beside others
// are slow, and images may have to be built first.
const savedTime = 20 * time.Minute

// ringBee is a bee with two sites of two hosts each, and a job of two ranks that
// exchange messages all the time, by a kind of `nic`. With shared their volume is a data
// image, in which both write to one file.
func ringBee(t *testing.T, nic string, shared bool) (b *testkit.Bee, sites, job string) {
	t.Helper()
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b = testkit.NewBee(t)
	ring, err := os.ReadFile("testdata/ring.py")
	if err != nil {
		t.Fatal(err)
	}
	b.File("ring.py", string(ring))
	volume, file, output := "/data", "", "/data/result"
	if shared {
		volume, file, output = "{path: /data, kind: dataimage, size: 256M}", " turns", "/data/*[st]"
	}
	sites = b.File("sites.yaml", "sites:\n  - {name: one, provider: local, hosts: 2}\n  - {name: two, provider: local, hosts: 2, private_scratch: true}\n")
	job = b.File("job.yaml", `name: ring
`+build+`
vm: {cpus: 1, memory: 1G, nic: `+nic+`}
nodes: 2
volume: `+volume+`
workdir: /data
checkpoint: {mode: vm, grace: 8m}
inputs: [{from: ring.py, to: /data/}]
run: mpirun -n 2 --map-by node python3 ring.py`+file+`
outputs: [{from: "`+output+`", to: ./results}]
`)
	return b, sites, job
}

// ringed checks what the ranks have come to, and written to the file that they share if
// they do, against the same done here.
func ringed(t *testing.T, b *testkit.Bee, shared bool) {
	t.Helper()
	f := strings.Fields(b.Read("results/result"))
	if len(f) != 3 {
		t.Fatalf("the result is %q", f)
	}
	steps, err := strconv.Atoi(f[0])
	if err != nil {
		t.Fatal(err)
	}
	one, other := sha256.Sum256([]byte("0")), sha256.Sum256([]byte("1"))
	var turns strings.Builder
	for step := range steps + 1 {
		fmt.Fprintf(&turns, "%x\n", [][32]byte{one, other}[step%2])
		if step == steps {
			break
		}
		one, other = sha256.Sum256(append(one[:], other[:]...)), sha256.Sum256(append(other[:], one[:]...))
	}
	if hex.EncodeToString(one[:]) != f[1] || hex.EncodeToString(other[:]) != f[2] {
		t.Errorf("after %d steps the ranks have %s", steps, f[1:])
	}
	if shared && b.Read("results/turns") != turns.String() {
		t.Errorf("after %d steps there is something else in the file that both have written to:\n%.2000s", steps, b.Read("results/turns"))
	}
	t.Logf("%d steps", steps)
}

// printed waits for output of an attempt, and gives its last number.
func printed(t *testing.T, b *testkit.Bee, id string, attempt, after int) int {
	t.Helper()
	last := 0
	testkit.Eventually(t, savedTime, func() error {
		r := b.Try("logs", "--attempt", strconv.Itoa(attempt), id)
		f := strings.Fields(r.Stdout)
		if len(f) > 0 {
			last, _ = strconv.Atoi(f[len(f)-1])
		}
		if last <= after {
			var v testkit.RunView
			if b.JSON(&v, "show", "--json", id); v.State != "queued" && v.State != "running" {
				t.Fatalf("the run is over: %s\n%s", b.Must("show", id), b.Try("logs", id).Stdout)
			}
			return b.Explained(id, fmt.Sprintf("attempt %d has printed %d %s", attempt, last, r.Stderr))
		}
		return nil
	})
	return last
}

// TestMachinesAreSavedAndGoOn: all machines of a run are saved in the middle of
// MPI communication; they continue here, twice, then elsewhere (and back in
// `make test-long`), and the ranks come to what they would have come to anyway, and so does the file that both append to and
// read all the time, in a data image of the first guest. Of the output nothing is missing
// or comes twice. What was saved at first still makes a run afterwards, with the file as
// it was then. The rings of their network devices are saved with them; those of machines
// with a volume each are in TestKilledWhileMachinesAreSaved.
func TestMachinesAreSavedAndGoOn(t *testing.T) {
	besideOthers(t)
	b, sites, job := ringBee(t, "vhost", true)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	at := printed(t, b, id, 1, 50)
	saved := filepath.Join(b.Work, "saved")
	t.Log(b.Must("vm", "snapshot", "--json", id, saved))
	if r := b.Try("vm", "restore", saved); r.Code == 0 || !strings.Contains(r.Stderr, "bee stop "+id) {
		t.Errorf("bringing up machines that still run: %d %s", r.Code, r.Stderr)
	}
	at = printed(t, b, id, 1, at+100)
	b.Must("checkpoint", id)
	testkit.Eventually(t, savedTime, func() error {
		var v struct {
			Attempts    []struct{}
			Checkpoints []struct{ Attempt int }
		}
		b.JSON(&v, "show", "--json", id)
		if len(v.Checkpoints) != 1 || v.Checkpoints[0].Attempt != 1 || len(v.Attempts) != 1 {
			return fmt.Errorf("no checkpoint of the first attempt is at home: %+v", v)
		}
		return nil
	})
	at = printed(t, b, id, 1, at+100)
	sitesOf := []string{"one", "two"}
	if testkit.Everything() {
		sitesOf = append(sitesOf, "one")
	}
	for attempt := 2; attempt <= len(sitesOf); attempt++ {
		b.Must("move", id)
		at = printed(t, b, id, attempt, at+100)
	}
	b.Touch(id, "enough")
	v := b.Await(id, savedTime)
	if v.State != "succeeded" || len(v.Attempts) != len(sitesOf) {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	for i, site := range sitesOf {
		if v.Attempts[i].Site != site {
			t.Errorf("attempt %d ran on %s, not on %s", i+1, v.Attempts[i].Site, site)
		}
	}
	ringed(t, b, true)
	var all strings.Builder
	for attempt := range sitesOf {
		all.WriteString(b.Must("logs", "--attempt", strconv.Itoa(attempt+1), id))
	}
	for i, word := range strings.Fields(all.String()) {
		if word != strconv.Itoa(50*(i+1)) {
			t.Fatalf("line %d of the output is %s", i+1, word)
		}
	}
	if err := os.RemoveAll(filepath.Join(b.Work, "results")); err != nil {
		t.Fatal(err)
	}
	again := strings.TrimSpace(b.Must("--sites", sites, "vm", "restore", "--detach", "--site", "two", saved))
	printed(t, b, again, 1, 0)
	b.Touch(again, "enough")
	if v := b.Await(again, savedTime); v.State != "succeeded" {
		t.Fatalf("the run that was brought up: %+v\n%s", v, b.Must("show", again))
	}
	ringed(t, b, true)
	b.CheckNothingLeft(30 * time.Second)
}

// TestMachinesWithSocketsAreSavedAndGoOn, those of hosts that have no rings, once.
func TestMachinesWithSocketsAreSavedAndGoOn(t *testing.T) {
	testkit.Long(t, "TestMachinesAreSavedAndGoOn, with rings")
	besideOthers(t)
	b, sites, job := ringBee(t, "socket", false)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	at := printed(t, b, id, 1, 50)
	b.Must("move", id)
	printed(t, b, id, 2, at+100)
	b.Touch(id, "enough")
	if v := b.Await(id, savedTime); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	ringed(t, b, false)
}
