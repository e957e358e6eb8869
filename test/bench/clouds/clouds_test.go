// Package clouds measures runs on rented machines: emulated hosts of the test server for EC2. The step of that name of
// `make bench` has its benchmarks run once each.
package clouds

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

func TestMain(m *testing.M) {
	for _, main := range []func([]string) (int, bool){sshfarm.Main, machines.Main} {
		if code, meant := main(os.Args); meant {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// row adds a row of the table to the file that BEE_BENCH_ROWS names.
func row(t testing.TB, what, measured, against, ratio string) {
	t.Helper()
	t.Logf("%s: %s, %s, %s", what, measured, against, ratio)
	path := os.Getenv("BEE_BENCH_ROWS")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err == nil {
		defer f.Close()
		err = json.NewEncoder(f).Encode([4]string{what, measured, against, ratio})
	}
	if err != nil {
		t.Error(err)
	}
}

// user has a site, for which ec2 rents machines.
type user struct {
	*testkit.Bee
	ec2   *ec2server.Server
	sites string
}

// beginning is that of a Beefile.
func beginning(t testing.TB) string {
	t.Helper()
	return "name: measured\nimage: docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}) + "\n"
}

// newUser returns a user whose site has further keys.
func newUser(t testing.TB, keys string) user {
	t.Helper()
	u := user{Bee: testkit.NewBee(t), ec2: ec2server.Start(t)}
	u.sites = u.File("sites.yaml", fmt.Sprintf(`sites:
  - name: ec2
    provider: aws
    scratch: %s
    ssh_options: {ProxyCommand: "%s"}
    aws: {types: [%s], market: [spot], image: %s, user: %s, network: {ssh_from: [203.0.113.7/32]}}
%s`, u.ec2.Scratch(), u.ec2.Proxy(t), ec2server.Small, ec2server.Image, machines.User(t), keys))
	u.Env = append(append(u.Env, u.ec2.Env()...), "BEE_SITES="+u.sites)
	return u
}

// attempt is what is read of an attempt.
type attempt struct {
	Site     string
	Phases   map[core.Phase]float64
	Cost     float64
	Transfer float64 `json:"transfer_seconds"`
}

// attempts returns the attempts of a run.
func attempts(b *testkit.Bee, run string) []attempt {
	var v struct{ Attempts []attempt }
	b.JSON(&v, "show", "--json", run)
	return v.Attempts
}

// printed waits until a run's output has a line.
func printed(t testing.TB, b *testkit.Bee, run, line string) {
	t.Helper()
	testkit.Eventually(t, 5*time.Minute, func() error {
		if out := b.Must("logs", run); !strings.Contains("\n"+out, "\n"+line+"\n") {
			return fmt.Errorf("it has printed %q\n%s", out, b.Must("show", run))
		}
		return nil
	})
}

// BenchmarkPaidTime has a job with 512 MiB, of which a tenth changes, move through slots. What is paid for in the second one
// without computing counts for a slot of an hour, with a minute in place of the boot of its machines.
func BenchmarkPaidTime(b *testing.B) {
	const (
		slot, boot, hour = 150 * time.Second, time.Minute, time.Hour
		machines         = 2
	)
	u := newUser(b, "    slot: "+slot.String()+"\n")
	run := strings.TrimSpace(u.Must("run", "-d", u.File("job.yaml", beginning(b)+`nodes: 2
volume: /data
workdir: /data
checkpoint: {grace: 20s}
run: |
  [ -e begun ] || for i in $(seq 10); do dd if=/dev/urandom of=data$i bs=1M count=51 2>/dev/null; done
  n=$(cat begun 2>/dev/null || echo 0); echo $((n+1)) > begun
  [ $n -lt 2 ] || exit 0
  trap 'dd if=/dev/urandom of=data1 bs=1M count=51 2>/dev/null; exit 85' TERM
  while :; do sleep 0.2; done
`)))
	if v := u.Await(run, 20*time.Minute); v.State != "succeeded" || len(v.Attempts) != 3 {
		b.Fatalf("got %+v\n%s", v, u.Must("show", run))
	}
	second := attempts(u.Bee, run)[1]
	paid := second.Cost / (ec2server.SpotPrice * machines) * hour.Seconds()
	idle := paid - second.Phases[core.PhaseRun] - second.Phases[core.PhaseAcquire]
	row(b, "paid and not computing, of a slot of an hour with a boot of 60 s: two machines, 512 MiB of which a tenth changes, by a checkpoint on the submitting machine",
		fmt.Sprintf("%.0f s (60 s of boot, and the rest of a slot of %s)", boot.Seconds()+idle, slot), "an hour", fmt.Sprintf("%.3f", (boot.Seconds()+idle)/hour.Seconds()))
}

// BenchmarkCalls counts what a run asks the cloud for, from its submission to its end, and while its job runs.
func BenchmarkCalls(b *testing.B) {
	const window = 2 * time.Minute
	u := newUser(b, "    slot: 1h\n")
	run := strings.TrimSpace(u.Must("run", "-d", u.File("job.yaml", beginning(b)+"nodes: 2\nrestarts: true\nrun: echo computes; while [ ! -e /tmp/over ]; do sleep 0.2; done\n")))
	printed(b, u.Bee, run, "computes")
	begun := u.ec2.Calls("")
	time.Sleep(window)
	steady := u.ec2.Calls("") - begun
	u.Touch(run, "/tmp/over")
	if v := u.Await(run, time.Minute); v.State != "succeeded" {
		b.Fatalf("got %+v", v)
	}
	hourly := u.ec2.Calls("") - steady + steady*int(time.Hour/window)
	row(b, "calls of EC2's API by a run of two machines that takes an hour", fmt.Sprint(hourly), fmt.Sprintf("%d in %s while its job ran, the rest before and after", steady, window), "–")
	if left := u.ec2.Left(); len(left) > 0 {
		b.Errorf("left in the cloud: %v", left)
	}
}
