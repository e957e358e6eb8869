package recordcmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestSpentText(t *testing.T) {
	testkit.Wording(t, "two uses", spentText(map[report.Use]float64{report.OnCompute: 60, report.OnNoSite: 20}))
}
