package recordcmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/web"
)

// TestActionsAreCommands: each action of a page is one call of bee, with the attempt that the
// page has shown, and nothing else is called.
func TestActionsAreCommands(t *testing.T) {
	w := webDesk(t)
	w.put(t, state.Run{ID: "run1", State: state.Running, Created: time.Now()})
	dir := t.TempDir()
	calls := filepath.Join(dir, "calls")
	w.s.Binary = filepath.Join(dir, "bee")
	script := fmt.Sprintf("#!/bin/sh\nshift 5\necho \"$@\" >> %s\necho 'bee: of the command' >&2\n[ \"$1\" != run ] || echo run2\n", calls)
	if err := core.WriteProgram(w.s.Binary, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name report.ActionName
		site string
		want string
	}{
		{report.ActionStop, "", "stop --no-wait --attempt=3 -- run1"},
		{report.ActionCheckpoint, "", "checkpoint --attempt=3 -- run1"},
		{report.ActionMove, "", "move --attempt=3 -- run1"},
		{report.ActionMove, "rack", "move --attempt=3 --site=rack -- run1"},
		{report.ActionResume, "--trust", "resume --attempt=3 --site=--trust -- run1"},
		{report.ActionAgain, "", "run --detach --again=run1"},
	} {
		done, err := w.Act(t.Context(), "run1", web.Asked{Name: c.name, Attempt: 3, Site: c.site})
		if err != nil || strings.Join(done.Printed, "|") != "of the command" || (done.Run == "run2") != (c.name == report.ActionAgain) {
			t.Errorf("%s: %+v, %v", c.name, done, err)
		}
		raw, err := os.ReadFile(calls)
		if err = errors.Join(err, os.Remove(calls)); err != nil || string(raw) != c.want+"\n" {
			t.Errorf("%s: bee %s, expected bee %s, %v", c.name, raw, c.want, err)
		}
	}
	for what, asked := range map[string]struct {
		run  string
		name report.ActionName
	}{"no such action": {"run1", "rm"}, "no such run": {"--all", report.ActionStop}} {
		if _, err := w.Act(t.Context(), asked.run, web.Asked{Name: asked.name}); !core.IsKind(err, core.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := os.Stat(calls); err == nil {
		t.Error("bee was called for what is not there")
	}
	failing := `echo '{"error":{"kind":"invalid","message":"it has moved","remedy":"Look again."}}' >&2; exit 2`
	if err := core.WriteProgram(w.s.Binary, []byte("#!/bin/sh\n"+failing), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Act(t.Context(), "run1", web.Asked{Name: report.ActionStop}); !core.IsKind(err, core.Invalid) || core.Remedy(err) != "Look again." {
		t.Errorf("a command that is refused: %v", err)
	}
}
