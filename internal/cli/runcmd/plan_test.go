package runcmd

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control"
)

// lines takes so many writes, and then has no space left.
type lines int

func (l *lines) Write(b []byte) (int, error) {
	if *l--; *l < 0 {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

func TestAPlanThatIsCutShortFails(t *testing.T) {
	space := lines(2) // for the table
	list := []control.Prospect{{Site: "rack", Reason: "it is down"}}
	if err := explain(&space, list); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("why the site cannot is lost, and that is %v", err)
	}
}

func TestAPlanFitsATerminal(t *testing.T) {
	list := []control.Prospect{
		{Site: "rack", Summary: "2 hosts by ssh", Reason: "use site rack: connect by ssh to n1.example.org: ssh: Could not resolve hostname", Remedy: "Check the name."},
		{Site: "lab", Summary: "4 emulated hosts on this machine", Usable: true, Start: time.Now()},
		{Site: "spare", Summary: "this machine", Usable: true, Start: time.Now()},
	}
	const reason = "\nrack cannot take it: connect by ssh to n1.example.org: ssh: Could not resolve hostname\n  → Check the name.\n"
	plan := func() string {
		var out bytes.Buffer
		if err := explain(&out, list); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	want := "SITE   WHAT                              START\n" +
		"rack   2 hosts by ssh                    -      cannot\n" +
		"lab    4 emulated hosts on this machine  now    runs here\n" +
		"spare  this machine                      now\n" + reason
	if got := plan(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	list[1].SlotSeconds, list[1].ComputeSeconds, list[2].CostPerHour = 4*3600, 3.5*3600, 1.5
	got := plan()
	for _, part := range []string{"SLOT", "COMPUTE", "COST/H", "4h  ", "3h30m  ", "1.50", reason} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
	list[1].Start, list[1].WaitSeconds = time.Now().Add(time.Hour), 600
	if got := plan(); !strings.Contains(got, "left after 10m0s\n") || strings.Count(got, "runs here") != 1 || !strings.Contains(got, "1.50    runs here") {
		t.Errorf("a queue that is longer than `wait`:\n%s", got)
	}
	list[1].Start = time.Now()
	list[1].NoticeSeconds = 30
	if got := plan(); !strings.Contains(got, "Where lab takes the hosts back early") || !strings.Contains(got, "  30.0s later if it is cancelled\n") {
		t.Errorf("a short notice is not shown:\n%s", got)
	}
	list[1].PreemptedSeconds = 90
	if got := plan(); !strings.Contains(got, "  1m30s later if it has to make way") {
		t.Errorf("preemption is not shown:\n%s", got)
	}
	list[1].StartReason, list[1].Attended = "maintenance is over then", true
	if got := plan(); !strings.Contains(got, "\nlab does not start it at once: maintenance is over then\n") || !strings.Contains(got, "in the queue of lab, this machine has to be on") {
		t.Errorf("why it starts late, or that its secrets need this machine, is not shown:\n%s", got)
	}
	for line := range strings.Lines(got[:strings.Index(got, reason)]) {
		if len(line) > 83 {
			t.Errorf("wider than a terminal: %q", line)
		}
	}
}
