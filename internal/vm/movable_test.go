package vm

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestNothingComesFromAHaltedGuest: nobody waits for one that was brought up and
// never goes on, as another machine of its run could not be.
func TestNothingComesFromAHaltedGuest(t *testing.T) {
	m := &movable{container: &container{}, halted: true, met: make(chan struct{})}
	if err := m.Get(t.Context(), "/data", []string{"*"}, t.TempDir()); !core.IsKind(err, core.NotFound) {
		t.Errorf("it says %v", err)
	}
}
