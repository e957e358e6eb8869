package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/ec2server"
	"github.com/bee-hpc/bee/internal/testkit/machines"
)

// rented has a bee's only site rent machines from an EC2.
func rented(t *testing.T, b *testkit.Bee) *ec2server.Server {
	t.Helper()
	s := ec2server.Start(t)
	b.Env = append(append(b.Env, s.Env()...), "BEE_SITES="+b.File("rented.yaml", fmt.Sprintf(`sites:
  - name: ec2
    provider: aws
    slot: 1h
    scratch: %s
    slots: 2
    ssh_options: {ProxyCommand: "%s"}
    aws:
      types: [%s]
      image: %s
      user: %s
      network: {ssh_from: [203.0.113.7/32]}
`, s.Scratch(), s.Proxy(t), ec2server.Small, ec2server.Image, machines.User(t))))
	return s
}

// rentable is a cloud's server.
type rentable interface {
	Left() []string
	Scratch() string
	Files() string
}

// wantNothingRented looks at the cloud's own list.
func wantNothingRented(t *testing.T, s rentable) {
	t.Helper()
	if left := s.Left(); len(left) > 0 {
		t.Errorf("left in the cloud: %v", left)
	}
}

// awaitMachine waits until a machine has been rented.
func awaitMachine(t *testing.T, s *ec2server.Server) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		if left := s.Left(); len(left) == 0 || !strings.HasPrefix(left[0], "i-") {
			return fmt.Errorf("rented is %v", left)
		}
		return nil
	})
}

// TestMPIOnRentedMachines: machines are rented in a placement group, run MPI, and are gone with the run.
func TestMPIOnRentedMachines(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	b := programsBee(t)
	s := rented(t, b)
	var d struct {
		Findings []struct{ Area, Name, Status, Detail, Remedy string }
	}
	env := b.Env
	b.Env = append(env, "PATH="+t.TempDir()) // a trial of podman would leave files of other users in HOME
	b.JSON(&d, "doctor", "--json")
	b.Env = env
	for _, f := range d.Findings {
		if f.Area == "site" && (f.Status != "ok" || !strings.Contains(f.Detail, ec2server.Small)) {
			t.Errorf("the doctor finds %+v", f)
		}
	}
	wantNothingRented(t, s)
	job := b.File("job.yaml", strings.Join([]string{
		"name: mpi", examplesBuild, "nodes: 2", "ranks_per_node: 1", "workdir: /work", "inputs: [{from: ./input, to: /work}]",
		"run: mpirun python3 probe.py | tee result", "outputs: [result]", "timeout: 3m",
	}, "\n")+"\n")
	var plan []struct{ Placement string }
	if b.JSON(&plan, "plan", "--json", job); len(plan) != 1 || plan[0].Placement != "cluster" {
		t.Errorf("the plan has %+v", plan)
	}
	r := b.Try("run", "-q", job)
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "size 2 sum 3 hosts ip-198-51-") {
		t.Errorf("got %+v\n%s", r, s.Console())
	}
	if got := b.Read("result"); got != r.Stdout {
		t.Errorf("the output has %q", got)
	}
	var shown struct{ Attempts []struct{ Placement string } }
	if b.JSON(&shown, "show", "--json", "mpi"); len(shown.Attempts) != 1 || shown.Attempts[0].Placement != "cluster" {
		t.Errorf("show has %+v", shown)
	}
	wantNothingRented(t, s)
	wantNoSecret(t, b, s, ec2server.Secret)
}

// wantNoSecret: the user's credentials are in no file of bee's, and on no machine.
func wantNoSecret(t *testing.T, b *testkit.Bee, s rentable, secret string) {
	t.Helper()
	for _, dir := range []string{b.Dir, s.Scratch(), s.Files()} {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() || e.Name() == "bee" {
				return nil // what comes and goes
			}
			raw, err := os.ReadFile(path)
			if err == nil && bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s has the secret key", path)
			}
			return nil // see above
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// listed is something that a cloud has, as bee prints it.
type listed struct {
	Kind, ID, Run, Type string
	Live                bool
	Price               *struct {
		Amount   float64
		Currency string
	} `json:"price_per_hour"`
	EndedBy string `json:"ended_by"`
	Ends    time.Time
}

// listRented returns what bee's clouds have, by kind.
func listRented(t *testing.T, b *testkit.Bee) map[string][]listed {
	t.Helper()
	var things []listed
	b.JSON(&things, "cloud", "ls", "--json")
	all := map[string][]listed{}
	for _, x := range things {
		all[x.Kind] = append(all[x.Kind], x)
	}
	return all
}

// TestKilledWhileItRents kills bee while machines boot: the next command ends them, by the record or, where
// the run was forgotten, once their user agrees. Until then they are listed.
func TestKilledWhileItRents(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "nodes: 2", "run: echo it runs")
	s := rented(t, b)
	begin := func() string {
		t.Helper()
		s.Late(time.Minute) // it waits for its machines until it is killed
		defer s.Late(0)
		c := b.Command("run", "-q", job)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		awaitMachine(t, s)
		c.Process.Kill()
		if err := c.Wait(); err == nil {
			t.Fatal("it has ended before it was killed")
		}
		return strings.Fields(b.Must("ps", "-aq"))[0]
	}
	id := begin()
	got := listRented(t, b)
	if len(got["machine"]) != 2 || len(got["disk"]) != 4 || len(got["group"]) != 1 {
		t.Fatalf("listed are %+v", got)
	}
	for _, m := range got["machine"] {
		if m.Run != id || !m.Live || m.Type != ec2server.Small || m.Price == nil || m.Price.Amount != ec2server.ListPrice(2) || m.Price.Currency != "USD" || m.EndedBy != "run" || time.Until(m.Ends) < time.Hour {
			t.Errorf("a machine is %+v", m)
		}
	}
	if out := b.Must("cloud", "rm", "--yes"); out != "" || len(listRented(t, b)["machine"]) != 2 {
		t.Errorf("of a live run, ended were %q", out)
	}
	if f := b.Fail("cloud", "ls", "--site", "nosuch"); f.Code != console.ExitInvalid || !strings.Contains(f.Remedy, "ec2") {
		t.Errorf("of a site that there is not: %+v", f)
	}
	b.Must("supervise")
	if v := b.Await(id, 60*time.Second); v.State != "succeeded" {
		t.Errorf("the run has %s: %+v", v.State, v.Error)
	}
	wantNothingRented(t, s)
	id = begin()
	env := b.Env
	b.Env = append(b.Env, "AWS_SECRET_ACCESS_KEY=wrong") // while it is forgotten, the cloud is out of reach
	b.Must("stop", id)
	b.Must("rm", "--force", id)
	if len(s.Left()) == 0 {
		t.Error("a stranger has ended the machines")
	}
	if f := b.Fail("cloud", "ls"); f.Code != console.ExitUnsupported {
		t.Errorf("without an answer of the cloud: %+v", f)
	}
	b.Env = env
	for _, m := range listRented(t, b)["machine"] {
		if m.Run != id || m.Live || m.EndedBy != "itself" {
			t.Errorf("once it is forgotten, a machine is %+v", m)
		}
		if text := b.Must("cloud", "ls"); !strings.Contains(text, m.ID) {
			t.Errorf("listed is\n%s", text)
		}
	}
	if f := b.Fail("cloud", "rm"); f.Code != console.ExitInvalid || !strings.Contains(f.Remedy, "--yes") || len(s.Left()) == 0 {
		t.Errorf("nobody has agreed: %+v, left are %v", f, s.Left())
	}
	var ended []struct{ Site, Owner string }
	if b.JSON(&ended, "cloud", "rm", "--yes", "--json"); len(ended) != 1 || ended[0].Site != "ec2" || !strings.Contains(ended[0].Owner, id) {
		t.Errorf("ended are %+v", ended)
	}
	wantNothingRented(t, s)
	if out := b.Must("sweep"); out != "" || len(listRented(t, b)) > 0 {
		t.Errorf("after it, the sweep printed %q", out)
	}
	if left, err := filepath.Glob(filepath.Join(b.Dir, "state", "cloud", "*", "leases", "*")); err != nil || len(left) > 0 {
		t.Errorf("records left: %v, %v", left, err)
	}
	wantNoSecret(t, b, s, ec2server.Secret)
}

// TestSpotMachineIsInterrupted: its notice has the job write its checkpoint, whichever machine it is, and the run continues
// from there on the next site.
func TestSpotMachineIsInterrupted(t *testing.T) {
	t.Parallel()
	leaveMachines(t, func(s *ec2server.Server) error { return s.Interrupt(1, time.Minute) })
}

// TestMachineIsMaintained: so does a job whose machine is stopped for maintenance. A recommendation to leave another
// one ends nothing.
func TestMachineIsMaintained(t *testing.T) {
	testkit.Long(t, "TestSpotMachineIsInterrupted, and TestMaintenance of internal/node/head")
	leaveMachines(t, func(s *ec2server.Server) error {
		recommend := s.Announce(0, func(b *machines.Batch, n int) error { return b.Recommend(n, time.Now()) })
		maintain := s.Announce(1, func(b *machines.Batch, n int) error { return b.Maintain(n, time.Now().Add(time.Minute)) })
		return errors.Join(recommend, maintain)
	})
}

// leaveMachines runs a job on rented machines, and on this one after an announcement.
func leaveMachines(t *testing.T, announce func(s *ec2server.Server) error) {
	t.Helper()
	b, job := busyboxJob(t, strings.Join([]string{
		"nodes: 2", "checkpoint: {signal: TERM, grace: 5s, paths: [/work/n, /work/signalled]}", "workdir: /work", "outputs: [n, signalled]",
		`run: 'n=$(cat n 2>/dev/null || echo 0); trap "cat /proc/uptime > signalled; exit 85" TERM; echo ready $n; [ $n -gt 0 ] && exit; while :; do n=$((n+1)); echo $n > n; sleep 0.1; done'`,
	}, "\n"))
	s := rented(t, b)
	sites := b.Read("rented.yaml")
	b.File("rented.yaml", strings.Replace(sites, "      types:", "      market: [spot, on-demand]\n      max_price: 0.06\n      types:", 1)+"  - {name: here, provider: local, hosts: 2, slots: 1}\n")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	testkit.Eventually(t, 60*time.Second, func() error {
		if b.Must("logs", id) != "ready 0\n" {
			return errors.New("it is not ready")
		}
		return nil
	})
	announced := uptime(t, "/proc/uptime")
	if err := announce(s); err != nil {
		t.Fatal(err)
	}
	v := b.Await(id, 120*time.Second)
	if v.State != "succeeded" || len(v.Attempts) != 2 || v.Attempts[0].Site != "ec2" || v.Attempts[1].Site != "here" {
		t.Errorf("got %+v\n%s", v, s.Console())
	}
	if logs := strings.Fields(b.Must("logs", id)); len(logs) != 4 || logs[3] == "0" {
		t.Errorf("it has printed %q", logs)
	}
	testkit.Figure(t, "the job has its signal %.2f s after the metadata service has the notice", uptime(t, filepath.Join(b.Work, "signalled"))-announced)
	wantNothingRented(t, s)
}

// uptime is how long the kernel had run when it was asked, in seconds (proc_uptime(5)).
func uptime(t *testing.T, file string) (seconds float64) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err == nil {
		_, err = fmt.Sscan(string(raw), &seconds)
	}
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// TestReclaimedMachines: the loss of all machines ends the attempt. A job that restarts begins again, after two
// losses of spot machines on demand. Nothing is left.
func TestReclaimedMachines(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "restarts: true\nrun: sleep 100")
	s := rented(t, b)
	b.File("rented.yaml", strings.Replace(b.Read("rented.yaml"), "      types:", "      market: [spot, on-demand]\n      types:", 1))
	var plan []struct {
		SpotLosses int `json:"spot_losses"`
	}
	if b.JSON(&plan, "plan", "--json", job); len(plan) != 1 || plan[0].SpotLosses != 2 {
		t.Errorf("the plan has %+v", plan)
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	var v testkit.RunView
	for attempt := 1; attempt <= 3; attempt++ {
		testkit.Eventually(t, 60*time.Second, func() error {
			if b.JSON(&v, "show", "--json", id); len(v.Attempts) != attempt || v.Attempts[attempt-1].Phases["start"] == 0 {
				return fmt.Errorf("attempt %d does not run: %+v", attempt, v)
			}
			return nil
		})
		if spots := s.Spots(); (spots > 0) != (attempt < 3) {
			t.Errorf("attempt %d has %d spot machines", attempt, spots)
		}
		if attempt < 3 {
			s.Reclaim()
		}
	}
	b.Must("stop", id)
	v = b.Await(id, 60*time.Second)
	if v.State != "stopped" || len(v.Attempts) != 3 || v.Attempts[1].Error == nil || v.Attempts[0].HostsEnd != "reclaimed" {
		t.Errorf("got %+v", v)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if left := s.Left(); len(left) > 0 {
			return fmt.Errorf("left in the cloud: %v", left)
		}
		return nil
	})
	var shown struct {
		Attempts []struct{ Spot bool }
		History  []struct {
			Attempt int
			Kind    event.Kind
		}
	}
	b.JSON(&shown, "show", "--json", id)
	for _, e := range shown.History {
		if e.Kind == event.KindOnDemand && e.Attempt == 3 && shown.Attempts[1].Spot && !shown.Attempts[2].Spot {
			return
		}
	}
	t.Errorf("show has %+v", shown)
}
