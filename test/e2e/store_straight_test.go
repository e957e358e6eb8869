package e2e

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestAMoveGoesStraight: a run goes from one site to another by a store on a third
// host, and its volume does not pass this machine; but where the three do not reach
// each other, it does.
func TestAMoveGoesStraight(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	for name, apart := range map[string]bool{"hosts that reach each other": false, "hosts that are apart": true} {
		t.Run(name, func(t *testing.T) {
			b, farm, job := sitesOfOneHost(t, 3, size, func(dir string) string { return "store: h2:" + filepath.Join(dir, "bee-h2") + "\n" }, apart)
			v, carried := movesOnce(t, b, farm, job)
			wantRoute(t, b, v.ID, "one", "", farm.Addrs[2], !apart)
			wantRoute(t, b, v.ID, "", "two", "", !apart)
			// Twice there and twice back is what passes here otherwise.
			if !apart && carried > size/2 || apart && carried < 4*size {
				t.Errorf("%d MiB passed this machine", carried>>20)
			}
			b.Must("rm", v.ID)
			left(t, farm)
		})
	}
}

// TestAMoveByABucket: a run goes from one site to another by a bucket on a third host. The first one stores its checkpoint
// there itself, without credentials; where it does not reach the bucket, the checkpoint passes this machine.
func TestAMoveByABucket(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	for name, apart := range map[string]bool{"hosts that reach it": false, "hosts that do not": true} {
		t.Run(name, func(t *testing.T) {
			b, farm, job := sitesOfOneHost(t, 3, size, func(string) string { return "" }, apart)
			server := bucketOfAFarm(t, farm, 2)
			b.Env = append(append(b.Env, server.Env()...), "HTTP_PROXY="+server.Route(t))
			b.File("straight.yaml", "store: s3://"+server.Bucket+"/bee\n"+b.Read("straight.yaml"))
			v, carried := movesOnce(t, b, farm, job)
			wantRoute(t, b, v.ID, "one", "", "", !apart)
			// Once it is restored, and else it is collected as well.
			if !apart && carried > size*3/2 || apart && carried < 2*size {
				t.Errorf("%d MiB passed this machine", carried>>20)
			}
			b.Must("rm", v.ID)
			left(t, farm)
			if names, err := filepath.Glob(filepath.Join(server.Dir, "bee", "*")); err != nil || len(names) > 0 {
				t.Errorf("left in the bucket: %q, %v", names, err)
			}
		})
	}
}

// sitesOfOneHost gives two sites, each of one host of a farm whose hosts reach each other
// or are apart, what else their file says, and a job that has so many bytes in its volume
// and waits, in each attempt, for a file.
func sitesOfOneHost(t *testing.T, hosts, size int, further func(private string) string, apart bool) (*testkit.Bee, *sshfarm.Farm, string) {
	t.Helper()
	b, farm, job := rack(t, hosts, "volume: /data", "workdir: /data", "checkpoint: {grace: 3s}", "outputs: [{from: /data/log, to: results}, {from: /data/done, to: results}]",
		fmt.Sprintf("setup: head -c %d /dev/urandom >noise; md5sum noise >sum", size),
		"run: "+strings.Replace(heldCounter("! -e go"), "|\n", "|\n  md5sum -c sum || exit 9\n", 1))
	site := "  - {name: NAME, provider: ssh, hosts: [HOST], scratch: " + farm.Private + ", slots: 2}\n"
	b.Env = append(b.Env, "BEE_SITES="+b.File("straight.yaml", further(farm.Private)+"sites:\n"+
		strings.NewReplacer("NAME", "one", "HOST", "h0").Replace(site)+strings.NewReplacer("NAME", "two", "HOST", "h1").Replace(site)))
	for host := range farm.Names {
		if err := farm.Apart(t.Context(), host, apart); err != nil {
			t.Fatal(err)
		}
	}
	return b, farm, job
}

// movesOnce runs such a job, which is moved from the first site to the second, and reports
// how many bytes have passed this machine meanwhile.
func movesOnce(t *testing.T, b *testkit.Bee, farm *sshfarm.Farm, job string) (v testkit.RunView, carried int64) {
	t.Helper()
	id := strings.TrimSpace(b.Must("run", "-d", job))
	counts := func(attempts string) {
		t.Helper()
		testkit.Eventually(t, 2*time.Minute, func() error {
			if r := b.Try("exec", id, "--", "sh", "-c", "test $(wc -l </data/log) = "+attempts); r.Code != 0 {
				return b.Explained(id, r.Stderr)
			}
			return nil
		})
	}
	counts("1")
	begun := farm.Carried(t)
	b.Must("move", id)
	counts("2")
	carried = farm.Carried(t) - begun
	b.Touch(id, "/data/go")
	v = b.Await(id, 2*time.Minute)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "two" || b.Read("results/done") != "60\n" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	return v, carried
}

// wantRoute looks for one event of a route from one place to another, "" for the store: with
// the address that it goes to, or with the reason why it does not.
func wantRoute(t *testing.T, b *testkit.Bee, id, from, to, address string, direct bool) {
	t.Helper()
	fields := []string{fmt.Sprintf(`"from":%q`, from), fmt.Sprintf(`"to":%q`, to), fmt.Sprintf(`"direct":%v`, direct), address + ":"}
	if testkit.Events(b, id, event.KindRoute, fields...) != 1 {
		t.Errorf("its history has no route with %q:\n%s", fields, b.Must("show", id))
	}
}

// TestACheckpointOfAClusterGoesStraight from its login node to the store. The next attempt,
// on the same cluster, does without: what it continues from is there still.
func TestACheckpointOfAClusterGoesStraight(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 2, ", slot: 10m", "volume: /data", "workdir: /data", "checkpoint: {grace: 3s}", "outputs: [{from: /data/log, to: results}, {from: /data/done, to: results}]",
		"run: "+heldCounter("$BEE_ATTEMPT = 1"))
	b.Env = append(b.Env, "BEE_SITES="+b.File("stored.yaml", "store: h1:"+filepath.Join(farm.Private, "bee-h1")+"\n"+b.Read("sites.yaml")))
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/data/log"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	b.Must("move", id)
	v, shown := b.Await(id, 2*time.Minute), b.Must("show", id)
	if v.State != "succeeded" || len(v.Attempts) != 2 || b.Read("results/done") != "60\n" {
		t.Fatalf("the run: %+v\n%s", v, shown)
	}
	wantRoute(t, b, id, "cluster", "", "", true)
	if testkit.Events(b, id, event.KindVolumeReused, `"of":1`) == 0 {
		t.Errorf("the second attempt began on another volume:\n%s", shown)
	}
	b.Must("rm", id)
}

// TestAMoveWithoutAStoreGoesStraight: what an attempt has saved is collected, and from
// its site directly to the next one's; but where the two do not reach each other, it
// goes to that from home. In the end nothing is left on either.
func TestAMoveWithoutAStoreGoesStraight(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	for name, apart := range map[string]bool{"hosts that reach each other": false, "hosts that are apart": true} {
		t.Run(name, func(t *testing.T) {
			b, farm, job := sitesOfOneHost(t, 2, size, func(string) string { return "" }, apart)
			farm.Home(t, 100_000_000/8)
			v, carried := movesOnce(t, b, farm, job)
			wantRoute(t, b, v.ID, "one", "two", farm.Addrs[1], !apart)
			// Once it has to be collected.
			if !apart && carried > size*3/2 || apart && carried < 2*size {
				t.Errorf("%d MiB passed this machine", carried>>20)
			}
			testkit.Figure(t, "%d MiB passed this machine; attempt 2 waited %v for the checkpoint", carried>>20, v.Attempts[1].Phases["stage"])
			left(t, farm)
		})
	}
}

// TestARunGoesOnWithWhatIsThereStill: its next attempt is on the same host, and neither
// what it continues from nor its input travels. In the end nothing is left there.
func TestARunGoesOnWithWhatIsThereStill(t *testing.T) {
	t.Parallel()
	const size = 32 << 20
	b, farm, job := sitesOfOneHost(t, 2, size, func(string) string { return "" }, false)
	b.Env = append(b.Env, "BEE_SITES="+b.File("one.yaml", strings.Replace(b.Read("straight.yaml"), "name: two, provider: ssh, hosts: [h1]", "name: two, provider: ssh, hosts: [h0]", 1)))
	input := make([]byte, size/2)
	rand.Read(input)
	b.File("ref/data", string(input))
	b.File("job.yaml", b.Read("job.yaml")+"inputs: [{from: ref, to: /ref}]\n")
	v, carried := movesOnce(t, b, farm, job)
	if testkit.Events(b, v.ID, event.KindVolumeReused, `"of":1`) != 1 {
		t.Errorf("the second attempt began on another volume:\n%s", b.Must("show", v.ID))
	}
	if carried > size*5/4 { // once it has to be collected
		t.Errorf("%d MiB passed this machine", carried>>20)
	}
	testkit.Figure(t, "%d MiB passed this machine; attempt 2 waited %v for the checkpoint", carried>>20, v.Attempts[1].Phases["stage"])
	left(t, farm)
}

// TestAClusterKeepsACheckpointForTheNextSite, with its one node released: that site,
// which is the same cluster with another scratch, takes it over.
func TestAClusterKeepsACheckpointForTheNextSite(t *testing.T) {
	t.Parallel()
	b, farm, job := cluster(t, 1, ", slot: 10m", "volume: /data", "workdir: /data", "checkpoint: {grace: 3s}", "outputs: [{from: /data/log, to: results}, {from: /data/done, to: results}]",
		"setup: head -c 33554432 /dev/urandom >noise; md5sum noise >sum",
		"run: "+strings.Replace(heldCounter("$BEE_ATTEMPT = 1"), "|\n", "|\n  md5sum -c sum || exit 9\n", 1))
	second := filepath.Join(farm.Dir, "second")
	if err := os.Mkdir(second, 0o777); err != nil {
		t.Fatal(err)
	}
	other := strings.NewReplacer("name: cluster", "name: second", filepath.Join(farm.Dir, "scratch"), second).Replace(clusterSite(farm, ", slot: 10m"))
	b.File("sites.yaml", b.Read("sites.yaml")+"  - "+other+"\n")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, time.Minute, func() error {
		if r := b.Try("exec", id, "--", "test", "-e", "/data/log"); r.Code != 0 {
			return b.Explained(id, r.Stderr)
		}
		return nil
	})
	begun := farm.Carried(t)
	b.Must("move", id)
	v, shown := b.Await(id, 2*time.Minute), b.Must("show", id)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[1].Site != "second" || b.Read("results/done") != "60\n" {
		t.Fatalf("the run: %+v\n%s", v, shown)
	}
	if testkit.Events(b, id, event.KindVolumeReused, `"of":1`) == 0 {
		t.Errorf("the second attempt began on another volume:\n%s", shown)
	}
	if carried := farm.Carried(t) - begun; carried > 48<<20 {
		t.Errorf("%d MiB passed this machine", carried>>20)
	}
	if runs, _ := filepath.Glob(filepath.Join(second, "bee", "[^.c]*")); len(runs) > 0 {
		t.Errorf("left: %v", runs)
	}
}
