package head

import (
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
)

// TestFullDisksOfGuests: the job sees errors of a disk only, and its user has to know why.
func TestFullDisksOfGuests(t *testing.T) {
	if got := fullDisks([]core.NodeReport{{Host: "a"}, {Host: "b"}}); got != "" {
		t.Errorf("without a reason: %s", got)
	}
	if got := fullDisks([]core.NodeReport{{Host: "a", Full: true}, {Host: "b"}, {Host: "c", Full: true}}); !strings.Contains(got, "on a, c,") || !strings.Contains(got, "`scratch:`") {
		t.Errorf("two of three: %s", got)
	}
}
