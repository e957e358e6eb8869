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
)

// TestGROMACSGoesOverClouds: a slot that is too short on a real Slurm, spot machines that are reclaimed with notice,
// machines in a reservation that ends, and the end on this machine. The result is that of a run that stays here,
// every second and each currency is accounted for, and nothing is left in the clouds.
func TestGROMACSGoesOverClouds(t *testing.T) {
	testkit.RequireTool(t, "mmdebstrap")
	j := gromacs("9000")
	farm, ec2, campus := slurmfarm.Start(t, 2), ec2server.Start(t), openstackserver.Start(t)
	b := testkit.NewBee(t)
	b.Env = append(append(append(b.Env, farm.Farm.Env()...), ec2.Env()...), campus.Env()...)
	job := j.prepare(t, b)
	sites := func(slot, reserved time.Duration) string {
		return b.File("journey.yaml", fmt.Sprintf(`sites:
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
`, filepath.Join(farm.Dir, "scratch"), slot, ec2.Scratch(), ec2.Proxy(t), ec2server.Small, ec2server.Image, machines.User(t),
			campus.Scratch(), campus.Proxy(t), machines.Port, openstackserver.Small, openstackserver.Image, openstackserver.Private, reserved))
	}
	took := func(args ...string) (phases map[string]float64) { // of a run on one site
		id := strings.TrimSpace(b.Must(append([]string{"--sites", "journey.yaml", "run", "-d", "--site"}, args...)...))
		v := b.Await(id, 10*time.Minute)
		if v.State != "succeeded" || len(v.Attempts) != 1 {
			t.Fatalf("%q: %+v\n%s%s", args, v, ec2.Console(), campus.Console())
		}
		return v.Attempts[0].Phases
	}
	sites(20*time.Minute, 20*time.Minute)
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
	for try := 1; visited != "cluster ec2 campus laptop"; try++ { // a machine's speed is not that of a minute before
		if try > 3 {
			t.Fatalf("in %d journeys, the last one was over %s\n%s", try-1, visited, b.Must("show", id))
		}
		reserved := saving + time.Duration((1.5*brought+share)*float64(time.Second)).Round(time.Second)
		id, visited = overClouds(t, b, ec2, job, sites(shortSlot, reserved), j.onward)
		t.Log("\n" + b.Must("show", id))
		if strings.HasSuffix(visited, "campus") { // it was over there
			brought, share = brought/2, share/2
		} else {
			share *= 2
		}
	}
	accounted(t, b, id)
	if got := j.finish(t, b); got != want {
		t.Errorf("it computed\n%s\nand without moving\n%s", got, want)
	}
	paid(t, b, id, job)
	for _, s := range []rentable{ec2, campus} {
		wantNothingRented(t, s)
		wantNoSecret(t, b, s, ec2server.Secret)
		wantNoSecret(t, b, s, openstackserver.Secret)
	}
}

// overClouds sends a job on its journey, during which the machines of EC2 are reclaimed. It returns the run, which
// has succeeded, and the sites where it has computed.
func overClouds(t *testing.T, b *testkit.Bee, ec2 *ec2server.Server, job, sites string, onward []string) (id, visited string) {
	t.Helper()
	id = strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	var v testkit.RunView
	testkit.Eventually(t, 4*time.Minute, func() error {
		if b.JSON(&v, "show", "--json", id); len(v.Attempts) > 2 || v.State != "running" && v.State != "queued" {
			return nil
		}
		if len(v.Attempts) < 2 {
			return fmt.Errorf("%d attempts, %s", len(v.Attempts), v.State)
		}
		if r := b.Try(append([]string{"exec", id, "--"}, onward...)...); r.Code != 0 {
			return fmt.Errorf("it has not continued: %s", r.Stderr)
		}
		return nil
	})
	if err := ec2.Interrupt(1, 2*time.Minute); err != nil { // as long as AWS's notices are
		t.Log(err)
	}
	if v = b.Await(id, 6*time.Minute); v.State != "succeeded" {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	var names []string
	for _, a := range v.Attempts {
		if a.Phases["run"] > 0 && (len(names) == 0 || names[len(names)-1] != a.Site) {
			names = append(names, a.Site)
		}
	}
	return id, strings.Join(names, " ")
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
		most := max(a.Ended.Sub(a.Started), time.Minute).Hours() * p.Amount // billed for a minute at least
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
