package recordcmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/report"
)

func TestSpentText(t *testing.T) {
	if text := spentText(map[report.Use]float64{report.OnCompute: 60, report.OnNoSite: 20}); text != "1m0s computing (75 %), 20.0s before and between attempts" {
		t.Errorf("in words: %q", text)
	}
}
