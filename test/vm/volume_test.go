package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestVolumesOfGuests: what one guest has written the other reads, and it belongs
// to the user. The volume is a data image because the hosts share no directory;
// the job fills it. (Guests with the hosts' directory are in other tests.)
func TestVolumesOfGuests(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	b.File("in/input", "first\n")
	sites := b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2, private_scratch: true}]\n")
	job := b.File("job.yaml", `name: volume
`+build+`
vm: {cpus: 1, memory: 1G}
nodes: 2
volume: {path: /data, kind: auto, size: 256M}
workdir: /data
inputs: [{from: in, to: /data}]
run: |
  set -e
  cat input > first; sync first
  /.bee/rsh lab-1 'set -e; cd /data; cat first; id -u > by; echo second > second; sync second; stat -f -c %T . > kind'
  cat second by
  dd if=/dev/zero of=big bs=1M count=500 2> /tmp/why && exit 3
  grep -q 'No space left' /tmp/why; rm big; exit 4
outputs: [{from: "/data/*", to: results}]
`)
	r := b.Try("--sites", sites, "run", job)
	if r.Code != 4 || r.Stdout != fmt.Sprintf("first\nsecond\n%d\n", os.Geteuid()) {
		t.Fatalf("%+v", r)
	}
	if got := b.Read("results/kind"); got != "nfs\n" {
		t.Errorf("the second guest has a volume of kind %q", got)
	}
	if reported := "raise `volume: {size: …}`"; !strings.Contains(r.Stderr, reported) {
		t.Errorf("it was not told %q: %s", reported, r.Stderr)
	}
}

// TestADataImageMoves: a job whose volume is a data image is asked to save
// itself by a stop file, and continues from its volume, which was in one file.
func TestADataImageMoves(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	job := b.File("job.yaml", `name: mover
`+build+`
vm: {cpus: 1, memory: 1G}
volume: {path: /data, kind: dataimage, size: 1G}
workdir: /data
checkpoint: {file: /data/stop, every: 3s, paths: [/data/state]}
run: |
  echo 1 > state; mkdir -p deep/er; ln -s ../state deep/link; dd if=/dev/urandom of=deep/er/noise bs=1M count=3; sha256sum deep/er/noise > sums
  while [ ! -e stop ]; do sleep 0.2; done
  echo 2 > state; exit 85
resume: test "$(cat deep/link)" = 2 && sha256sum -c sums && ls
outputs: [{from: /data/state, to: results}]
`)
	id := strings.TrimSpace(b.Must("run", "--detach", job))
	testkit.Eventually(t, 10*time.Minute, func() error { // a copy was kept while it ran
		var v struct {
			State       string
			Checkpoints []struct{ Path string }
		}
		b.JSON(&v, "show", "--json", id)
		for _, c := range v.Checkpoints {
			if _, err := os.Stat(filepath.Join(c.Path, "deep", "er", "noise")); err == nil {
				return nil
			}
		}
		return fmt.Errorf("no checkpoint yet: %+v", v)
	})
	b.Must("move", id)
	v := b.Await(id, 10*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("%+v\n%s", v, b.Try("logs", id).Stderr)
	}
	if out := b.Must("logs", id); !strings.Contains(out, "deep/er/noise: OK") || strings.Contains(out, "stop") {
		t.Errorf("%s", out)
	}
	if got := b.Read("results/state"); got != "2\n" {
		t.Errorf("state: %q", got)
	}
}

// TestSyncedWritesSurvive: node 0 and its machine are killed in the middle of
// writing. What was synced there, and by a guest that has the volume from there,
// is collected out of the image they left.
func TestSyncedWritesSurvive(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	job := b.File("job.yaml", `name: synced
`+build+`
vm: {cpus: 1, memory: 1G}
nodes: 2
volume: {path: /data, kind: dataimage, size: 1G}
workdir: /data
run: |
  set -e
  mkdir deep; dd if=/dev/urandom of=deep/kept bs=1M count=5 conv=fsync; sha256sum deep/kept > sum; sync sum; sync -f .
  head -c 5000000 /dev/urandom > /tmp/far; sha256sum < /tmp/far > far-sum; sync far-sum; sync -f .
  /.bee/rsh lab-1 'dd of=/data/deep/far bs=64k conv=fsync' < /tmp/far; touch up
  while true; do dd if=/dev/urandom of=more bs=64k count=40; done
outputs: [{from: /data/deep, to: results}, {from: "/data/*sum", to: results}]
`)
	sites := b.File("sites.yaml", "sites: [{name: lab, provider: local, hosts: 2}]\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	awaitFile(t, b, id, "/data/up")
	machines := machinesOf(id)
	if len(machines) != 2 {
		t.Fatalf("there are machines %v", machines)
	}
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", machines[0]))
	if err != nil {
		t.Fatal(err)
	}
	var node int
	_, rest, _ := strings.Cut(string(raw), ") ")
	if _, err := fmt.Sscanf(rest, "%1s %d", new(string), &node); err != nil || node < 2 {
		t.Fatalf("the machine's parent is %d: %v", node, err)
	}
	if err := syscall.Kill(node, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if v := b.Await(id, 10*time.Minute); v.State != "failed" {
		t.Errorf("it ended %s", v.State)
	}
	for file, sum := range map[string]string{"kept": "sum", "far": "far-sum"} {
		came := sha256.Sum256([]byte(b.Read("results/deep/" + file)))
		if want := b.Read("results/" + sum); !strings.HasPrefix(want, hex.EncodeToString(came[:])+" ") {
			t.Errorf("%s came home other than it was synced: %s", file, want)
		}
	}
}

// TestADataImageIsGivenToARun: what was loaded into an image, without a machine, is
// in the volume, with what inputs add; what is no data image is refused at once.
func TestADataImageIsGivenToARun(t *testing.T) {
	besideOthers(t)
	testkit.RequireTool(t, "mmdebstrap")
	testkit.RequireTool(t, "qemu-system-x86_64")
	b := testkit.NewBee(t)
	b.File("in/deep/part", "of-the-image\n")
	b.File("in/both", "of-the-image\n")
	b.File("both", "of-the-inputs\n")
	image := filepath.Join(b.Work, "in.img")
	digest := b.Must("data", "load", "--size", "100M", image, filepath.Join(b.Work, "in"))
	const text = `name: given
` + build + `
vm: {cpus: 2, sockets: 2, memory: 1G}
volume: {path: /data, kind: dataimage, from: %s, size: 300M}
workdir: /data
inputs: [{from: both, to: /data}]
run: lscpu | grep '^Socket(s)' | tr -d ' '; cat deep/part both; echo more >> deep/part; df --output=fstype . | tail -n 1
outputs: [{from: /data, to: results}]
`
	if r := b.Try("run", b.File("wrong.yaml", fmt.Sprintf(text, "both"))); r.Code != 201 || !strings.Contains(r.Stderr, "`bee data load`") {
		t.Errorf("no data image: %+v", r)
	}
	if got := b.Must("run", b.File("job.yaml", fmt.Sprintf(text, "in.img"))); got != "Socket(s):2\nof-the-image\nof-the-inputs\next4\n" {
		t.Errorf("the job says %q", got)
	}
	if got := b.Read("results/data/deep/part"); got != "of-the-image\nmore\n" {
		t.Errorf("home came %q", got)
	}
	var v struct{ Digest string }
	if b.JSON(&v, "data", "ls", "--json", image); v.Digest != strings.TrimSpace(digest) {
		t.Errorf("the image holds %s, and held %s", v.Digest, digest)
	}
}
