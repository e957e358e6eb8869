package vm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestKilledWhileMachinesAreSaved: controllers, a hypervisor and the head are
// killed while a run's machines are saved, each at another moment of it, and a
// hypervisor while they are brought up again. A checkpoint that was cut short is
// never one: each time the run continues from the one that is whole, and its result is
// right. Each machine has a volume of its own, and rings, as by default.
func TestKilledWhileMachinesAreSaved(t *testing.T) {
	testkit.Long(t, "TestMachinesAreSavedAndGoOn, and TestKillAnythingAtAnyMoment of test/e2e")
	besideOthers(t)
	b, sites, job := ringBee(t, "vhost", false)
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "--detach", job))
	printed(t, b, id, 1, 50)

	t.Log("the controller, while the machines are saved at an attempt's end, and the next one, while it brings that home")
	b.Must("move", id)
	cutShort(t, b, id, "node0/memory.zst", func() { testkit.Kill(testkit.AwaitControllers(t, b, 1)[0]) })
	b.Must("supervise") // starts another
	home := filepath.Join(b.Dir, "state/runs", id, "checkpoints/1")
	appears(t, b, id, filepath.Join(home, "*"))
	testkit.Kill(testkit.AwaitControllers(t, b, 1)[0])
	b.Must("supervise")
	t.Logf("killed with %s at home", matches(filepath.Join(home, "*"), filepath.Join(home, "*/*")))
	printed(t, b, id, 2, 0)
	lines := strings.Fields(b.Must("logs", "--attempt", "1", id))
	if last, err := strconv.Atoi(lines[len(lines)-1]); err != nil || first(t, b, id, 2) != last+50 {
		t.Fatalf("attempt 1 ended with %d, and attempt 2 began with %d", last, first(t, b, id, 2))
	}

	halfSaved := killMachines(t, b, id)
	b.Touch(id, "enough")
	v := b.Await(id, savedTime)
	const attempts = 5
	if v.State != "succeeded" || len(v.Attempts) != attempts {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	for _, a := range v.Attempts[1 : attempts-1] {
		if a.Error == nil {
			t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
		}
		t.Log(a.Error.Message)
	}
	ringed(t, b, false)
	if f := b.Fail("--sites", sites, "vm", "restore", halfSaved); f.Kind != "not found" || !strings.Contains(f.Message, halfSaved) {
		t.Errorf("bringing up machines that were half saved: %+v", f)
	}
	b.CheckNothingLeft(30 * time.Second)
}

// killMachines kills a hypervisor while its memory is saved, the head, and a hypervisor
// while machines are restored, in attempts 2, 3 and 4. The first of these were to be
// saved in the directory that it returns.
func killMachines(t *testing.T, b *testkit.Bee, id string) string {
	t.Helper()
	t.Log("a hypervisor, while its memory is saved and the machines shall go on")
	saved := filepath.Join(b.Work, "saved")
	snapshot := b.Command("vm", "snapshot", id, saved)
	var printed strings.Builder
	snapshot.Stderr = &printed
	if err := snapshot.Start(); err != nil {
		t.Fatal(err)
	}
	victim := machinesIn(id, 2)[1]
	cutShort(t, b, id, "node1/memory.zst", func() { testkit.Kill(victim) })
	if err := snapshot.Wait(); err == nil || !strings.Contains(printed.String(), "two-1") {
		t.Errorf("the command says: %v, %s", err, printed.String())
	}
	checkGoesOn(t, b, id, 3)

	t.Log("the head, when its own machine is saved")
	machines := machinesIn(id, 3)
	head := parentOf(t, machines[0])
	b.Must("move", id)
	cutShort(t, b, id, "node1/memory.zst", func() { syscall.Kill(machines[1], syscall.SIGSTOP) }) // else it may be saved first
	cutShort(t, b, id, "node0/machine.json", func() { testkit.Kill(head) })

	t.Log("a hypervisor, while the machines are brought up again")
	testkit.Eventually(t, savedTime, func() error {
		machines := machinesIn(id, 4)
		if len(machines) < 2 {
			return b.Explained(id, "they are not there")
		}
		testkit.Kill(machines[1])
		return nil
	})
	checkGoesOn(t, b, id, 5)
	return saved
}

// cutShort does something as soon as a file of a node's machine is there in a
// snapshot that is not whole.
func cutShort(t *testing.T, b *testkit.Bee, id, file string, do func()) {
	t.Helper()
	run := filepath.Join(b.Dir, "scratch/bee", id)
	fresh := []string{filepath.Join(run, "snapshots/*.new"), filepath.Join(run, "host*/run/snapshots/*.new")} // shared, or each host's own
	appears(t, b, id, filepath.Join(fresh[0], file), filepath.Join(fresh[1], file))
	do()
	t.Logf("killed with %s", matches(filepath.Join(fresh[0], "*/*"), filepath.Join(fresh[1], "*/*")))
}

// appears waits for a file of which one of some patterns reports, without a pause
// that the moment could pass in.
func appears(t *testing.T, b *testkit.Bee, id string, patterns ...string) {
	t.Helper()
	for deadline := time.Now().Add(savedTime); len(matches(patterns...)) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("there is no %s\n%s", patterns, b.Try("logs", "--controller", id).Stdout)
		}
	}
}

func matches(patterns ...string) (all []string) {
	for _, p := range patterns {
		some, _ := filepath.Glob(p)
		all = append(all, some...)
	}
	return all
}

// first gives the first number that an attempt has printed.
func first(t *testing.T, b *testkit.Bee, id string, attempt int) int {
	t.Helper()
	word, _, _ := strings.Cut(b.Must("logs", "--attempt", strconv.Itoa(attempt), id), "\n")
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatalf("attempt %d began with %q", attempt, word)
	}
	return n
}

// checkGoesOn waits for an attempt that continues where attempt 2 did, from what
// attempt 1 has saved.
func checkGoesOn(t *testing.T, b *testkit.Bee, id string, attempt int) {
	t.Helper()
	printed(t, b, id, attempt, 0)
	if now, then := first(t, b, id, attempt), first(t, b, id, 2); now != then {
		t.Fatalf("attempt %d began with %d, attempt 2 with %d\n%s", attempt, now, then, b.Must("show", id))
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if left := machinesIn(id, attempt-1); len(left) > 0 {
			return errors.New("a machine of the attempt before is left")
		}
		return nil
	})
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "PPid:")
	parent, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil || parent <= 1 {
		t.Fatalf("process %d has parent %d, %v", pid, parent, err)
	}
	return parent
}
