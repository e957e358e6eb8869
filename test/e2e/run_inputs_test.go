package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// TestInputsOfAnEarlierRun: a solver has what a mesher left in its volume, also where controllers
// are killed meanwhile. The volume is kept for it, and released after its end. Once it is gone,
// no run can read it.
func TestInputsOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	b := testkit.NewBee(t)
	b.Oversubscribe()
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("jobs.yaml", `name: solver
image: `+image+`
after: [gate]
inputs: [{from: {run: mesher, path: mesh}, to: /work}, {from: {run: mesher, path: mesh/grid}, to: /data/}, {from: ./own, to: /work/}]
run: cat grid own /data/grid; test ! -e out/hostname; test -L out
---
name: mesher
image: `+image+`
run: mkdir mesh; echo 42 > mesh/grid; echo theirs > mesh/own; ln -s /nowhere mesh/out; ln -s /etc out; touch begun; until [ -e go ]; do sleep 0.1; done
---
name: gate
image: `+image+`
run: touch begun; until [ -e go ]; do sleep 0.1; done
---
name: out
image: `+image+`
inputs: [{from: {run: mesher, path: out/hostname}, to: /work}]
run: cat hostname
`)
	b.File("own", "mine\n")
	if plan := b.Must("plan", "jobs.yaml"); !strings.Contains(plan, "input /work: mesh of run mesher") {
		t.Errorf("the plan does not name the run:\n%s", plan)
	}
	ids := map[string]string{}
	for i, id := range strings.Fields(b.Must("run", "-d", "-q", "jobs.yaml")) {
		ids[[]string{"solver", "mesher", "gate", "out"}[i]] = id
	}
	killed := func() {
		t.Helper()
		for _, pid := range b.Controllers() {
			testkit.Kill(pid)
		}
		b.Must("supervise")
	}
	for _, name := range []string{"mesher", "gate"} {
		commandBegun(t, b, ids[name])
	}
	killed()
	b.Touch(ids["mesher"], "/work/go")
	if v := b.Await(ids["mesher"], time.Minute); v.State != "succeeded" {
		t.Fatalf("the mesher: %+v", v)
	}
	if v := b.Await(ids["out"], time.Minute); v.State != "failed" || v.Error == nil || !strings.Contains(v.Error.Message, "out/hostname") {
		t.Errorf("a link leads out of the volume: %+v, %v", v, v.Error)
	}
	killed() // the volume is lent, and no controller knows
	b.Must("sweep")
	if r := b.Try("rm", ids["mesher"]); r.Code == 0 || !strings.Contains(r.Stderr, ids["solver"]) {
		t.Errorf("a run whose volume is read is removed: %+v", r)
	}
	if testkit.Events(b, ids["mesher"], event.KindVolumeLent, ids["solver"]) != 1 {
		t.Errorf("its history does not name the runs that its volume is kept for:\n%s", b.Must("show", ids["mesher"]))
	}
	b.Touch(ids["gate"], "/work/go")
	if v := b.Await(ids["solver"], time.Minute); v.State != "succeeded" {
		t.Fatal(b.Explained(ids["solver"], "it is "+v.State))
	}
	if out := b.Must("logs", ids["solver"]); out != "42\nmine\n42\n" {
		t.Errorf("the solver had %q", out)
	}
	if n := testkit.Events(b, ids["solver"], event.KindRunInput, `"transfer":"copied"`); n != 2 {
		t.Errorf("%d inputs were copied, want 2:\n%s", n, b.Must("show", ids["solver"]))
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if testkit.Events(b, ids["mesher"], event.KindVolumeReleased) != 1 {
			return b.Explained(ids["mesher"], "its volume is not released")
		}
		return nil
	})
	b.File("late.yaml", "image: "+image+"\ninputs: [{from: {run: mesher, path: mesh}, to: /work}]\nrun: cat grid\n")
	if r := b.Try("run", "late.yaml"); r.Code != 202 || !strings.Contains(r.Stderr, ids["mesher"]) || !strings.Contains(r.Stderr, "outputs:") {
		t.Errorf("a run reads a volume that is gone: %+v", r)
	}
	b.Must("rm", ids["mesher"])
	b.CheckNothingLeft(20 * time.Second)
}

// commandBegun waits until a job has made a file.
func commandBegun(t *testing.T, b *testkit.Bee, id string) {
	t.Helper()
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "test", "-e", "/work/begun"); r.Code != 0 {
			return errors.New(r.Stderr)
		}
		return nil
	})
}

// TestInputsOfAnEarlierRunElsewhere: on the same host they are copied there, and from another site
// they come directly, or relayed where they are small.
func TestInputsOfAnEarlierRunElsewhere(t *testing.T) {
	t.Parallel()
	const size = 20 << 20
	farm := sshfarm.Start(t, 2)
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	site := "  - {name: NAME, provider: ssh, hosts: [HOST], scratch: " + farm.Private + ", slots: 4, runs: 4, oversubscribe: true}\n"
	b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("two.yaml", "sites:\n"+
		strings.NewReplacer("NAME", "one", "HOST", "h0").Replace(site)+strings.NewReplacer("NAME", "two", "HOST", "h1").Replace(site)))
	for host := range farm.Names {
		if err := farm.Apart(t.Context(), host, false); err != nil {
			t.Fatal(err)
		}
	}
	b.File("jobs.yaml", fmt.Sprintf(`name: mesher
image: %[1]s
sites: [one]
run: mkdir mesh; head -c %[2]d /dev/urandom > mesh/noise; cd mesh; md5sum noise > sum
---
name: same
image: %[1]s
sites: [one]
inputs: [{from: {run: mesher, path: mesh}, to: /work}]
run: md5sum -c sum
---
name: other
image: %[1]s
sites: [two]
inputs: [{from: {run: mesher, path: mesh/noise}, to: /big/}, {from: {run: mesher, path: mesh/sum}, to: /work}]
run: cd /big; md5sum -c /work/sum
`, image, size))
	before := farm.Carried(t)
	ids := strings.Fields(b.Must("run", "-d", "-q", "jobs.yaml"))
	for _, id := range ids {
		if v := b.Await(id, 2*time.Minute); v.State != "succeeded" {
			t.Fatal(b.Explained(id, "it is "+v.State))
		}
	}
	for i, ways := range [][]string{nil, {`"transfer":"copied"`}, {`"transfer":"direct"`, `"transfer":"relayed"`}} {
		for _, way := range ways {
			if testkit.Events(b, ids[i], event.KindRunInput, way, `"site":"one"`) != 1 {
				t.Errorf("no input came so: %s\n%s", way, b.Must("show", ids[i]))
			}
		}
	}
	// The binary and the image pass this machine. The noise would do so twice for each input.
	if carried := farm.Carried(t) - before; carried > size*3/2 {
		t.Errorf("%d MiB passed this machine", carried>>20)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if testkit.Events(b, ids[0], event.KindVolumeReleased) != 1 {
			return b.Explained(ids[0], "its volume is not released")
		}
		return nil
	})
	b.Must("rm", ids[0], ids[1], ids[2])
	left(t, farm)
}
