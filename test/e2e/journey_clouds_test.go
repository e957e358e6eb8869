package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
	"github.com/bee-hpc/bee/internal/testkit/slurmfarm"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// clouds are a real Slurm, two clouds and this machine, one after the other.
type clouds struct {
	t      *testing.T
	b      *testkit.Bee
	farm   *slurmfarm.Farm
	ec2    *ec2server.Server
	campus *openstackserver.Server
}

func newClouds(t *testing.T) clouds {
	t.Helper()
	c := clouds{t, testkit.NewBee(t), slurmfarm.Start(t, 2), ec2server.Start(t), openstackserver.Start(t)}
	c.b.Env = append(append(append(c.b.Env, c.farm.Farm.Env()...), c.ec2.Env()...), c.campus.Env()...)
	return c
}

// sites writes the sites file, with the slots of the cluster and of the machines in a reservation.
func (c clouds) sites(slot, reserved time.Duration) string {
	c.t.Helper()
	return c.b.File("journey.yaml", fmt.Sprintf(`sites:
  - {name: cluster, provider: slurm, login: h0, scratch: %[1]s, slot: %[2]s, price: 0.5}
  - name: ec2
    provider: aws
    slot: 1h
    scratch: %[3]s
    ssh_options: {ProxyCommand: "%[4]s"}
    aws: {types: [%[5]s], market: [spot], max_price: 0.06, image: %[6]s, user: %[7]s, network: {ssh_from: [203.0.113.7/32]}}
  - name: campus
    provider: openstack
    slot: %[14]s
    price: {amount: 1, currency: SU}
    scratch: %[8]s
    ssh_options: {ProxyCommand: "%[9]s", Port: "%[10]s"}
    openstack:
      types: [%[11]s]
      image: %[12]s
      user: %[7]s
      network: {name: %[13]s, ssh_from: [203.0.113.7/32]}
      lease: {kind: flavor}
  - {name: laptop, provider: local, hosts: 2, private_scratch: true}
`, filepath.Join(c.farm.Dir, "scratch"), slot, c.ec2.Scratch(), c.ec2.Proxy(c.t), ec2server.Small, ec2server.Image, machines.User(c.t),
		c.campus.Scratch(), c.campus.Proxy(c.t), machines.Port, openstackserver.Small, openstackserver.Image, openstackserver.Private, reserved))
}

// wholeJourney are the sites of a journey in their order.
const wholeJourney = "cluster ec2 campus laptop"

// travel sends a job on its journey, during which the spot machines are reclaimed with notice. onward is a command in
// its container that succeeds once an attempt has read a checkpoint. It returns the run, which has succeeded, and the
// sites where it has computed.
func (c clouds) travel(job, sites string, onward []string) (id, visited string) {
	c.t.Helper()
	id = strings.TrimSpace(c.b.Must("--sites", sites, "run", "-d", job))
	var v testkit.RunView
	testkit.Eventually(c.t, 4*time.Minute, func() error {
		if c.b.JSON(&v, "show", "--json", id); len(v.Attempts) > 2 || v.State != "running" && v.State != "queued" {
			return nil
		}
		if len(v.Attempts) < 2 {
			return fmt.Errorf("%d attempts, %s", len(v.Attempts), v.State)
		}
		if r := c.b.Try(append([]string{"exec", id, "--"}, onward...)...); r.Code != 0 {
			return fmt.Errorf("it has not continued: %s", r.Stderr)
		}
		return nil
	})
	if err := c.ec2.Interrupt(1, 2*time.Minute); err != nil { // as long as AWS's notices are
		c.t.Log(err)
	}
	if v = c.b.Await(id, 6*time.Minute); v.State != "succeeded" {
		c.t.Fatalf("the run: %+v\n%s%s%s", v, c.b.Must("show", id), c.ec2.Console(), c.campus.Console())
	}
	var names []string
	for _, a := range v.Attempts {
		if a.Phases["run"] > 0 && (len(names) == 0 || names[len(names)-1] != a.Site) {
			names = append(names, a.Site)
		}
	}
	return id, strings.Join(names, " ")
}

// over checks what is left of a journey: every second and each currency is accounted for, and nothing is in the clouds.
func (c clouds) over(id, job string) {
	c.t.Helper()
	allNamed(c.t, c.b, id)
	paid(c.t, c.b, id, job)
	for _, s := range []rentable{c.ec2, c.campus} {
		wantNothingRented(c.t, s)
		wantNoSecret(c.t, c.b, s, ec2server.Secret)
		wantNoSecret(c.t, c.b, s, openstackserver.Secret)
	}
}

// TestAJobGoesOverClouds: a slot that is too short on a real Slurm, spot machines that are reclaimed with notice,
// machines in a reservation that ends, and the end on this machine. Each attempt continues where the one before ended.
func TestAJobGoesOverClouds(t *testing.T) {
	t.Parallel()
	c := newClouds(t)
	job := c.b.File("job.yaml", "name: counts\nimage: docker-archive:"+testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})+`
nodes: 2
volume: /data
workdir: /data
checkpoint: {signal: TERM, grace: 5s, paths: [/data/n, /data/begun]}
run: |
  begun=$(($(cat begun 2>/dev/null || echo 0) + 1)); echo $begun > begun
  n=$(cat n 2>/dev/null || echo 0); echo "attempt $begun from $n"
  [ $begun -lt 4 ] || exit 0
  trap "exit 85" TERM
  while :; do n=$((n + 1)); echo $n > n.new; mv n.new n; sleep 0.1; done
outputs: [n]
`)
	id, visited := c.travel(job, c.sites(30*time.Second, 45*time.Second), []string{"grep", "-q", "2", "/data/begun"})
	if visited != wholeJourney {
		t.Errorf("it was over %s:\n%s", visited, c.b.Must("show", id))
	}
	before := -1
	for i, line := range strings.Split(strings.TrimSpace(c.b.Must("logs", id)), "\n") {
		var attempt, from int
		if _, err := fmt.Sscanf(line, "attempt %d from %d", &attempt, &from); err != nil || attempt != i+1 || from <= before {
			t.Errorf("line %d is %q, after %d", i+1, line, before)
		}
		before = from
	}
	if got := strings.TrimSpace(c.b.Read("n")); got != fmt.Sprint(before) {
		t.Errorf("the result is %s, the last attempt began with %d", got, before)
	}
	c.over(id, job)
	if t.Failed() {
		t.Log("\n" + c.b.Must("show", id))
	}
}

// TestGROMACSGoesOverClouds: the result of a real job on the same journey is that of a run that stays here.
func TestGROMACSGoesOverClouds(t *testing.T) {
	testkit.Long(t, "TestAJobGoesOverClouds and TestGROMACSMoves")
	testkit.RequireTool(t, "mmdebstrap")
	j, c := gromacs("6000"), newClouds(t)
	b := c.b
	job := j.prepare(t, b)
	took := func(args ...string) (phases map[string]float64) { // of a run on one site
		id := strings.TrimSpace(b.Must(append([]string{"--sites", "journey.yaml", "run", "-d", "--site"}, args...)...))
		v := b.Await(id, 10*time.Minute)
		if v.State != "succeeded" || len(v.Attempts) != 1 {
			t.Fatalf("%q: %+v\n%s%s", args, v, c.ec2.Console(), c.campus.Console())
		}
		return v.Attempts[0].Phases
	}
	c.sites(20*time.Minute, 20*time.Minute)
	computing := took("laptop", job)["run"]
	want := j.finish(t, b)
	j.keep(t, b)
	head := regexp.MustCompile(`(?s)^.*?env:[^\n]*\n`).FindString(b.Read(job))
	b.File(j.example+"/visit.yaml", head+"run: \"true\"\n")
	took("cluster", j.example+"/visit.yaml") // whose slot would else be too short for the image
	brought := 0.0                           // to machines that are always new
	for phase, seconds := range took("campus", j.example+"/visit.yaml") {
		if phase != "queue" && phase != "run" {
			brought += seconds
		}
	}
	const saving = 30 * time.Second // the grace, and the time for the rest
	share := computing / 4          // of the computing, in the reservation
	var id, visited string
	for try := 1; visited != wholeJourney; try++ { // a machine's speed is not that of a minute before
		if try > 3 {
			t.Fatalf("in %d journeys, the last one was over %s\n%s", try-1, visited, b.Must("show", id))
		}
		reserved := saving + time.Duration((1.5*brought+share)*float64(time.Second)).Round(time.Second)
		id, visited = c.travel(job, c.sites(shortSlot, reserved), j.onward)
		t.Log("\n" + b.Must("show", id))
		if strings.HasSuffix(visited, "campus") { // it was over there
			brought, share = brought/2, share/2
		} else {
			share *= 2
		}
	}
	if got := j.finish(t, b); got != want {
		t.Errorf("it computed\n%s\nand without moving\n%s", got, want)
	}
	accounted(t, b, id)
	c.over(id, job)
}

// paid: each attempt of a journey over clouds has its cost, by the price of its site and in its currency, and the
// run has the sum of each currency.
func paid(t *testing.T, b *testkit.Bee, id, job string) {
	t.Helper()
	type cost struct {
		Amount   float64
		Currency string
	}
	var v struct {
		Costs    []cost
		Attempts []struct {
			Site, Currency string
			Cost           float64
			Started, Ended time.Time
		}
	}
	b.JSON(&v, "show", "--json", id)
	var plan []struct {
		Site, Currency string
		CostPerHour    float64 `json:"cost_per_hour"`
	}
	b.JSON(&plan, "--sites", "journey.yaml", "plan", "--json", job)
	price := map[string]cost{}
	for _, p := range plan {
		price[p.Site] = cost{p.CostPerHour, p.Currency}
	}
	if price["cluster"].Amount == 0 || price["ec2"].Currency != "USD" || price["campus"].Currency != "SU" {
		t.Errorf("the plan has %v", price)
	}
	sums := map[string]float64{}
	for _, a := range v.Attempts {
		p := price[a.Site]
		most := max(a.Ended.Sub(a.Started)+5*time.Second, time.Minute).Hours() * p.Amount // billed for a minute at least, and until the cloud has ended it
		if a.Currency != p.Currency || a.Cost > most || a.Cost < most/10 {
			t.Errorf("%s cost %g %s, at most %g %s", a.Site, a.Cost, a.Currency, most, p.Currency)
		}
		sums[a.Currency] += a.Cost
	}
	for _, c := range v.Costs {
		if diff := sums[c.Currency] - c.Amount; diff > 1e-9 || diff < -1e-9 {
			t.Errorf("the run cost %g %s, its attempts %g", c.Amount, c.Currency, sums[c.Currency])
		}
		delete(sums, c.Currency)
	}
	if len(v.Costs) != 3 || len(sums) > 0 {
		t.Errorf("the run cost %v, and also %v", v.Costs, sums)
	}
}
