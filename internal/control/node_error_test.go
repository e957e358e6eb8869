package control

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestTheErrorOfAHeadIsTheReason of its loss, and what else a site may leave in its place is
// not.
func TestTheErrorOfAHeadIsTheReason(t *testing.T) {
	gone := &core.Error{Kind: core.Lost, Err: errors.New("it has ended")}
	left := func(kind core.Kind, message, remedy string) string {
		raw, err := json.Marshal(rpc.Failure{Kind: kind.String(), Message: message, Remedy: remedy})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	for name, c := range map[string]struct {
		file, log       string
		message, remedy string
		kind            core.Kind
	}{
		"its error":              {left(core.Unsupported, "listen: kind=lost err=x\nno", `Take "eth0".`), "", "start on site a: listen: kind=lost err=x", `Take "eth0".`, core.Unsupported},
		"without a remedy":       {left(core.Lost, "EOF", ""), "a log", "start on site a: EOF", "bee logs --node 0", core.Lost},
		"one that no site mends": {left(core.Permanent, "a b", ""), "", "start on site a: a b", "bee logs --node 0", core.Lost},
		"a terminal's escapes":   {left(core.Lost, "\x1b[2J", ""), "", `\x1b[2J`, "bee logs --node 0", core.Lost},
		"no error":               {"{}", "panic: x", "it has ended; its node's log ends with: panic: x", "bee logs --node 0", core.Lost},
		"no JSON":                {"{", "", "it has ended", "", core.Lost},
		"too large":              {left(core.Unsupported, strings.Repeat("x", headlink.MaxNodeError), ""), "", "it has ended", "", core.Lost},
		"nothing":                {"", "", "it has ended", "", core.Lost},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
			dir := w.sites["a"].dir
			for path, text := range map[string]string{protocol.NodeErrorPath(dir, 0): c.file, protocol.NodeLogPath(dir, 0): c.log} {
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if text == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			a := attemptOf(control(w.Controller, run, Submission{Job: spec.Job{Nodes: 1}}), &drive{}, spec.Site{Name: "a"}, nil, state.Attempt{Run: run.ID, N: 1})
			a.at.lease = w.sites["a"].lease(core.Owner{Run: run.ID, Attempt: 1})
			err := a.at.headFiles().WithNodeError(t.Context(), gone)
			if !strings.Contains(err.Error(), c.message) || !strings.Contains(core.Remedy(err), c.remedy) || core.KindOf(err) != c.kind || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("%v (%v): %s", err, core.KindOf(err), core.Remedy(err))
			}
		})
	}
}
