package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/state"
)

// asElsewhere has the lock of a run say that a process of another machine has it.
func (d *desk) asElsewhere(id string) {
	d.t.Helper()
	path := filepath.Join(d.store.RunDir(id), "lock")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d 1 another\nlogin2\n", os.Getpid()), 0o600); err != nil {
		d.t.Fatal(err)
	}
}

// TestStopSaysThatItIsAskedElsewhere, and starts no controller here.
func TestStopSaysThatItIsAskedElsewhere(t *testing.T) {
	d := newDesk(t, state.Run{ID: "aaaa1111", Name: "pi", State: state.Running})
	controller, err := d.store.Locks().Acquire("aaaa1111")
	if err != nil {
		t.Fatal(err)
	}
	defer controller.Unlock()
	d.asElsewhere("aaaa1111")
	if err := d.bee("stop", "--no-wait", "pi"); err != nil || !strings.Contains(d.err.String(), "login2") {
		t.Errorf("%v, and it says %q", err, d.err.String())
	}
	if run, err := d.store.Run(t.Context(), "aaaa1111"); err != nil || !run.StopAsked {
		t.Errorf("nothing was asked: %+v, %v", run, err)
	}
	if _, err := os.Stat(filepath.Join(d.dir, "s", "controllers.log")); err == nil {
		t.Error("a controller was started here")
	}
}
