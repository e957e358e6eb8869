package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/node/protocol"
)

// A job that prints nothing for hours has not been starting all that time.
func TestTheTerminalIsTheJobsOnceItRuns(t *testing.T) {
	for _, phase := range []protocol.Phase{protocol.PhaseSetup, protocol.PhaseRun} {
		var shown strings.Builder
		p := &progress{out: &shown, live: true}
		p.report(protocol.Event{Phase: protocol.PhaseStart, Begin: true})
		if !strings.HasSuffix(shown.String(), "starting containers …") {
			t.Fatalf("shown: %q", shown.String())
		}
		p.report(protocol.Event{Phase: phase, Begin: true})
		if !strings.HasSuffix(shown.String(), "\r\x1b[K") {
			t.Errorf("%s: shown: %q", phase, shown.String())
		}
	}
}

// What takes long is told with how long it has taken: on a terminal in one line,
// elsewhere once in a while.
func TestWaitingIsToldWithItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // where no time passes
		for live, want := range map[bool]string{true: "\r\x1b[Kbooting after 3s …\r\x1b[K", false: "bee: booting after 3s\n"} {
			var shown strings.Builder
			p := &progress{out: &shown, live: live}
			for _, waited := range []time.Duration{3100 * time.Millisecond, 6100 * time.Millisecond} {
				p.report(protocol.Event{Phase: protocol.PhaseStart, Rank: -1, Message: "booting", Waited: waited})
			}
			p.report(protocol.Event{Phase: protocol.PhaseRun, Begin: true})
			if shown.String() != want {
				t.Errorf("on a terminal %t: %q", live, shown.String())
			}
		}
	})
}
