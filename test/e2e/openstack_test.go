package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/machines"
	"github.com/bee-hpc/bee/internal/testkit/openstackserver"
)

// rentedFromOpenStack has a bee's only site rent machines from an OpenStack cloud.
func rentedFromOpenStack(t *testing.T, b *testkit.Bee, keys ...string) *openstackserver.Server {
	t.Helper()
	s := openstackserver.Start(t)
	b.Env = append(append(b.Env, s.Env()...), "BEE_SITES="+b.File("rented.yaml", fmt.Sprintf(`sites:
  - name: campus
    provider: openstack
    slot: 1h
    scratch: %s
    slots: 2
    ssh_options: {ProxyCommand: "%s", Port: "%s"}
    openstack:
      types: [%s]
      image: %s
      user: %s
      network: {name: %s, ssh_from: [203.0.113.7/32]}
%s`, s.Scratch(), s.Proxy(t), machines.Port, openstackserver.Small, openstackserver.Image, machines.User(t), openstackserver.Private, strings.Join(keys, ""))))
	return s
}

// TestMPIOnOpenStack: machines behind the head's address are rented, run MPI, and are gone with the run.
func TestMPIOnOpenStack(t *testing.T) {
	testkit.AsRootToo(t)
	t.Parallel()
	b := programsBee(t)
	s := rentedFromOpenStack(t, b)
	job := b.File("job.yaml", strings.Join([]string{
		"name: mpi", examplesBuild, "nodes: 2", "ranks_per_node: 1", "workdir: /work", "inputs: [{from: ./input, to: /work}]",
		"run: mpirun python3 probe.py | tee result", "outputs: [result]", "timeout: 3m",
	}, "\n")+"\n")
	r := b.Try("run", "-q", job)
	if r.Code != 0 || !strings.HasPrefix(r.Stdout, "size 2 sum 3 hosts bee-") {
		t.Errorf("got %+v\n%s", r, s.Console())
	}
	if got := b.Read("result"); got != r.Stdout {
		t.Errorf("the output has %q", got)
	}
	wantNothingRented(t, s)
	wantNoSecret(t, b, s, openstackserver.Secret)
}

// TestKilledWhileItWaitsForALease: the next process waits for the same lease, in which the job runs.
func TestKilledWhileItWaitsForALease(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "run: echo it runs")
	s := rentedFromOpenStack(t, b, fmt.Sprintf("      lease: {kind: flavor, start: %q}\n", time.Now().UTC().Add(24*time.Hour).Format("2006-01-02 15:04")))
	c := b.Command("run", "-q", job)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var id string
	testkit.Eventually(t, 60*time.Second, func() error {
		ids := strings.Fields(b.Must("ps", "-aq"))
		if len(ids) == 0 {
			return errors.New("no run")
		}
		id = ids[0]
		var v testkit.RunView
		if b.JSON(&v, "show", "--json", id); v.State != "queued" || testkit.Events(b, id, event.KindQueued) == 0 {
			return fmt.Errorf("it is %s", v.State)
		}
		return nil
	})
	c.Process.Kill()
	if err := c.Wait(); err == nil {
		t.Fatal("it has ended before it was killed")
	}
	s.StartLeases()
	b.Must("supervise")
	if v := b.Await(id, 3*time.Minute); v.State != "succeeded" {
		t.Errorf("the run has %s: %+v", v.State, v.Error)
	}
	if got := b.Must("logs", id); got != "it runs\n" {
		t.Errorf("it wrote %q", got)
	}
	if n := s.Calls("POST /reservation/v1/leases"); n != 1 {
		t.Errorf("%d leases were made", n)
	}
	wantNothingRented(t, s)
}

// TestSweepOfOpenStack kills bee while machines boot, and forgets the run while the cloud refuses its credentials.
func TestSweepOfOpenStack(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "nodes: 2", "run: echo it runs")
	s := rentedFromOpenStack(t, b)
	s.Hold(true)
	c := b.Command("run", "-q", job)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if left := strings.Join(s.Left(), ", "); !strings.Contains(left, "server") {
			return fmt.Errorf("rented is %s", left)
		}
		return nil
	})
	c.Process.Kill()
	if err := c.Wait(); err == nil {
		t.Fatal("it has ended before it was killed")
	}
	id := strings.Fields(b.Must("ps", "-aq"))[0]
	env := b.Env
	clouds, err := os.ReadFile(s.CloudsFile())
	if err != nil {
		t.Fatal(err)
	}
	wrong := strings.ReplaceAll(string(clouds), openstackserver.Secret, "wrong")
	b.Env = append(b.Env, "OS_CLIENT_CONFIG_FILE="+b.File("wrong.yaml", wrong))
	b.Must("stop", id)
	b.Must("rm", "--force", id)
	if len(s.Left()) == 0 {
		t.Error("a stranger has ended the machines")
	}
	b.Env = env
	if out := b.Must("sweep"); !strings.Contains(out, id) {
		t.Errorf("the sweep printed %q", out)
	}
	wantNothingRented(t, s)
	if left, err := filepath.Glob(filepath.Join(b.Dir, "state", "cloud", "*", "leases", "*")); err != nil || len(left) > 0 {
		t.Errorf("records left: %v, %v", left, err)
	}
}
