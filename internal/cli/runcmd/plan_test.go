package runcmd

import (
	"bytes"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/testkit"
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
	var text strings.Builder
	synctest.Test(t, func(t *testing.T) { // for its clock
		list := []control.Prospect{
			{Site: "rack", Summary: "2 hosts by ssh", Reason: "use site rack: connect by ssh to n1.example.org: ssh: Could not resolve hostname", Remedy: "Check the name."},
			{Site: "lab", Summary: "4 emulated hosts on this machine", Usable: true, Start: time.Now()},
			{Site: "spare", Summary: "this machine", Usable: true, Start: time.Now()},
		}
		for _, c := range []struct {
			name   string
			change func(p *control.Prospect)
		}{
			{"nothing is known", func(*control.Prospect) {}},
			{"slots and prices", func(p *control.Prospect) {
				p.SlotSeconds, p.ComputeSeconds, list[2].CostPerHour = 4*3600, 3.5*3600, 1.5
			}},
			{"a queue that is longer than `wait`", func(p *control.Prospect) { p.Start, p.WaitSeconds = time.Now().Add(time.Hour), 600 }},
			{"a short notice", func(p *control.Prospect) { p.Start, p.NoticeSeconds = time.Now(), 30 }},
			{"preemption", func(p *control.Prospect) { p.PreemptedSeconds = 90 }},
			{"a late start, and secrets of this machine", func(p *control.Prospect) { p.StartReason, p.Attended = "maintenance is over then", true }},
		} {
			c.change(&list[1])
			var out bytes.Buffer
			if err := explain(&out, list); err != nil {
				t.Fatal(err)
			}
			table, _, _ := strings.Cut(out.String(), "\n\n")
			for line := range strings.Lines(table) {
				if len(line) > 83 && list[1].WaitSeconds == 0 { // a date and its reason take more
					t.Errorf("wider than a terminal: %q", line)
				}
			}
			clock := list[1].Start.Local().Format("2006-01-02 15:04") // which depends on where the test runs
			text.WriteString("> " + c.name + "\n" + strings.ReplaceAll(out.String(), clock, "YYYY-MM-DD hh:mm") + "\n")
		}
	})
	testkit.Golden(t, "plan", text.String())
}
