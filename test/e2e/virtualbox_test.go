package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"github.com/bee-hpc/bee/internal/testkit/virtualboxfake"
)

// guests is a bee with two sites of VirtualBox, with para-virtual and with emulated devices. A program stands in for
// VBoxManage, and an emulated host with a real sshd for each guest.
func guests(t *testing.T) (*testkit.Bee, *virtualboxfake.Fake) {
	t.Helper()
	farm := sshfarm.Start(t, 1)
	fake := virtualboxfake.New(t, func(s *virtualboxfake.State) {
		s.Farm, s.Addr = filepath.Join(farm.Dir, "emulated"), farm.Addrs[0]+":2222"
	})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(farm.Dir, "host.pub"))
	if err != nil {
		t.Fatal(err)
	}
	b, _ := busyboxJob(t)
	var sites strings.Builder
	sites.WriteString("sites:\n  - {name: home, provider: local}\n")
	for name, devices := range map[string]string{"vbox-pv": "virtio", "vbox-fv": "emulated"} {
		fmt.Fprintf(&sites, `  - name: %s
    provider: virtualbox
    scratch: %s
    ssh_options: {IdentityFile: %s, IdentityAgent: none, IdentitiesOnly: "yes"}
    virtualbox: {machine: %s, snapshot: clean, devices: %s, cpus: 2, memory: 1G, user: %s, host_key: %q}
`, name, filepath.Join(farm.Private, "bee-h0"), filepath.Join(farm.Dir, "user"), virtualboxfake.BaseName, devices, me.Username, strings.TrimSpace(string(key)))
	}
	b.Env = append(append(b.Env, farm.Env()...), "PATH="+fake.Bin+":"+farm.Bin+":"+os.Getenv("PATH"), "BEE_SITES="+b.File("sites.yaml", sites.String()))
	return b, fake
}

// guestStudy is a study with the environments of Beserra's first stage that are guests of VirtualBox.
const guestStudy = `study: guests
job: {file: job.yaml, run: "sleep 0.3; echo counted 1"}
environments:
  rootless: {runtime: rootless}
  vbox-pv: {site: vbox-pv, runtime: rootless, untested: true}
  vbox-fv: {site: vbox-fv, runtime: rootless, untested: true}
metrics: {seconds: {builtin: seconds, primary: true}}
check: [{regex: 'counted 1'}]
`

// TestBenchInGuestsOfVirtualBox: each measurement has a guest of its own, of which nothing is left; the plan and the
// report say that VirtualBox was never tried.
func TestBenchInGuestsOfVirtualBox(t *testing.T) {
	t.Parallel()
	b, fake := guests(t)
	study, out := b.File("study.yaml", guestStudy), filepath.Join(b.Dir, "out")
	var r benchReport
	b.JSON(&r, "bench", "run", "--wait", "0s", study, "--blocks", "1", "-o", out, "--json")
	if len(r.Result.Failed) > 0 || len(r.Result.Contrasts) != 2 {
		t.Fatalf("left out: %+v; compared: %+v", r.Result.Failed, r.Result.Contrasts)
	}
	for _, e := range []string{"vbox-pv", "vbox-fv"} {
		for _, row := range rowsOf(t, out, e) {
			if row.Site != e || len(row.Programs) == 0 {
				t.Errorf("%s was measured on site %q, with programs %v", e, row.Site, row.Programs)
			}
		}
	}
	text := b.Must("bench", "report", out)
	if !strings.Contains(text, "vbox-pv, vbox-fv: bee was never tried with a real VirtualBox") {
		t.Errorf("the report does not say what was never tried:\n%s", text)
	}
	clones := 0
	for _, v := range fake.Verbs(t) {
		if v == "clonevm" {
			clones++
		}
	}
	if clones != 2*3 { // a trial, the block that warms up, and one that counts
		t.Errorf("%d guests were made, expected one for each measurement", clones)
	}
	fake.WantNothingLeft(t, "")
	if left := b.Must("ps", "-a"); strings.Contains(left, "guests") {
		t.Errorf("runs are left:\n%s", left)
	}
}

// TestBenchWithoutTheMachine: a machine that VirtualBox does not have loses its column, with the reason and the remedy.
func TestBenchWithoutTheMachine(t *testing.T) {
	t.Parallel()
	b, fake := guests(t)
	state := fake.Read(t)
	state.Machines[0].Name = "another"
	fake.Write(t, state)
	var p struct {
		Environments []struct{ Name, Dropped, Remedy, Untried string }
	}
	b.JSON(&p, "bench", "plan", b.File("study.yaml", guestStudy), "--json")
	for _, e := range p.Environments {
		if lost := strings.HasPrefix(e.Name, "vbox"); lost != (e.Dropped != "" && e.Remedy != "") || lost && e.Untried == "" {
			t.Errorf("%+v", e)
		}
	}
	fake.WantNothingLeft(t, "")
}

// TestInterruptedGuests: a run whose guest does not boot ends by Ctrl-C and leaves nothing; after kill -9, a later stop
// deletes the guest.
func TestInterruptedGuests(t *testing.T) {
	t.Parallel()
	b, fake := guests(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		state := fake.Read(t)
		state.Addr = "10.255.255.1:1" // nobody answers
		state.Calls = nil
		fake.Write(t, state)
		c := b.Command("run", "--site", "vbox-pv", b.File("job.yaml", b.Read("job.yaml")))
		var log bytes.Buffer
		c.Stdout, c.Stderr = &log, &log
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		fake.Eventually(t, "the guest runs", func(s *virtualboxfake.State) bool { return len(s.Machines) == 2 && s.Machines[1].State == "running" })
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		c.Wait() //nolint:errcheck // it was interrupted
		if signal == syscall.SIGKILL {
			b.Must("stop", "small") // a process in the background has continued the run
		}
		fake.Eventually(t, "the guest is deleted; bee printed "+log.String(), func(s *virtualboxfake.State) bool { return len(s.Machines) == 1 })
	}
}
