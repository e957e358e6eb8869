package cli

import (
	"strings"
	"testing"

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
